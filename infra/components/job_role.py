"""The role of job runs and its permissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.model.outputs import OUTPUT_GROUP
from frazil.model.settings import GlueSource
from frazil.specs.kafka_keys import READER_GROUP
from infra.artefacts.artefact import PREFIX
from infra.cdk import Construct
from infra.components.log_group import LogGroup
from infra.components.region import Region
from infra.components.role import Role
from infra.permissions.iam import Policy, trust_service
from infra.permissions.of_roles import (
    JOB,
    WITH_GLUE_REGISTRY,
    WITH_MSK_IAM,
    WITH_MSK_OUTPUTS,
    WITH_SECRETS,
    Call,
    PolicyTarget,
    Scope,
    statements,
)
from infra.stacks.lake import LakeStack
from infra.stacks.secrets import KeySecret
from shared import naming

SERVICE = "emr-serverless.amazonaws.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The resources of a job run. `msk_topics`: those that it reads with its role, empty if it has a password.

    `msk_outputs`: those that it sends rows to with its role.

    `schemas`: the registry in AWS Glue, None for one of another kind.
    """

    region: Region
    lake: LakeStack
    logs: LogGroup
    secrets: Sequence[KeySecret]
    msk_topics: Sequence[str]
    msk_outputs: Sequence[str]
    schemas: GlueSource | None

    @property
    def calls(self) -> frozenset[Call]:
        with_secrets = WITH_SECRETS if self.secrets else frozenset()
        with_schemas = WITH_GLUE_REGISTRY if self.schemas is not None else frozenset()
        with_outputs = WITH_MSK_OUTPUTS if self.msk_outputs else frozenset()
        return JOB | with_secrets | with_schemas | (WITH_MSK_IAM if self.msk_topics else frozenset()) | with_outputs

    def scopes(self) -> Mapping[PolicyTarget, Scope]:
        return dict((*self._of_tables(), *self._of_the_run(), *self._of_kafka(), *self._of_schemas()))

    def _of_tables(self) -> Iterator[tuple[PolicyTarget, Scope]]:
        catalog, database, tables = self.lake.catalog_arns
        yield PolicyTarget.TABLE_FILES, Scope((self.lake.data_arn,))
        yield PolicyTarget.BUCKET, Scope((self.lake.bucket_arn,))
        yield PolicyTarget.KEY_UNDER_S3, Scope((self.lake.key_arn,), self.region.through("s3"))
        yield PolicyTarget.CATALOG, Scope((catalog,))
        yield PolicyTarget.DATABASE, Scope((database,))
        yield PolicyTarget.TABLES, Scope((tables,))

    def _of_the_run(self) -> Iterator[tuple[PolicyTarget, Scope]]:
        yield PolicyTarget.ARTEFACTS, Scope((f"{self.lake.bucket_arn}/{PREFIX}/*",))
        yield PolicyTarget.LOGS, Scope((f"{self.logs.arn}:*",))
        yield PolicyTarget.ALL_LOG_GROUPS, Scope(("*",))

    def _of_kafka(self) -> Iterator[tuple[PolicyTarget, Scope]]:
        """Return the ARNs of topics in MSK, for any cluster of this account and region: only the topic is known."""
        yield PolicyTarget.SECRETS, Scope(tuple(secret.arn for secret in self.secrets))
        yield PolicyTarget.KEY_UNDER_SECRETS, Scope((self.lake.key_arn,), self.region.through("secretsmanager"))
        yield PolicyTarget.MSK_CLUSTER, Scope((self.region.arn("kafka", "cluster/*/*"),))
        yield PolicyTarget.MSK_TOPICS, Scope(tuple(self._in_msk("topic", *self.msk_topics)))
        yield PolicyTarget.MSK_GROUP, Scope(tuple(self._in_msk("group", READER_GROUP)))
        yield PolicyTarget.MSK_OUTPUT_TOPICS, Scope(tuple(self._in_msk("topic", *self.msk_outputs)))
        yield PolicyTarget.MSK_OUTPUT_GROUPS, Scope(tuple(self._in_msk("group", f"{OUTPUT_GROUP}*")))
        yield PolicyTarget.MSK_TRANSACTIONS, Scope(tuple(self._in_msk("transactional-id", f"{OUTPUT_GROUP}*")))

    def _in_msk(self, kind: str, *names: str) -> Iterator[str]:
        return (self.region.arn("kafka", f"{kind}/*/*/{name}") for name in names)

    def _of_schemas(self) -> Iterator[tuple[PolicyTarget, Scope]]:
        if self.schemas is None:
            return
        name, region = self.schemas.registry_name, replace(self.region, name=self.schemas.region)
        yield (
            PolicyTarget.REGISTRY,
            Scope((region.arn("glue", f"registry/{name}"), region.arn("glue", f"schema/{name}/*"))),
        )
        in_region = {"StringEquals": {"aws:RequestedRegion": region.name}}
        yield PolicyTarget.ALL_SCHEMA_VERSIONS, Scope(("*",), in_region)


def job_role(scope: Construct, environment: str, touched: Touched, application_arn: str) -> Role:
    """Create the role, which only EMR Serverless can assume, and only for job runs of this application."""
    trust = trust_service(SERVICE, account_id=touched.region.account_id, source_arn=application_arn)
    return Role(
        scope,
        "job-role",
        name=naming.resource_name(environment, "job"),
        description="Job runs of Frazil write tables as this role",
        trust=trust,
        policy=Policy((*statements(touched.calls, touched.scopes()), *touched.lake.may_use_catalog_key("write"))),
    )
