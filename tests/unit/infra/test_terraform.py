"""The runner with a stand-in for Terraform that prints what the real one printed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from frazil.model.errors import MissingToolError, ServiceError
from infra.deploy.console import tell
from infra.terraform.run_lock import alone
from infra.terraform.runner import Terraform, TerraformError

ROOT = Path(__file__).parents[3]
LOCKED = """
Error: Error acquiring the state lock

Error message: resource temporarily unavailable
Lock Info:
  ID:        6f4fb1f5-0f0f-4c93-9f0e-0b2d7b7f0f0f
  Who:       somebody@laptop
"""
EXPIRED = """
Error: validating provider credentials: retrieving caller identity from STS: operation error STS: GetCallerIdentity, \
https response error StatusCode: 403, api error ExpiredToken: The security token included in the request is expired

  with provider["registry.terraform.io/hashicorp/aws"],
  on cdk.tf.json line 12, in provider.aws[0]:
"""
TAKEN = """
aws_kms_key.key: Creation complete after 12s [id=1]

Error: creating S3 Bucket (frazil-dev-lake): operation error S3: CreateBucket, api error BucketAlreadyExists:

  with aws_s3_bucket.lake,
  on cdk.tf.json line 40, in resource.aws_s3_bucket.lake:
"""
NO_PROVIDER = """
Error: Failed to query available provider packages

Could not retrieve the list of available versions for provider hashicorp/aws
"""
DENIED = """
Error: creating IAM Role (frazil-dev-job): operation error IAM: CreateRole, api error AccessDenied: User is not \
authorized to perform: iam:CreateRole

  with aws_iam_role.job,
"""
LOST = "\nError: reading KMS Key: RequestError: send request failed: dial tcp: lookup kms.aws: no such host\n"
PROTECTED = "\nError: Instance cannot be destroyed\n\n  on cdk.tf.json line 40:\n"
UNHEARD_OF = "\nError: something new\n"


@pytest.fixture
def told() -> list[str]:
    return []


def terraform(folder: Path, told: list[str], *, prints: str = "", status: int = 0) -> Terraform:
    (folder / "printed").write_text(prints)
    stand_in = folder / "bin" / "terraform"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\ncat {folder}/printed\nexit {status}\n')
    stand_in.chmod(0o755)
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    return Terraform("lake", folder, {"PATH": path}, folder / "log" / "lake.log", told.append)


@pytest.mark.parametrize(
    ("prints", "what", "hint"),
    [
        (LOCKED, "Error acquiring the state lock", "force-unlock"),
        (EXPIRED, "ExpiredToken", "aws sso login"),
        (TAKEN, "aws_s3_bucket.lake", "the name is already in use"),
        (NO_PROVIDER, "Failed to query", "check the network connection"),
        (DENIED, "iam:CreateRole", "lacks a permission"),
        (LOST, "no such host", "the network connection failed"),
        (PROTECTED, "cannot be destroyed", "production: false"),
        (UNHEARD_OF, "something new", "read the log"),
    ],
)
def test_a_stop_is_told_with_its_cause_and_what_to_do(
    tmp_path: Path, told: list[str], prints: str, what: str, hint: str
) -> None:
    with pytest.raises(TerraformError) as stopped:
        terraform(tmp_path, told, prints=prints, status=1).apply()

    assert "terraform apply of the stack lake failed" in stopped.value.what
    assert what in stopped.value.what
    assert hint in stopped.value.hint
    assert prints.strip() in (tmp_path / "log" / "lake.log").read_text()


def test_a_terraform_that_is_killed_leaves_no_provider_and_says_to_go_on(tmp_path: Path, told: list[str]) -> None:
    """As out of memory would. A provider that stays would hold its locks and its memory."""
    runner = terraform(tmp_path, told, prints="a: Creation complete after 1s\n")
    stand_in, provider = tmp_path / "bin" / "terraform", tmp_path / "provider"
    stand_in.write_text(f"#!/bin/sh\ncat {tmp_path}/printed\nsleep 60 &\necho $! > {provider}\nkill -9 $$\n")

    with pytest.raises(TerraformError) as stopped:
        runner.apply()

    assert "terraform apply of the stack lake failed: a: Creation complete" in stopped.value.what
    assert stopped.value.hint.endswith("rerun the same command: it resumes where it stopped")
    assert told == ["  lake: a made (1s)"]
    assert _ends(int(provider.read_text()))


def _ends(process: int) -> bool:
    try:
        psutil.Process(process).wait(10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_lock_is_released_by_the_command_that_the_hint_prints(tmp_path: Path, told: list[str]) -> None:
    runner = terraform(tmp_path, told, prints=LOCKED, status=1)
    env = {**runner.env, "AWS_PROFILE": "me", "TF_DATA_DIR": "/data of/lake", "TF_WORKSPACE": "default"}

    with pytest.raises(TerraformError) as stopped:
        replace(runner, env=env).apply()

    variables = "AWS_PROFILE=me TF_DATA_DIR='/data of/lake' TF_WORKSPACE=default"
    assert f"run `{variables} terraform -chdir={tmp_path} force-unlock LOCK_ID`" in stopped.value.hint


def test_an_interrupted_run_waits_for_terraform_whose_state_would_lie_otherwise(tmp_path: Path) -> None:
    prints = "".join(f"{name}: Creation complete after 1s\n" for name in ("a", "b", "c"))
    told: list[str] = []

    def interrupted_twice(line: str) -> None:
        told.append(line.split(";", maxsplit=1)[0])
        if told[-1] in {"  lake: a made (1s)", "  lake: b made (1s)"}:
            raise KeyboardInterrupt

    runner = terraform(tmp_path, told, prints=prints)
    with pytest.raises(KeyboardInterrupt):
        replace(runner, tell=interrupted_twice).apply()

    assert told == ["  lake: a made (1s)", "lake: interrupted", "  lake: b made (1s)", "  lake: c made (1s)"]
    assert prints in (tmp_path / "log" / "lake.log").read_text()


def test_providers_are_found_once_for_the_same_settings(tmp_path: Path, told: list[str]) -> None:
    runner = replace(terraform(tmp_path, told), env={**terraform(tmp_path, told).env, "TF_DATA_DIR": "data"})
    provider = tmp_path / "data/providers/registry/hashicorp/aws/6.0.0/linux_amd64"
    stack, lock, record = (tmp_path / name for name in ("cdk.tf.json", ".terraform.lock.hcl", "data/terraform.tfstate"))

    def inits(backend: str) -> int:
        provider.mkdir(parents=True, exist_ok=True)
        stack.write_text(f'{{"terraform": {{"backend": "{backend}"}}, "resource": "{len(told)}"}}')
        runner.init()
        record.touch()
        return (tmp_path / "calls").read_text().count("init")

    lock.write_text("hashes")
    assert inits("a") == 1
    lock.unlink()
    assert (inits("a"), lock.read_text()) == (1, "hashes")
    assert inits("b") == 2
    provider.rmdir()
    runner.init()
    assert (tmp_path / "calls").read_text().count("init") == 3
    assert not record.exists()
    assert [inits("b"), inits("b")] == [4, 4], "without its record of the backend, Terraform wants an init"


def test_what_is_made_is_told_as_it_comes(tmp_path: Path, told: list[str]) -> None:
    terraform(tmp_path, told, prints="aws_kms_key.key: Creation complete after 12s [id=1]\nother\n").apply()

    assert told == ["  lake: aws_kms_key.key made (12s)"]
    assert (tmp_path / "calls").read_text() == "apply -auto-approve -no-color -input=false\n"


@pytest.mark.parametrize(("status", "is_something"), [(0, False), (2, True)])
def test_a_plan_says_whether_there_is_something_to_do(
    tmp_path: Path, told: list[str], status: int, is_something: bool
) -> None:
    prints = "aws_kms_key.key: Refreshing state... [id=1]\nPlan: 1 to add, 0 to change, 0 to destroy.\n"

    assert terraform(tmp_path, told, prints=prints, status=status).plan() is is_something
    assert told == ["Plan: 1 to add, 0 to change, 0 to destroy."]


def test_outputs_come_back_as_values_and_stay_out_of_the_log(tmp_path: Path, told: list[str]) -> None:
    runner = terraform(tmp_path, told, prints='{"bucket": {"sensitive": true, "type": "string", "value": "hush"}}\n')

    assert runner.outputs() == {"bucket": "hush"}
    assert "hush" not in (tmp_path / "log" / "lake.log").read_text()


def test_a_stack_without_a_state_has_no_resources_and_a_state_that_cannot_be_read_is_an_error(
    tmp_path: Path, told: list[str]
) -> None:
    never = "No state file was found!\n\nState management commands require a state file. Run this command\n"

    assert terraform(tmp_path, told, prints=never, status=1).resources() == []
    with pytest.raises(TerraformError, match=r"state list of the stack lake failed: .*no such host"):
        terraform(tmp_path, told, prints=LOST, status=1).resources()


def test_a_missing_terraform_is_named(tmp_path: Path, told: list[str]) -> None:
    runner = Terraform("lake", tmp_path, {"PATH": "/nonexistent"}, tmp_path / "lake.log", told.append)

    with pytest.raises(MissingToolError, match="not on PATH"):
        runner.init()


def test_what_has_a_name_is_known_by_it_and_nothing_of_it_is_logged(tmp_path: Path, told: list[str]) -> None:
    made = [
        {"mode": "managed", "type": "snowflake_database", "values": {"name": "FRAZIL_DEV", "comment": "hush"}},
        {"mode": "managed", "type": "snowflake_grant_ownership", "values": {"id": "1"}},
        {"mode": "data", "type": "aws_region", "values": {"name": "us-east-1"}},
    ]
    shown = json.dumps({"values": {"root_module": {"resources": made}}})

    assert terraform(tmp_path, told, prints=shown).named() == [("snowflake_database", "FRAZIL_DEV")]
    assert terraform(tmp_path, told, prints="{}").named() == []
    assert "hush" not in (tmp_path / "log" / "lake.log").read_text()


@pytest.mark.parametrize("before", [None, 0o644])
def test_only_the_user_may_read_the_log_and_what_terraform_writes(
    tmp_path: Path, told: list[str], before: int | None
) -> None:
    runner = terraform(tmp_path, told)
    if before is not None:
        runner.log.parent.mkdir()
        runner.log.touch(before)
    runner.apply()

    assert [stat.S_IMODE(file.stat().st_mode) for file in (runner.log, tmp_path / "calls")] == [0o600, 0o600]


VERB = """
import os, sys
from pathlib import Path
import infra.deploy.__main__ as command
from infra.deploy.console import tell
from infra.terraform.run_lock import alone
from infra.terraform.runner import Terraform

class Session:
    doing = "apply"

    def __init__(self, given): ...

    def alone(self):
        return alone("dev", Path.cwd() / "dev")

    def run(self, call):
        tell("started")
        here = Path.cwd()
        env = {"PATH": f"{here / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        Terraform("lake", here, env, here / "lake.log", tell).apply()

command.Session = Session
sys.argv[1:] = ["apply", "lake", "--profile=me", "--environment=dev"]
command.main()
"""
SLOW = """#!/bin/sh
echo 'a: Creation complete after 1s'
touch applying
until [ -e go-on ]; do sleep 0.02; done
echo 'b: Creation complete after 1s'
touch state
"""


INTERRUPTED_AT_THE_START = VERB.replace(
    "command.main()",
    """
import signal, subprocess

class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Popen
command.main()
""",
)


@pytest.fixture
def code() -> str:
    return VERB


@pytest.fixture
def verb(tmp_path: Path, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A verb in a process of its own, whose Terraform has made one of two resources and waits for the file `go-on`."""
    script = tmp_path / "bin" / "terraform"
    script.parent.mkdir()
    script.write_text(SLOW)
    script.chmod(0o755)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    try:
        until((tmp_path / "applying").exists)
        yield process
    finally:
        (tmp_path / "go-on").touch()
        process.kill()
        process.communicate()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_hint_names_the_environment_of_the_stack(tmp_path: Path, told: list[str]) -> None:
    refused = "\nError: open snowflake connection: 390144 (08004): JWT token is invalid.\n"
    runner = terraform(tmp_path, told, prints=refused, status=1)

    with pytest.raises(TerraformError) as stopped:
        replace(runner, options="--profile=me --environment=dev").destroy()

    assert "`.venv/bin/python -m infra.deploy abandon-snowflake --profile=me --environment=dev`" in stopped.value.hint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_verb_finishes_its_stack(
    tmp_path: Path, verb: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    verb.send_signal(number)
    assert verb.stderr is not None
    assert any(b"interrupted" in line for line in iter(verb.stderr.readline, b""))
    (tmp_path / "go-on").touch()

    assert verb.wait(30) == 130
    assert (tmp_path / "state").exists()
    assert "b: Creation complete" in (tmp_path / "lake.log").read_text()


@pytest.mark.parametrize("code", [INTERRUPTED_AT_THE_START])
def test_a_verb_that_is_interrupted_while_terraform_starts_finishes_its_stack(
    tmp_path: Path, verb: subprocess.Popen[bytes]
) -> None:
    assert verb.stderr is not None
    assert any(b"interrupted" in line for line in iter(verb.stderr.readline, b""))
    (tmp_path / "go-on").touch()

    assert verb.wait(30) == 130
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_only_a_second_ctrl_c_stops_terraform(
    tmp_path: Path, verb: subprocess.Popen[bytes], first: signal.Signals
) -> None:
    """A closed terminal sends SIGHUP twice, a CI system SIGTERM after SIGINT."""
    verb.send_signal(first)
    assert verb.stderr is not None
    assert any(b"interrupted" in line for line in iter(verb.stderr.readline, b""))
    for number in (signal.SIGHUP, signal.SIGTERM):
        verb.send_signal(number)
        time.sleep(0.2)
    (tmp_path / "go-on").touch()

    assert verb.wait(30) == 130
    assert (tmp_path / "state").exists()


def test_two_signals_at_once_print_no_traceback(tmp_path: Path) -> None:
    """Python runs the handler of SIGHUP first, which finds SIGTERM pending."""
    both = """
import signal
import infra.deploy.__main__ as command
command._end_as_on_ctrl_c()
signal.pthread_sigmask(signal.SIG_BLOCK, command.AS_CTRL_C)
for number in command.AS_CTRL_C:
    signal.raise_signal(number)
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, command.AS_CTRL_C)
    for _ in range(1000): pass
except KeyboardInterrupt:
    print("interrupted")
"""
    ended = subprocess.run(
        [sys.executable, "-c", both],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (ended.stdout, "ignored due to race" in ended.stderr) == ("interrupted\n", False)


def test_a_killed_verb_leaves_terraform_to_finish(tmp_path: Path, verb: subprocess.Popen[bytes]) -> None:
    verb.kill()
    verb.wait()
    (tmp_path / "go-on").touch()

    until((tmp_path / "state").exists)
    assert "b: Creation complete" in (tmp_path / "lake.log").read_text()


def test_a_second_run_waits_for_the_terraform_of_a_killed_one(tmp_path: Path, verb: subprocess.Popen[bytes]) -> None:
    def is_free() -> bool:
        try:
            with alone("dev", tmp_path / "dev"):
                return True
        except ServiceError:
            return False

    verb.kill()
    verb.wait()
    with (
        pytest.raises(ServiceError, match=rf"dev: process {verb.pid} has ended, but .* holds the lock .*dev\.running"),
        alone("dev", tmp_path / "dev"),
    ):
        pass
    (tmp_path / "go-on").touch()

    until(is_free)
    assert (tmp_path / "state").exists()


def test_only_a_reader_that_is_gone_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="No space left"), Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        tell("line")


def test_a_verb_whose_output_nothing_reads_goes_on(tmp_path: Path, verb: subprocess.Popen[bytes]) -> None:
    assert verb.stderr is not None
    verb.stderr.close()
    verb.stderr = None
    (tmp_path / "go-on").touch()

    assert verb.wait(30) == 0
    assert (tmp_path / "state").exists()
