"""The stacks as deploy.sh asks for them: synthesized once, then each by Terraform, in order or in reverse."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.model.errors import SettingError
from frazil.model.spec import revealed
from infra.app import Purpose, build
from infra.artefacts.artefact import Artefact, Artefacts, read_manifest
from infra.components.key_rotation import Code
from infra.confluent_api import ADDRESS_VARIABLE
from infra.deploy.deployment import STACKS, Deployment
from infra.deploy.keys import tableflow_variables
from infra.deploy.services import BROKER, REGISTRY, confluent_cloud
from infra.deploy.terraform import Tell, Terraform, TerraformError
from infra.local.stub_behind import SNOWFLAKE
from infra.local.terraform_cli import stub_values
from infra.local.terraform_here import prepare
from infra.settings import ConfluentKafka

NOTHING = Artefact("none", "0" * 64, 0)
NONE_PACKED = Artefacts(NOTHING, NOTHING, NOTHING, NOTHING)

SECONDS_FOR_ROLES = "FRAZIL_IAM_SECONDS"
"""How long the stack snowflake waits for its roles to be known; the cloud on this machine knows them at once."""
DEBUG_LOG = "terraform-debug.log"
FUNCTION_IS_GONE = "ResourceNotFoundException: Function not found"


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks of one deployment, synthesized."""

    deployment: Deployment
    names: tuple[str, ...]
    tell: Tell
    _known: dict[str, Terraform] = field(default_factory=dict)

    def apply(self, wanted: Sequence[str]) -> None:
        for name in self._present(wanted):
            began = time.monotonic()
            self.tell(f"{name}: applying")
            self._ready(name).apply()
            self.tell(f"{name}: applied ({time.monotonic() - began:.0f} s)")

    def destroy(self, wanted: Sequence[str]) -> None:
        """Those that were never applied are passed over."""
        for name in self._present(wanted):
            terraform = self._ready(name)
            if terraform.resources():
                self.tell(f"{name}: destroying")
                self._destroy(name)
            self.tell(f"{name}: gone")

    def _destroy(self, name: str) -> None:
        """A function that is gone cannot be asked to stop what it kept, and would stand in the way for ever.

        The cloud on this machine forgets its functions with each restart.
        """
        try:
            self._ready(name).destroy()
        except TerraformError as stopped:
            if FUNCTION_IS_GONE not in stopped.what:
                raise
            self.tell(f"{name}: its Lambda function is gone already, and is not asked")
            self.forget(name, "aws_lambda_invocation")
            self._ready(name).destroy()

    def forget(self, name: str, kind: str) -> None:
        """What a stack has made of one type stays in the account, and is nobody's any more."""
        for address in self._ready(name).resources():
            if address.startswith(f"{kind}."):
                self._ready(name).forget(address)

    def plan(self, wanted: Sequence[str]) -> None:
        """Up to the first stack that builds on one that is not there yet: its plan would be a guess."""
        for name in self._present(wanted):
            missing = [each for each in self._before(name) if not self.outputs(each)]
            if missing:
                self.tell(
                    f"{name}: will be planned when {', '.join(missing)} is applied: it takes its names from there"
                )
                continue
            self.tell(f"{name}:")
            if not self._ready(name).plan():
                self.tell(f"{name}: nothing to do")

    def outputs(self, name: str) -> Mapping[str, Any]:
        """None where the stack is not part of the environment, or was never applied."""
        return self._ready(name).outputs() if name in self.names else {}

    def resources(self) -> dict[str, list[str]]:
        """What Terraform has made, by stack."""
        return {name: self._ready(name).resources() for name in self.names}

    def named(self, name: str) -> list[tuple[str, str]]:
        """Type and name of what Terraform has made of a stack; none where that is not part of the environment."""
        return self._ready(name).named() if name in self.names else []

    def _ready(self, name: str) -> Terraform:
        """Its Terraform, with providers and backend known; found once for all that is asked of it."""
        if name not in self._known:
            self._known[name] = self._terraform(name)
            self._known[name].init()
        return self._known[name]

    def _terraform(self, name: str) -> Terraform:
        directory = self.deployment.synthesized / "stacks" / name
        quiet = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        data = {"TF_DATA_DIR": str(self.deployment.folder / "terraform" / name)}  # the directory is written anew
        env = {**os.environ, **quiet, **data, **prepare(self.deployment, directory), **self._stand_ins()}
        env |= self._debug_log()
        env |= self._key_of_tableflow() if name == "connectors" else {}
        return Terraform(name, directory, env, self.deployment.folder / "terraform.log", self.tell)

    def _debug_log(self) -> dict[str, str]:
        """Where TF_LOG goes: beside Terraform's answers, which are read from the same stream, it would spoil them."""
        if not os.environ.get("TF_LOG"):
            return {}
        file = self.deployment.folder / DEBUG_LOG
        file.touch(mode=0o600)
        return {"TF_LOG_PATH": str(file)}

    def _stand_ins(self) -> dict[str, str]:
        """Where the stand-in of Confluent's provider says that cluster and registry are; what is behind Snowflake's."""
        if not self.deployment.is_local:
            return {}
        broker = f"SASL_SSL://{os.environ[BROKER]}"
        account = self.deployment.settings.snowflake
        return {
            **({SNOWFLAKE: account.stand_in, SECONDS_FOR_ROLES: "0"} if account and account.stand_in else {}),
            **stub_values("confluent_kafka_cluster", bootstrap_endpoint=broker),
            **stub_values("confluent_schema_registry_cluster", rest_endpoint=os.environ[REGISTRY]),
        }

    def _key_of_tableflow(self) -> dict[str, str]:
        """By the environment of the one process that needs it: an argument would be in Terraform's state."""
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, and few need it

        kafka = self.deployment.settings.kafka
        if not (isinstance(kafka, ConfluentKafka) and kafka.tableflow):
            return {}
        return revealed(tableflow_variables(boto3.client("secretsmanager"), self.deployment.environment))

    def _present(self, wanted: Sequence[str]) -> list[str]:
        unknown = set(wanted) - set(STACKS)
        if unknown:
            raise SettingError(
                f"there is no stack {', '.join(sorted(unknown))}", hint=f"the stacks are {', '.join(STACKS)}"
            )
        return [name for name in wanted if name in self.names]

    def _before(self, name: str) -> list[str]:
        return [each for each in STACKS[: STACKS.index(name)] if each in self.names and each != "connectors"]


def _code(deployment: Deployment) -> Code:
    """Of the function that rotates keys; on this machine it finds a double of Confluent Cloud."""
    packed = deployment.rotation_zip
    double = {ADDRESS_VARIABLE: confluent_cloud(deployment.folder).address} if deployment.is_local else {}
    return Code(packed if packed.exists() else None, double if deployment.has_confluent else {})


def synthesize(
    deployment: Deployment, tell: Tell, *, listed: Collection[str] | None = None, purpose: Purpose = "apply"
) -> Stacks:
    """Write all stacks anew. The one with the job names its artefacts by hash, or by none where nothing is packed here.

    That is enough to ask a stack or to take it away, from another machine than the one that applied it. Snowflake's
    has the tables that are `listed` in Glue, or those of all specs.
    """
    shutil.rmtree(deployment.synthesized / "stacks", ignore_errors=True)
    deployment.folder.mkdir(parents=True, exist_ok=True)
    artefacts = read_manifest(deployment.manifest) if deployment.manifest.exists() else NONE_PACKED
    names = build(
        deployment.settings,
        deployment.synthesized,
        artefacts,
        listed=listed,
        code=_code(deployment),
        purpose=purpose,
    )
    return Stacks(deployment, tuple(names), tell)
