"""Stages on folders of the lake, and external tables on them, for Delta logs and exports.

They belong to the loader, since only its owner may refresh an external table. The deployer inherits from the loader,
or it could not drop them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.model.snowflake import delta_table
from frazil.model.spec import TableSpec
from infra.cdk import Construct, Resource
from infra.components.snowflake_access import Actor
from infra.components.snowflake_integrations import Storage
from infra.resources import snowflake
from infra.stacks.lake import EXPORTS, LakeStack

FORMATS: Mapping[str, str] = {
    "csv": """TYPE = CSV SKIP_HEADER = 1 FIELD_OPTIONALLY_ENCLOSED_BY = '"'""",
    "parquet": "TYPE = PARQUET",
}
FILE = snowflake.ExternalTable_Column(name="FILE", type="VARCHAR", as_="metadata$filename")
RECORD_COLUMNS = {"partition": "NUMBER(10,0)", "offset": "NUMBER(19,0)", "timestamp": "TIMESTAMP_LTZ(6)"}
"""Columns about the record that rows are looked for by. The table's own are in VALUE: only the job knows them."""


def read_by_its_delta_log(table: TableSpec) -> bool:
    return "snowflake" in table.readers and "delta" in table.formats


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSite:
    """The database and schema of the tables, and the resources that must exist before them."""

    schema: snowflake.Schema
    storage: Storage
    loader: Actor
    reader: Actor
    ready: tuple[Resource, ...]


class Exports(Construct):
    """An external table on exports. Their columns are not known here: a row is a VALUE, with the name of its file."""

    def __init__(self, scope: Construct, construct_id: str, /, *, place: TableSite, lake: LakeStack) -> None:
        super().__init__(scope, construct_id)
        stage = _stage(self, place, "EXPORTS", f"s3://{lake.bucket_name}/{EXPORTS}/")
        used = [actor.may_use_stage("stage-exports", stage) for actor in (place.loader, place.reader)]
        self.names = tuple(
            snowflake.ExternalTable(
                self,
                kind,
                database=place.schema.database,
                schema=place.schema.name,
                name=f"EXPORTS__{kind.upper()}",
                comment=f"Exports that Frazil writes as {kind}",
                location=f"@{stage.fully_qualified_name}",
                pattern=f".*[.]{kind}([.]gz)?",
                file_format=file_format,
                column=[FILE],
                auto_refresh=False,
                refresh_on_create=False,
                depends_on=[*place.ready, *used],
            ).name
            for kind, file_format in FORMATS.items()
        )


class DeltaTables(Construct):
    """An external table for each table with a Delta log. Snowflake never refreshes it by itself; `announce` does."""

    def __init__(
        self, scope: Construct, construct_id: str, /, *, place: TableSite, lake: LakeStack, tables: Sequence[TableSpec]
    ) -> None:
        super().__init__(scope, construct_id)
        stage = _stage(self, place, "TABLES", f"{lake.warehouse}/")
        used = place.loader.may_use_stage("stage-tables", stage)
        self.names = {
            spec.table: snowflake.ExternalTable(
                self,
                spec.table,
                database=place.schema.database,
                schema=place.schema.name,
                name=delta_table(spec),
                comment=f"Made of {', '.join(spec.topics)}, by its Delta log",
                location=f"@{stage.fully_qualified_name}/{spec.table}/",
                table_format="delta",
                file_format="TYPE = PARQUET",
                column=_record_columns(spec),
                auto_refresh=False,
                refresh_on_create=False,
                depends_on=[*place.ready, used],
            ).name
            for spec in tables
        }


def _stage(scope: Construct, place: TableSite, name: str, url: str) -> snowflake.StageExternalS3:
    return snowflake.StageExternalS3(
        scope,
        "stage",
        database=place.schema.database,
        schema=place.schema.name,
        name=name,
        url=url,
        storage_integration=place.storage.integration.name,
    )


def _record_columns(spec: TableSpec) -> list[snowflake.ExternalTable_Column]:
    kept = {
        f"{spec.metadata.prefix}{name}": RECORD_COLUMNS[name] for name in RECORD_COLUMNS if name in spec.metadata.keep
    }
    return [
        snowflake.ExternalTable_Column(name=name.upper(), type=kind, as_=f"value:{name}::{kind}")
        for name, kind in kept.items()
    ]
