"""Stop if a stack's state is not where the settings say, and copy such states there.

Terraform would find no state in the changed backend, and create all resources a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, assert_never

from infra.deploy.accounts.account_record import STATE, has_resources
from infra.deploy.deployment import STACKS, Deployment
from infra.settings.model import HcpState, LocalState, S3State
from infra.terraform.process import DEFAULT_WORKSPACE, WORKSPACE
from infra.terraform.runner import Initialised, Terraform, TerraformError
from infra.terraform.states import SYNTHESIZED, State
from shared.naming import state_key, workspace_name

MOVED = ".moved"
"""The suffix of a local state file after its state was copied elsewhere."""

TerraformOf = Callable[[str], Terraform]
"""Returns the Terraform of a synthesized stack by name, not initialised."""


@dataclass(frozen=True, slots=True)
class FormerState:
    """A state with resources or outputs at another place than the settings say."""

    stack: str
    expected: str
    found: str
    content: State
    local: Path | None = None
    """The file, if the state is a local one."""

    def is_superseded_by(self, other: State) -> bool:
        """Return whether the other state continues this one, or has all of its resources; without any, its outputs.

        A state that is pushed into an empty bucket gets another lineage and serial.
        """
        if other.get("lineage") == self.content["lineage"]:
            return bool(other["serial"] >= self.content["serial"])
        ours = _ids(self.content)
        if not ours:
            outputs = other.get("outputs", {})
            return all(outputs.get(name) == output for name, output in self.content.get("outputs", {}).items())
        return None not in {id_ for _, id_ in ours} and ours <= _ids(other)


def refuse_former_states(deployment: Deployment, names: Sequence[str], terraform_of: TerraformOf) -> None:
    """Raise TerraformError if the settings' backend lacks a state that an earlier one has.

    `names` are the synthesized stacks. Requests are made only if an earlier backend has resources.
    """
    found = _former_states(deployment, names, terraform_of)
    left = [former for former in found if not _is_moved(former, names, terraform_of)]
    if left:
        places = "; ".join(f"{former.stack}: expected {former.expected}, found {former.found}" for former in left)
        raise TerraformError(
            f"Terraform's state is not where the settings of {deployment.environment} say, so that all resources "
            f"would be created a second time: {places}",
            hint=f"run `{deployment.step('move-states')}`, which copies these states and changes no resource, then "
            f"rerun the same command; or restore the former `backend` in {deployment.settings.source_file}",
        )


def move_states(deployment: Deployment, names: Sequence[str], terraform_of: TerraformOf) -> Iterator[FormerState]:
    """Copy each state to where the settings say, and yield it when Terraform reads it there.

    Local files are renamed afterwards; other copies stay. Raises TerraformError if a different state exists there, or
    if a stack has two former states of which neither continues the other.
    """
    found = list(_former_states(deployment, names, terraform_of))
    for stack in names:
        if formers := [former for former in found if former.stack == stack]:
            yield _settle(deployment, formers, terraform_of(stack))
    refuse_former_states(deployment, names, terraform_of)


def _settle(deployment: Deployment, formers: Sequence[FormerState], terraform: Terraform) -> FormerState:
    """Copy the newest of a stack's former states to where the settings say, and return it.

    The new backend is recorded after the copy: until then the record may be the only trace of a former state.
    """
    record = Initialised(deployment.terraform_data(terraform.stack))
    with _there(terraform) as there, TemporaryDirectory() as folder:
        now, newest = there.pull(), formers[-1]
        if not all(former.is_superseded_by(now) for former in formers):
            newest = _newest(formers, record.backend)
            file = Path(folder) / "state.json"
            file.write_text(json.dumps(newest.content), encoding="utf-8")
            there.push(file)
        record.record_backend(Initialised(there.data).backend.read_bytes())
    for local in (former.local for former in formers if former.local is not None):
        local.replace(_free_name(local.with_name(local.name + MOVED)))
    return newest


def _free_name(wanted: Path) -> Path:
    """Return the path if it does not exist, else with the first free suffix of `-2`, `-3`, …"""
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    return next(path for path in chain([wanted], numbered) if not path.exists())


def _newest(formers: Sequence[FormerState], record: Path) -> FormerState:
    """Return the state that supersedes the others; of equal ones the recorded one, which comes last."""
    for newest in reversed(formers):
        if all(former.is_superseded_by(newest.content) for former in formers):
            return newest
    places = " and ".join(former.found for former in formers)
    raise TerraformError(
        f"the stack {formers[0].stack} has {len(formers)} former states, and neither continues the other: {places}",
        hint="find out which one describes the resources that exist (compare their ids). If it is the local file, "
        f"delete {record}; otherwise rename the local file. Then rerun the same command",
    )


def _former_states(deployment: Deployment, names: Sequence[str], terraform_of: TerraformOf) -> Iterator[FormerState]:
    """Yield the states that matter in local files and in recorded backends, unless the settings say the same.

    A cloud that decides the backend itself has never had another one.
    """
    if deployment.cloud.backend is not None:
        return
    for stack in STACKS:
        expected, file = _place(deployment, stack), _file(deployment, stack)
        if str(file) != expected and file.exists():
            state = json.loads(file.read_text(encoding="utf-8") or "{}")
            yield from _unless_empty(FormerState(stack, expected, str(file), state, file))
        record = Initialised(deployment.terraform_data(stack)).backend
        recorded = _recorded(record)
        found = _recorded_place(recorded)
        if found is not None and found != expected:
            any_stack = terraform_of(names[0])  # the settings may no longer have this one
            state = _pull(replace(any_stack, stack=stack), recorded, found, record)
            yield from _unless_empty(FormerState(stack, expected, found, state))


def _ids(state: State) -> set[tuple[str, str | None]]:
    """Return the type and id of each managed resource instance."""
    managed = (each for each in state.get("resources", ()) if each["mode"] == "managed")
    return {(each["type"], one.get("attributes", {}).get("id")) for each in managed for one in each["instances"]}


def _unless_empty(former: FormerState) -> Iterator[FormerState]:
    """Yield the state if it has resources or outputs: a stack may have outputs alone, which other stacks read."""
    if has_resources(former.content) or former.content.get("outputs"):
        yield former


def _is_moved(former: FormerState, names: Sequence[str], terraform_of: TerraformOf) -> bool:
    if former.stack not in names:
        return False
    with _there(terraform_of(former.stack)) as terraform:
        return former.is_superseded_by(terraform.pull())


@contextmanager
def _there(terraform: Terraform) -> Iterator[Terraform]:
    """Yield the stack's Terraform, initialised with the settings' backend in a data folder of its own.

    The record of the former backend stays: it may be the only one.
    """
    with TemporaryDirectory() as data:
        there = replace(terraform, env={**terraform.env, "TF_DATA_DIR": data})
        there.init()
        yield there


def _pull(terraform: Terraform, recorded: Mapping[str, Any], found: str, record: Path) -> State:
    """Return the state in the recorded backend, or {} if it does not exist."""
    kind, values = recorded["type"], _without_nulls(recorded["config"])
    block = {"cloud": values} if kind == "cloud" else {"backend": {kind: values}}
    workspace = {} if kind == "cloud" else {WORKSPACE: DEFAULT_WORKSPACE}
    env = {name: value for name, value in terraform.env.items() if name != WORKSPACE}
    with TemporaryDirectory() as folder:
        (Path(folder) / SYNTHESIZED).write_text(json.dumps({"terraform": block}), encoding="utf-8")
        former = replace(terraform, directory=Path(folder), env={**env, **workspace, "TF_DATA_DIR": str(record.parent)})
        try:
            return former.pull()
        except TerraformError as unread:
            raise TerraformError(
                f"the settings say another backend than the last run used for the stack {terraform.stack}, and the "
                f"former state, {found}, cannot be read: {unread.what}",
                hint=f"restore access to it, or the former `backend`. If nothing is left there, delete {record}",
            ) from unread


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def _file(deployment: Deployment, stack: str) -> Path:
    return deployment.folder / STATE / f"{stack}.tfstate"


def _place(deployment: Deployment, stack: str) -> str:
    """Return where the settings say that a stack's state is."""
    match deployment.settings.backend:
        case LocalState():
            return str(_file(deployment, stack))
        case S3State(bucket):
            return _object(bucket, state_key(deployment.environment, stack))
        case HcpState(organization, _, hostname):
            return _workspace(workspace_name(deployment.environment, stack), organization, hostname)
        case _ as unknown:
            assert_never(unknown)


def _recorded(record: Path) -> Mapping[str, Any]:
    """Return the type and configuration of the backend that `terraform init` recorded; {} if there is none."""
    try:
        told: Mapping[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    except ValueError as damaged:
        raise TerraformError(
            f"the record of a stack's backend is damaged: {record}: {damaged}",
            hint="set `backend` in the settings to the one that the last run used, delete the file and rerun the same "
            "command. To change `backend`, do so after that run",
        ) from damaged
    return told.get("backend") or {}


def _recorded_place(recorded: Mapping[str, Any]) -> str | None:
    """Return where a recorded backend keeps the state; None for local files, which are found by their names.

    The region, credentials and a project do not count: they do not make it another state.
    """
    kind, values = recorded.get("type"), recorded.get("config", {})
    if kind in {None, "local"}:
        return None
    if kind == "s3":
        return _object(values["bucket"], values["key"])
    workspace = values.get("workspaces") or {}
    return _workspace(str(workspace.get("name")), str(values.get("organization")), str(values.get("hostname")))


def _object(bucket: str, key: str) -> str:
    return f"s3://{bucket}/{key}"


def _workspace(name: str, organization: str, hostname: str) -> str:
    return f"the workspace {name} of the organization {organization} at {hostname}"
