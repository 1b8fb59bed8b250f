"""Synthesize the stacks, then plan, apply or destroy each with Terraform in the given order."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from frazil.model.errors import SettingError
from frazil.model.secret import revealed
from infra.app import Purpose, build
from infra.artefacts.artefact import NOTHING, Artefacts, read_manifest
from infra.components.key_rotation import Code
from infra.deploy.deployment import STACKS, Deployment
from infra.deploy.keys.making import flink_variables, tableflow_variables
from infra.deploy.stacks.former_states import FormerState, move_states, refuse_former_states
from infra.deploy.stacks.unsaved import refuse_unsaved_states
from infra.reports.costs import read_stacks
from infra.settings.model import HcpState
from infra.terraform.process import inherited, is_logging
from infra.terraform.runner import Tell, Terraform, TerraformError
from infra.terraform.states import States, write_reader

NONE_PACKED = Artefacts(NOTHING, NOTHING, NOTHING, NOTHING)

RARE_COLLECTION = {"GOGC": os.environ.get("GOGC", "400")}
"""Saves one seventh of a plan's CPU time for 60 MB of memory, mostly schemas that are never freed."""
DEBUG_LOG = "terraform-debug.log"
FUNCTION_IS_GONE = "ResourceNotFoundException: Function not found"


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks of one deployment, synthesized."""

    deployment: Deployment
    names: tuple[str, ...]
    tell: Tell
    _known: dict[str, Terraform] = field(default_factory=dict)
    _readers: dict[str, Terraform] = field(default_factory=dict)
    _states: States = field(default_factory=States)

    def apply(self, wanted: Sequence[str]) -> None:
        for name in self._present(wanted):
            began = time.monotonic()
            self._warn_of_elastic_ips(name)
            self.tell(f"{name}: applying")
            with self._changing(name) as terraform:
                terraform.apply()
            self.tell(f"{name}: applied ({time.monotonic() - began:.0f} s)")

    def removed(self, wanted: Sequence[str]) -> list[str]:
        """Return the addresses of the resources that the settings no longer have."""
        return [each for name in self._present(wanted) for each in self._ready(name).removed(self._resources(name))]

    def destroy_removed(self, wanted: Sequence[str]) -> list[str]:
        """Destroy the resources that the settings no longer have, and return their addresses.

        For stacks whose resources need an account or a key to be destroyed: an apply of an earlier stack removes both.
        """
        gone = []
        for name in self._present(wanted):
            removed = self._ready(name).removed(self._resources(name))
            if removed:
                count = f"{len(removed)} resource{'' if len(removed) == 1 else 's'}"
                self.tell(f"{name}: destroying {count} that the settings no longer have")
                with self._changing(name) as terraform:
                    terraform.apply_only(removed)
            gone += removed
        return gone

    def destroy(self, wanted: Sequence[str]) -> None:
        """Destroy the stacks in the given order; skip those that were never applied."""
        for name in self._present(wanted):
            if self._resources(name):
                self.tell(f"{name}: destroying")
                self._destroy(name)
            self.tell(f"{name}: gone")

    def _destroy(self, name: str) -> None:
        """Destroy a stack; if its Lambda function no longer exists, first drop its invocations from the state.

        The local double of AWS loses its functions on each restart, and a missing function would block the destroy.
        """
        try:
            with self._changing(name) as terraform:
                terraform.destroy()
        except TerraformError as stopped:
            if FUNCTION_IS_GONE not in stopped.what:
                raise
            self.tell(f"{name}: its Lambda function no longer exists and is not invoked")
            self.forget(name, "aws_lambda_invocation")
            with self._changing(name) as terraform:
                terraform.destroy()

    def forget(self, name: str, kinds: str) -> int:
        """Remove the resources whose types begin with `kinds` from the stack's state, and return their number.

        They stay in the account.
        """
        found = [address for address in self._resources(name) if address.startswith(kinds)]
        if found:
            with self._changing(name) as terraform:
                terraform.forget(found)
        return len(found)

    def plan(self, wanted: Sequence[str]) -> None:
        """Plan the stacks whose dependencies are applied; the others cannot be planned yet."""
        for name in self._present(wanted):
            missing = [each for each in self._before(name) if not self.outputs(each)]
            if missing:
                self.tell(
                    f"{name}: cannot be planned before {', '.join(missing)} is applied, because it uses its outputs"
                )
                continue
            self._warn_of_elastic_ips(name)
            self.tell(f"{name}:")
            if not self._with_keys(name).plan():
                self.tell(f"{name}: no changes")

    def _warn_of_elastic_ips(self, name: str) -> None:
        """Warn if an apply needs more addresses than a new account may have.

        A switch between NAT gateways and NAT instances takes the new addresses before it releases the old ones.
        """
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - takes half a second, and few steps need it

        if name != "network" or (quota := self.deployment.cloud.elastic_ips) is None:
            return
        new = self._ready(name).added("aws_eip", self._resources(name))
        used = len(boto3.client("ec2").describe_addresses()["Addresses"]) if new else 0
        if used + len(new) > quota:
            self.tell(
                f"warning: network: needs {len(new)} more Elastic IPs beside the {used} that the region has now, and "
                f"the default quota is {quota}. Ask AWS for a higher quota (EC2-VPC Elastic IPs), or set "
                "`nat_gateways: one` while you switch `nat`"
            )

    def outputs(self, name: str) -> Mapping[str, Any]:
        """Return the outputs by name; {} if the stack is not part of the environment or was never applied."""
        if name not in self.names:
            return {}
        if name not in self._states.outputs:
            self._states.outputs[name] = self._reader(name).outputs()
        return self._states.outputs[name]

    def resources(self) -> dict[str, list[str]]:
        """Return the resource addresses in Terraform's state, by stack."""
        return {name: self._resources(name) for name in self.names}

    def named(self, name: str) -> list[tuple[str, str]]:
        """Return the type and name of each resource of a stack; [] if the environment has no such stack."""
        if name not in self.names or not self._resources(name):
            return []
        if name not in self._states.named:
            self._states.named[name] = self._ready(name).named()
        return self._states.named[name]

    def _resources(self, name: str) -> list[str]:
        if name not in self._states.resources:
            self._states.resources[name] = self._reader(name).resources()
        return self._states.resources[name]

    def refuse_former_states(self) -> None:
        """Raise TerraformError if a state is not where the settings say."""
        refuse_former_states(self.deployment, self.names, self._terraform)

    def move_states(self) -> Iterator[FormerState]:
        """Copy the states to where the settings say; yield each one that was not there."""
        return move_states(self.deployment, self.names, self._terraform)

    @contextmanager
    def _changing(self, name: str) -> Iterator[Terraform]:
        """Yield the Terraform of a stack whose state it changes, even if it fails."""
        try:
            yield self._with_keys(name)
        finally:
            self._states.forget(name)

    def _reader(self, name: str) -> Terraform:
        """Return the Terraform that reads the state of a stack without its providers, cached."""
        if name not in self._readers:
            ready = self._ready(name)
            env = {**ready.env, "TF_DATA_DIR": str(ready.data)}
            self._readers[name] = replace(ready, directory=write_reader(ready.directory), env=env)
        return self._readers[name]

    def _ready(self, name: str) -> Terraform:
        """Return the initialised Terraform of a stack, cached."""
        if name not in self._known:
            self._known[name] = self._terraform(name)
            self._known[name].init()
        return self._known[name]

    def _terraform(self, name: str) -> Terraform:
        directory = self.deployment.synthesized / "stacks" / name
        data = {"TF_DATA_DIR": str(self.deployment.terraform_data(name))}
        has_workspaces = isinstance(self.deployment.settings.backend, HcpState)
        env = {**inherited(os.environ, has_workspaces=has_workspaces), **RARE_COLLECTION, **data}
        cloud = self.deployment.cloud
        env |= {**cloud.prepare(directory, self.deployment.checkout), **cloud.stub_variables(self.deployment.settings)}
        env |= self._debug_log()
        log = self.deployment.folder / "terraform.log"
        return Terraform(name, directory, env, log, self.tell, self.deployment.options)

    def _debug_log(self) -> dict[str, str]:
        """Send Terraform's debug log to a file: on stderr it would mix with the output that is parsed."""
        if not is_logging(os.environ):
            return {}
        file = self.deployment.folder / DEBUG_LOG
        file.touch(mode=0o600)
        return {"TF_LOG_PATH": str(file)}

    def _with_keys(self, name: str) -> Terraform:
        """Return the Terraform of a stack for a command that changes or refreshes resources."""
        ready = self._ready(name)
        return replace(ready, env={**ready.env, **self._keys_of_connectors()}) if name == "connectors" else ready

    def _keys_of_connectors(self) -> dict[str, str]:
        """Return the keys of Tableflow and Flink as variables of this one process: arguments would be in the state.

        The settings do not say whether they are needed: Terraform also needs them to disable Tableflow and to delete
        statements.
        """
        import boto3  # noqa: PLC0415 - takes half a second, and few steps need it

        vault, environment = boto3.client("secretsmanager"), self.deployment.environment
        region = self.outputs("confluent").get("flink_variables", {})
        return revealed(tableflow_variables(vault, environment) | flink_variables(vault, environment, region))

    def _present(self, wanted: Sequence[str]) -> list[str]:
        unknown = set(wanted) - set(STACKS)
        if unknown:
            raise SettingError(f"unknown stack {', '.join(sorted(unknown))}", hint=f"choose from {', '.join(STACKS)}")
        return [name for name in wanted if name in self.names]

    def _before(self, name: str) -> list[str]:
        unused = ("connectors", "exports")
        return [each for each in STACKS[: STACKS.index(name)] if each in self.names and each not in unused]


def code_of(deployment: Deployment) -> Code:
    """Return the package of the rotation function and the address of a Confluent Cloud double, if there is one."""
    packed = deployment.rotation_zip
    doubles = deployment.cloud.double_variables(deployment.folder) if deployment.has_confluent else {}
    return Code(packed if packed.exists() else None, doubles)


def packed_of(deployment: Deployment) -> Artefacts:
    """Return the artefacts that are packed on this machine, or placeholders."""
    return read_manifest(deployment.manifest) if deployment.manifest.exists() else NONE_PACKED


def synthesize(
    deployment: Deployment,
    tell: Tell,
    *,
    listed: Collection[str] | None = None,
    purpose: Purpose = "apply",
    states: States | None = None,
    moves_states: bool = False,
) -> Stacks:
    """Write the Terraform configuration of all stacks.

    The stack jobs refers to its artefacts by hash, or to placeholders if none are packed on this machine; that is
    enough to read outputs or to destroy. The stack snowflake gets the tables `listed` in Glue, or those of all specs.
    `states` is what is known of the stacks' states from before. Raises TerraformError if a state is not where the
    settings say, unless the caller `moves_states`.
    """
    refuse_unsaved_states(deployment)
    shutil.rmtree(deployment.synthesized / "stacks", ignore_errors=True)
    deployment.folder.mkdir(parents=True, exist_ok=True)
    names = build(
        deployment.settings,
        deployment.synthesized,
        packed_of(deployment),
        listed=listed,
        code=code_of(deployment),
        purpose=purpose,
    )
    stacks = Stacks(deployment, tuple(names), tell, _states=States() if states is None else states)
    if not moves_states:
        stacks.refuse_former_states()
    return stacks


def resource_types(deployment: Deployment) -> frozenset[str]:
    """Return the resource types of all stacks, synthesized apart: a run may be using the usual folder."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        build(deployment.settings, out, packed_of(deployment), code=code_of(deployment))
        return frozenset(kind for stack in read_stacks(out).values() for kind in stack.get("resource", {}))
