"""Run Terraform on one synthesized stack: its output goes to a log, progress and errors go to the caller."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from frazil.model.errors import MissingToolError, ServiceError
from infra.terraform.causes import hint_for
from infra.terraform.deferred_signals import signals_deferred
from infra.terraform.process import typed
from infra.terraform.run_lock import to_inherit
from infra.terraform.states import State
from infra.terraform.tail import Tail

LOCK_FILE = ".terraform.lock.hcl"
PLANNED_CHANGES = 2
"""The exit status of `plan -detailed-exitcode` if the plan has changes."""

NO_STATE = "No state file was found"
"""What `state list` prints if the stack was never applied."""

MAY_HOLD_SECRETS = frozenset({"output", "show", "pull"})
"""Commands and subcommands whose output must not reach the log."""
PARSED = frozenset({"output", "show", "state"})
"""Commands whose output must not mix with that of another process that writes to the log."""

Tell = Callable[[str], None]
"""Takes a line of progress."""


class TerraformError(ServiceError):
    """Terraform failed. Completed changes are in its state, so a rerun of the command resumes."""


UNKNOWN = "read the log, fix the cause, and rerun the same command: it resumes where it stopped"


@dataclass(frozen=True, slots=True)
class Terraform:
    """Terraform for the synthesized stack in `directory`.

    `env` is the whole environment of its process; secrets are passed in it, never as arguments. `options` select the
    environment on the command line of `infra.deploy`, for hints.
    """

    stack: str
    directory: Path
    env: Mapping[str, str]
    log: Path
    tell: Tell
    options: str = "--profile=PROFILE --environment=NAME"

    @property
    def data(self) -> Path:
        """The folder of what `init` makes."""
        return self.directory / (self.env.get("TF_DATA_DIR") or ".terraform")

    def init(self) -> None:
        """Initialise providers and backend, unless both are unchanged since the last init.

        The recorded backend is deleted first, because Terraform refuses a changed one, such as another region of the
        same bucket. `-reconfigure` would do the same, but HCP Terraform rejects it. Callers make sure that the
        recorded backend has no state that the new one lacks.
        """
        last, lock = Initialised(self.data), self.directory / LOCK_FILE
        wanted = _terraform_blocks(self.directory)
        if last.is_as(wanted):
            shutil.copyfile(last.lock, lock)
            return
        last.backend.unlink(missing_ok=True)
        self._run("init")
        if lock.exists():
            last.remember(wanted, lock)

    def validate(self) -> None:
        self._run("validate")

    def apply(self) -> None:
        self._run("apply", "-auto-approve")

    def apply_only(self, addresses: Sequence[str]) -> None:
        """Apply the changes of these resources and of those that they depend on."""
        self._run("apply", "-auto-approve", *(f"-target={address}" for address in addresses))

    def destroy(self) -> None:
        self._run("destroy", "-auto-approve")

    def added(self, kind: str, resources: Sequence[str]) -> list[str]:
        """Return the addresses of the resources of one type in the configuration that are not among `resources`."""
        made = {address.partition("[")[0] for address in resources}
        return [
            address for address in _configured(self.directory) if address.startswith(f"{kind}.") and address not in made
        ]

    def removed(self, resources: Sequence[str]) -> list[str]:
        """Return the addresses of the managed ones among `resources` that the configuration no longer has."""
        configured = set(_configured(self.directory))
        made = (address for address in resources if not address.startswith("data."))
        return [address for address in made if address.partition("[")[0] not in configured]

    def plan(self) -> bool:
        """Print the plan and return whether it has changes. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("plan", "-detailed-exitcode"))
        if status not in {0, PLANNED_CHANGES}:
            raise self._failed("plan", shown)
        self.tell("\n".join(_plan_itself(shown)))
        return status == PLANNED_CHANGES

    def outputs(self) -> dict[str, Any]:
        """Return the outputs by name; {} if the stack was never applied. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("output", "-json"))
        if status != 0:
            raise self._failed("output", shown)
        return {name: output["value"] for name, output in json.loads("\n".join(shown) or "{}").items()}

    def resources(self) -> list[str]:
        """Return the addresses in the state; [] if it was never applied. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("state", "list"))
        if status != 0 and not any(NO_STATE in line for line in shown):
            raise self._failed("state list", shown)
        return shown if status == 0 else []

    def named(self) -> list[tuple[str, str]]:
        """Return type and name of all managed resources with a name. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("show", "-json"))
        if status != 0:
            raise self._failed("show", shown)
        root = json.loads("\n".join(shown) or "{}").get("values", {}).get("root_module", {})
        made = [each for each in root.get("resources", ()) if each["mode"] == "managed"]
        return [(each["type"], each["values"]["name"]) for each in made if each["values"].get("name")]

    def pull(self) -> State:
        """Return the state; {} if the stack was never applied. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("state", "pull"))
        if status != 0:
            raise self._failed("state pull", shown)
        state: State = json.loads("\n".join(shown) or "{}")
        return state

    def push(self, state: Path) -> None:
        """Replace the state by that of a file. Raises TerraformError if the stack has a newer or a different one."""
        shown, status = self._carry_out(("state", "push", str(state)))
        if status != 0:
            raise self._failed("state push", shown)

    def forget(self, addresses: Sequence[str]) -> None:
        """Remove resources from the state without asking their provider. Raises TerraformError if Terraform fails."""
        shown, status = self._carry_out(("state", "rm", *addresses))
        if status != 0:
            raise self._failed("state rm", shown)

    def _run(self, verb: str, *options: str) -> None:
        shown, status = self._carry_out((verb, *options))
        if status != 0:
            raise self._failed(verb, shown)

    def _carry_out(self, command: Sequence[str]) -> tuple[list[str], int]:
        words = ("terraform", *command, *_quiet(command[0]))
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a+b", opener=_private) as log:
            log.write(f"\n{self.stack}: {' '.join(words)}\n".encode())
            log.flush()
            try:
                return self._answered(words, log) if command[0] in PARSED else self._follow(words, log)
            except FileNotFoundError as error:
                raise MissingToolError(
                    "`terraform` is not on PATH", hint="run `scripts/deploy.sh check`, which lists what to install"
                ) from error

    def _answered(self, words: Sequence[str], log: BinaryIO) -> tuple[list[str], int]:
        """Run a command that only reads or edits the state. Its output goes to the log unless it may hold secrets.

        The lines of a command that succeeded are those of its standard output: Terraform writes warnings, such as of
        a CLI configuration that does not exist, to the other.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            shown, status = self._follow(words, output, errors)
            errors.seek(0)
            warned = errors.read().decode(errors="replace").splitlines()
        if MAY_HOLD_SECRETS.isdisjoint(words[1:3]):
            log.write("".join(f"{line}\n" for line in (*shown, *warned)).encode())
        return (shown if status == 0 else [*shown, *warned]), status

    def _follow(self, words: Sequence[str], output: BinaryIO, errors: BinaryIO | None = None) -> tuple[list[str], int]:
        """Run Terraform with its output appended to a file, and return its lines and the exit status.

        Standard error goes to the same file unless `errors` is given.

        With a pipe instead of a file, the end of this process would end Terraform too, at its next line, and what it
        was creating would be missing from its state.
        """
        unread = Tail(output, os.fstat(output.fileno()).st_size)
        starting = contextlib.ExitStack()
        starting.enter_context(signals_deferred())
        with starting, self._started(words, output, errors) as process:
            shown: list[str] = []

            def follow() -> None:
                starting.close()
                for line in unread.lines(process):
                    shown.append(line)
                    self._progress(line)

            self._without_interruption(follow, stop=lambda: process.send_signal(signal.SIGINT))
        if process.returncode < 0:
            _end_providers_of(process.pid)
        return shown, process.returncode

    def _started(self, words: Sequence[str], output: BinaryIO, errors: BinaryIO | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            cwd=self.directory,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors or subprocess.STDOUT,
            process_group=0,  # Ctrl-C must not reach Terraform
            umask=0o077,  # states and plans may hold secrets
            pass_fds=to_inherit(),  # Terraform may outlive this process, and no other run may begin before it ends
        )

    def _without_interruption(self, follow: Callable[[], None], *, stop: Callable[[], None]) -> None:
        """Stop after this stack on the first Ctrl-C, and interrupt Terraform on the second.

        An interrupted Terraform may drop requests in flight; their resources are then missing from the state.
        """
        try:
            follow()
        except KeyboardInterrupt:
            self.tell(f"{self.stack}: interrupted; finishing this stack first (press Ctrl-C again to stop at once)")
            try:
                follow()
            except KeyboardInterrupt:
                stop()
                follow()
            raise

    def _progress(self, line: str) -> None:
        done = re.match(r"(\S+): (Creation|Modifications|Destruction) complete after (\S+)", line)
        if done:
            self.tell(f"  {self.stack}: {done[1]} {DONE[done[2]]} ({done[3]})")

    def _failed(self, verb: str, shown: Sequence[str]) -> TerraformError:
        errors = list(_errors(shown)) or list(shown[-3:])
        return TerraformError(
            f"terraform {verb} of the stack {self.stack} failed: {' | '.join(errors)[:1000]} (full log: {self.log})",
            hint=hint_for("\n".join(shown), terraform=typed(self.directory, self.env), options=self.options) or UNKNOWN,
        )


@dataclass(frozen=True, slots=True)
class Initialised:
    """A record of the last `init` of a stack, kept next to the installed providers."""

    data: Path

    @property
    def lock(self) -> Path:
        return self.data / LOCK_FILE

    @property
    def _wanted(self) -> Path:
        return self.data / "initialised"

    @property
    def backend(self) -> Path:
        """The file in which `terraform init` records the backend; it is not the state."""
        return self.data / "terraform.tfstate"

    def is_as(self, wanted: str) -> bool:
        """Return whether the settings are unchanged and all that `init` made is still there."""
        providers = list((self.data / "providers").glob("*/*/*/*/*"))
        return (
            self._wanted.exists()
            and self._wanted.read_text() == wanted
            and self.lock.exists()
            and self.backend.exists()
            and bool(providers)
            and all(provider.exists() for provider in providers)
        )

    def remember(self, wanted: str, lock: Path) -> None:
        shutil.copyfile(lock, self.lock)
        self._wanted.write_text(wanted)

    def record_backend(self, made: bytes) -> None:
        """Replace the record of the backend, so that a return to the former one is noticed.

        The next `init` is not skipped: what it would be compared with was of the former backend.
        """
        self._wanted.unlink(missing_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)
        written = self.backend.with_suffix(".new")
        written.write_bytes(made)
        written.replace(self.backend)


def _private(path: str, flags: int) -> int:
    """Open a file that only this user may read, also if others could read it before."""
    opened = os.open(path, flags, 0o600)
    os.fchmod(opened, 0o600)
    return opened


def _terraform_blocks(directory: Path) -> str:
    """Return the `terraform` blocks of a stack, which name its providers and backend, as JSON."""
    files = sorted(directory.glob("*.tf.json"))
    return json.dumps([json.loads(file.read_text()).get("terraform") for file in files], sort_keys=True)


def _configured(directory: Path) -> Iterator[str]:
    """Yield the addresses of the managed resources in a stack's configuration."""
    for file in directory.glob("*.tf.json"):
        for kind, resources in json.loads(file.read_text()).get("resource", {}).items():
            yield from (f"{kind}.{name}" for name in resources)


def _end_providers_of(group: int) -> None:
    """Kill the provider processes that a killed Terraform leaves behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


DONE = {"Creation": "made", "Modifications": "changed", "Destruction": "gone"}


def _quiet(verb: str) -> tuple[str, ...]:
    asks = verb not in {"output", "show", "state", "validate"}
    return ("-no-color", *(("-input=false",) if asks else ()))


def _errors(shown: Sequence[str]) -> Iterator[str]:
    """Yield the first line of each error with the resource it concerns."""
    for number, line in enumerate(shown):
        if line.lstrip("│╷ ").startswith("Error: "):
            about = next((after.strip("│ ,") for after in shown[number : number + 4] if " with " in f" {after}"), "")
            yield f"{line.strip('│╷ ')} {about}".strip()


def _plan_itself(shown: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the plan, without those about refreshing and reading."""
    for line in shown:
        if not re.search(r": (Refreshing state|Reading|Read complete|Still reading)", line):
            yield line
