"""A compute pool of Confluent Cloud for Apache Flink, beside a cluster, and what statements need to run in it."""

from __future__ import annotations

from collections.abc import Mapping

from infra.cdk import Construct
from infra.components.kafka import FlinkRegion
from infra.resources import confluent


class FlinkPool(Construct):
    """The pool has no rights of its own: statements have those of the account that they run as."""

    def __init__(
        self, scope: Construct, construct_id: str, /, *, name: str, region: str, environment_id: str, max_cfu: int
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment_id = environment_id
        pool = confluent.FlinkComputePool(
            self,
            "pool",
            display_name=name,
            cloud="AWS",
            region=region,
            max_cfu=max_cfu,
            environment=confluent.FlinkComputePool_Environment(id=environment_id),
        )
        self.id = pool.id
        self._region = confluent.DataFlinkRegion(self, "region", cloud="AWS", region=region)
        self._organization = confluent.DataOrganization(self, "organization")

    @property
    def region(self) -> FlinkRegion:
        return FlinkRegion(
            id=self._region.id,
            environment_id=self._environment_id,
            statements_url=f"{self._region.rest_endpoint}/sql/v1/organizations/{self._organization.id}"
            f"/environments/{self._environment_id}/statements",
        )

    def variables(self, principal_id: str) -> Mapping[str, str]:
        """Return the variables that Confluent's provider needs for statements, without the two of the key.

        The provider takes all seven or none.
        """
        return {
            "CONFLUENT_ORGANIZATION_ID": self._organization.id,
            "CONFLUENT_ENVIRONMENT_ID": self._environment_id,
            "FLINK_COMPUTE_POOL_ID": self.id,
            "FLINK_REST_ENDPOINT": self._region.rest_endpoint,
            "FLINK_PRINCIPAL_ID": principal_id,
        }
