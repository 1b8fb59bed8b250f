"""SQL over the tables, by DuckDB with its Iceberg extension from PyPI: no network but the tables' own storage."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from pyiceberg.exceptions import NoSuchNamespaceError

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.formats.python_values import python_values
from frazil.model.errors import CatalogError, FrazilError, MissingToolError, Misuse
from frazil.model.secret import revealed
from frazil.model.settings import CatalogSettings, Settings
from frazil.model.spelling import did_you_mean
from frazil.model.sql_text import literal, quoted

READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
LOCAL_EXTENSIONS = ("avro", "iceberg")
S3_EXTENSIONS = ("httpfs", "aws")
LISTS_TABLES = re.compile(r"\bshow\b|\binformation_schema\b|\bduckdb_\w+\(", re.IGNORECASE)
"""What asks for the tables themselves: then all of them are needed."""

NO_SUCH_TABLE = re.compile(r"(Table with name (\S+) does not exist!)(\nDid you mean .*)?")
"""DuckDB knows only the tables that the SQL names, so it suggests one of its own or none."""

FIX_SQL = "fix the SQL; `frazil query 'SHOW TABLES'` lists the tables"
NO_EXTENSION = "DuckDB downloads an extension at its first use: check the network, or leave its functions out"

SECRET_OPTIONS = {
    "KEY_ID": ("s3.access-key-id", "client.access-key-id"),
    "SECRET": ("s3.secret-access-key", "client.secret-access-key"),
    "SESSION_TOKEN": ("s3.session-token", "client.session-token"),
    "REGION": ("s3.region", "client.region", "glue.region"),
}
"""DuckDB's options of an S3 secret, and the catalog's properties that give them, the nearest first."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A result as it comes; `batches` can be read once, while the query's context is open.

    A map is a dict where its keys are text, else a list of pairs.
    """

    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    batches: Iterator[pa.RecordBatch]

    def rows(self) -> Iterator[tuple[object, ...]]:
        for batch in self.batches:
            columns = [python_values(column) for column in batch.columns]
            yield from zip(*columns, strict=True)


@contextmanager
def ask(settings: Settings, sql: str) -> Iterator[QueryResult]:
    """Return the result of one statement that reads.

    Tables are named `table`, if they are in the default database, or `database.table`. Raises Misuse with DuckDB's
    message if the statement is wrong, and CatalogError if a table cannot be read.
    """
    _check_reads(sql)
    lake = IcebergLake(settings.catalog)
    with duckdb.connect() as connection:
        tables = _tables(lake, settings)
        locations = _locations(lake, _named(tables, sql))
        if locations:
            _open_storage(connection, settings.catalog, on_s3=any(map(_is_on_s3, locations.values())))
        _make_views(connection, settings.database, locations)
        connection.execute("SET lock_configuration = true")
        with as_errors(sql, tables):
            reader = connection.execute(sql).to_arrow_reader()
        yield QueryResult(tuple(reader.schema.names), tuple(reader.schema.types), _batches(reader, sql))


def _batches(reader: pa.RecordBatchReader, sql: str) -> Iterator[pa.RecordBatch]:
    with as_errors(sql):
        yield from reader


def _check_reads(sql: str) -> None:
    with as_errors(sql):
        statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in READS:
        kinds = ", ".join(str(each.type).rpartition(".")[2] for each in statements) or "nothing"
        raise Misuse(
            f"expected one read-only statement, such as SELECT, found {kinds}",
            hint="only `frazil materialize` writes tables; run one query at a time",
        )


@contextmanager
def as_errors(sql: str, tables: Iterable[str] = ()) -> Iterator[None]:
    """Make errors of DuckDB's failures, by whose fault they are. One of `tables` is suggested for a misspelt one.

    Raises CatalogError if a table cannot be read, and Misuse otherwise.
    """
    try:
        yield
    except (duckdb.IOException, duckdb.HTTPException, pa.ArrowIOError) as problem:
        raise CatalogError(
            f"could not read the tables of the query: {problem}",
            hint="check `catalog` in frazil.yaml, the credentials and the network; `frazil verify` lists missing files",
        ) from problem
    except (duckdb.Error, pa.ArrowInvalid) as problem:
        raise Misuse(
            f"the query failed: {NO_SUCH_TABLE.sub(lambda found: _no_table(found, tables), str(problem))}",
            hint=NO_EXTENSION if "download extension" in str(problem) else FIX_SQL,
        ) from problem


def _no_table(found: re.Match[str], tables: Iterable[str]) -> str:
    """Return DuckDB's message about a missing table, with the most similar table of the lake if there is one."""
    by_name = {identifier.partition(".")[2]: identifier for identifier in tables}
    likely = did_you_mean(found[2], by_name)
    return found[1] if likely is None else f"{found[1]} Did you mean {by_name[likely]}?"


def _tables(lake: IcebergLake, settings: Settings) -> tuple[str, ...]:
    """Return the tables of all databases that the settings name, as `database.table`."""
    databases = sorted({settings.database, *(spec.database for spec in settings.tables)})
    return tuple(f"{database}.{table}" for database in databases for table in _tables_of(lake, database))


def _named(tables: Iterable[str], sql: str) -> Iterator[str]:
    """Tables whose name occurs in the SQL; a name too many costs only a look at its metadata."""
    every = LISTS_TABLES.search(sql) is not None
    for identifier in tables:
        table = identifier.partition(".")[2]
        if every or re.search(rf"(?<!\w){re.escape(table)}(?!\w)", sql, re.IGNORECASE):
            yield identifier


def _tables_of(lake: IcebergLake, database: str) -> list[str]:
    try:
        return sorted(identifier[-1] for identifier in lake.catalog.list_tables(database))
    except NoSuchNamespaceError:
        return []
    except FrazilError:
        raise
    except Exception as problem:
        raise CatalogError(
            f"could not list the tables of the database {database}: {type(problem).__name__}: {problem}",
            hint="check `catalog` in frazil.yaml, the credentials and the network, then run `frazil check`",
        ) from problem


def _locations(lake: IcebergLake, names: Iterable[str]) -> Mapping[str, str]:
    """Return the metadata file of each table that exists."""
    views = ((name, lake.load(name)) for name in names)
    return {name: metadata_location(view).removeprefix("file://") for name, view in views if view is not None}


def _is_on_s3(location: str) -> bool:
    return location.startswith(("s3://", "s3a://"))


def _make_views(connection: duckdb.DuckDBPyConnection, default: str, locations: Mapping[str, str]) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(default)}")
    for name, location in locations.items():
        database, table = name.split(".", 1)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}")
        scan = f"iceberg_scan({literal(location)})"
        with as_errors(name):
            connection.execute(f"CREATE VIEW {quoted(database)}.{quoted(table)} AS SELECT * FROM {scan}")  # noqa: S608
    connection.execute(f"SET schema = {literal(default)}")


def _open_storage(connection: duckdb.DuckDBPyConnection, catalog: CatalogSettings, *, on_s3: bool) -> None:
    for extension in (*LOCAL_EXTENSIONS, *(S3_EXTENSIONS if on_s3 else ())):
        connection.execute(f"LOAD {literal(str(extension_file(extension)))}")
    connection.execute("SET TimeZone = 'UTC'")
    if on_s3:
        connection.execute(_secret(catalog))


def extension_file(name: str) -> Path:
    """Return the file of DuckDB's extension for the installed DuckDB. Raises MissingToolError if there is none."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    file = None if folder is None else folder / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if file is None or not file.exists():
        raise MissingToolError(
            f"DuckDB {duckdb.__version__} needs its extension {name}, which is not installed",
            hint=f"run `make setup`, or `pip install duckdb-extension-{name}=={duckdb.__version__}`",
        )
    return file


def _secret(catalog: CatalogSettings) -> str:
    """Return DuckDB's secret for S3: from the catalog's properties, else from AWS's default credential chain."""
    given = revealed(catalog.properties)
    options = {option: _first(given, names) for option, names in SECRET_OPTIONS.items()}
    settings = {name: literal(value) for name, value in options.items() if value is not None}
    if options["KEY_ID"] is None:
        settings["PROVIDER"] = "credential_chain"
    settings.update(_endpoint(given.get("s3.endpoint")))
    return f"CREATE SECRET tables (TYPE s3, {', '.join(f'{name} {value}' for name, value in settings.items())})"


def _endpoint(endpoint: str | None) -> Mapping[str, str]:
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
    ssl = "true" if parts.scheme == "https" else "false"
    return {"ENDPOINT": literal(parts.netloc), "URL_STYLE": "'path'", "USE_SSL": ssl}


def _first(given: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((given[name] for name in names if name in given), None)


def is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
