"""The text that each engine needs to read a table. None of them contains a credential."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files

from frazil.connect.rest import attached_in_duckdb, in_trino, library_properties
from frazil.connect.table_address import TableAddress
from frazil.model.errors import Misuse
from frazil.model.settings import RestSettings
from frazil.model.snowflake import iceberg_table
from frazil.model.sql_text import literal

ROWS_SHOWN = 10
CREDENTIALS = "credentials of AWS come from the environment, such as AWS_PROFILE"
BACKTICK = "`"


def snippet(engine: str, at: TableAddress) -> str:
    """Return what to paste. Raises Misuse if the engine cannot read the table's catalog."""
    return "\n".join(ENGINES[engine](at))


def _first_rows(table: str) -> str:
    return f"SELECT * FROM {table} LIMIT {ROWS_SHOWN};"  # noqa: S608 - the text is for its reader, and is not run here


def _athena(at: TableAddress) -> Iterator[str]:
    if at.catalog.type != "glue":
        raise _not_in("Athena", "AWS Glue only", at)
    yield f"-- Athena, in the region {at.region}"
    yield _first_rows(at.quoted())


def _duckdb(at: TableAddress) -> Iterator[str]:
    if at.catalog.type == "glue":
        yield f"-- {CREDENTIALS}"
        yield "INSTALL aws; INSTALL httpfs; INSTALL iceberg;"
        yield "LOAD aws; LOAD httpfs; LOAD iceberg;"
        yield f"CREATE SECRET (TYPE s3, PROVIDER credential_chain, REGION {literal(at.region or '')});"
        yield f"ATTACH {literal(at.account or '')} AS frazil (TYPE iceberg, ENDPOINT_TYPE glue);"
        yield _first_rows(f"frazil.{at.quoted()}")
        return
    if at.catalog.rest is not None:
        yield from _duckdb_by_rest(at, at.catalog.rest)
        return
    if at.metadata_file is None:
        raise Misuse(
            f"the table {at.spec.identifier} does not exist yet",
            hint=f"run `frazil materialize {at.spec.table}` first",
        )
    yield "-- the table as it is now. DuckDB cannot ask this catalog for newer rows: run `frazil connect` again"
    yield "INSTALL iceberg;"
    yield "LOAD iceberg;"
    yield _first_rows(f"iceberg_scan({literal(at.metadata_file.removeprefix('file://'))})")


def _duckdb_by_rest(at: TableAddress, rest: RestSettings) -> Iterator[str]:
    yield "-- DuckDB needs a secret for the storage, too, unless the catalog gives it access"
    yield "INSTALL httpfs; INSTALL iceberg;"
    yield "LOAD httpfs; LOAD iceberg;"
    yield from attached_in_duckdb(rest, at.catalog.warehouse)
    yield _first_rows(f"frazil.{at.quoted()}")


def _pandas(at: TableAddress) -> Iterator[str]:
    yield from _loaded(at, "pandas")
    yield f"print(table.scan(limit={ROWS_SHOWN}).to_pandas())"


def _polars(at: TableAddress) -> Iterator[str]:
    yield from _loaded(at, "polars")
    yield f"print(table.to_polars().head({ROWS_SHOWN}).collect())"


def _pyiceberg(at: TableAddress) -> Iterator[str]:
    yield from _loaded(at)
    yield f"print(table.scan(limit={ROWS_SHOWN}).to_arrow())"


def _loaded(at: TableAddress, extra: str = "pyarrow") -> Iterator[str]:
    of_catalog = {"glue": ["glue"], "jdbc": ["sql-sqlite"], "rest": []}[at.catalog.type]
    extras = ["pyarrow", *of_catalog, *({extra} - {"pyarrow"})]
    yield f'# pip install "pyiceberg[{",".join(extras)}]"'
    if at.catalog.type == "glue":
        yield f"# {CREDENTIALS}"
    yield "from pyiceberg.catalog import load_catalog"
    yield ""
    yield f"properties = {_python(_pyiceberg_properties(at))}"
    yield f"table = load_catalog({_python('frazil')}, **properties).load_table({_python(at.spec.identifier)})"


def _pyiceberg_properties(at: TableAddress) -> Mapping[str, str]:
    if at.catalog.type == "glue":
        of_region = {"glue.region": at.region, "s3.region": at.region} if at.region else {}
        return {"type": "glue", "warehouse": at.catalog.warehouse, **of_region, **at.plain_properties}
    if at.catalog.rest is not None:
        return {**library_properties(at.catalog.rest, at.catalog.warehouse), **at.plain_properties}
    uri = f"sqlite:///{at.catalog_file}"
    return {"type": "sql", "uri": uri, "warehouse": at.catalog.warehouse, **at.plain_properties}


def _python(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "{" + ", ".join(f"{_python(name)}: {_python(text)}" for name, text in value.items()) + "}"


def _snowflake(at: TableAddress) -> Iterator[str]:
    if at.snowflake is None:
        raise Misuse(
            "the configuration has no section `snowflake`: no account reads the tables",
            hint="docs/snowflake.md says how `scripts/deploy.sh create` points an account at them",
        )
    if "snowflake" not in at.spec.readers:
        raise Misuse(
            f"{at.spec.source_file} does not name snowflake in `readers`: Snowflake has no table for it",
            hint="add it and run `scripts/deploy.sh create`",
        )
    if at.snowflake.warehouse is not None:
        yield f"USE WAREHOUSE {at.snowflake.warehouse};"
    yield _first_rows(f"{at.snowflake.database}.{at.snowflake.schema}.{iceberg_table(at.spec)}")


def _spark(at: TableAddress) -> Iterator[str]:
    if at.catalog.type == "glue":
        yield f"# Spark 4.1; {CREDENTIALS}"
    else:
        yield "# Spark 4.1"
    settings = {"spark.sql.catalog.frazil": "org.apache.iceberg.spark.SparkCatalog"}
    settings |= {f"spark.sql.catalog.frazil.{name}": value for name, value in _spark_properties(at).items()}
    yield "spark-sql \\"
    yield f"  --packages {','.join(_packages(at))} \\"
    for name, value in settings.items():
        yield f"  --conf {shlex.quote(f'{name}={value}')} \\"
    yield f"  -e {shlex.quote(_first_rows(f'frazil.{at.quoted(BACKTICK)}'))}"


def _spark_properties(at: TableAddress) -> Mapping[str, str]:
    warehouse = at.catalog.warehouse
    if at.catalog.rest is not None:
        return {**library_properties(at.catalog.rest, warehouse), **at.plain_properties}
    if at.catalog.type == "glue":
        of_region = {"client.region": at.region} if at.region else {}
        io = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
        return {"type": "glue", "warehouse": warehouse, **io, **of_region, **at.plain_properties}
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{at.catalog_file}",
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
    }


def _packages(at: TableAddress) -> list[str]:
    """The coordinates of the jars, in the versions that Frazil's own tests read the tables with."""
    of_catalog = "sqlite-jdbc" if at.catalog.type == "jdbc" else "iceberg-aws-bundle"
    needed = ("iceberg-spark-runtime", of_catalog)
    text = files("frazil.local").joinpath("iceberg.lock").read_text(encoding="utf-8")
    known = [line.split()[0] for line in text.splitlines() if line and not line.startswith("#")]
    return [jar for jar in known if any(name in jar for name in needed)]


def _trino(at: TableAddress) -> Iterator[str]:
    if at.catalog.type == "jdbc":
        raise _not_in("Trino", "AWS Glue or a REST catalog", at)
    yield f"# etc/catalog/frazil.properties; {CREDENTIALS}"
    yield "connector.name=iceberg"
    if at.catalog.rest is not None:
        yield from in_trino(at.catalog.rest, at.catalog.warehouse)
    else:
        yield "iceberg.catalog.type=glue"
        yield f"hive.metastore.glue.region={at.region}"
        yield f"hive.metastore.glue.catalogid={at.account}"
    region = at.region or at.plain_properties.get("s3.region")
    yield "fs.native-s3.enabled=true"
    if region is not None:
        yield f"s3.region={region}"
    yield ""
    yield "-- and then"
    yield _first_rows(f"frazil.{at.quoted()}")


def _not_in(engine: str, where: str, at: TableAddress) -> Misuse:
    return Misuse(
        f"{engine} reads tables in {where}; the catalog of {at.spec.identifier} is of type {at.catalog.type}",
        hint="an environment in AWS has Glue: docs/deploy.md; here, `frazil connect duckdb` and `spark` work",
    )


ENGINES: Mapping[str, Callable[[TableAddress], Iterator[str]]] = {
    "athena": _athena,
    "duckdb": _duckdb,
    "pandas": _pandas,
    "polars": _polars,
    "pyiceberg": _pyiceberg,
    "snowflake": _snowflake,
    "spark": _spark,
    "trino": _trino,
}
