"""The statements of Flink: one creates the topic of totals with its schema, the other fills it as long as it exists."""

from __future__ import annotations

from collections.abc import Sequence

from infra.cdk import Construct, Resource
from infra.resources import confluent
from infra.wanted.flink import CREATE_TOTALS, FILL_TOTALS
from shared.naming import resource_name


class FlinkStatements(Construct):
    """The provider has the key, the pool and the account from variables: as arguments, the key would be in the state.

    `catalog` and `database` are the names of the environment and of its cluster. `ready`: what must exist before the
    topic of trades has a schema.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        environment: str,
        catalog: str,
        database: str,
        ready: Sequence[Resource],
    ) -> None:
        super().__init__(scope, construct_id)
        properties = {"sql.current-catalog": catalog, "sql.current-database": database}
        created = confluent.FlinkStatement(
            self,
            "create",
            statement_name=resource_name(environment, "create-stock-total-trades"),
            statement=CREATE_TOTALS,
            properties=properties,
        )
        filling = confluent.FlinkStatement(
            self,
            "fill",
            statement_name=resource_name(environment, "fill-stock-total-trades"),
            statement=FILL_TOTALS,
            properties=properties,
            depends_on=[created, *ready],
        )
        self.name = filling.statement_name
