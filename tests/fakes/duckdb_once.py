"""DuckDB with its extensions loaded once a process: each load takes a third of a CPU second."""

from __future__ import annotations

from functools import cache

import duckdb

from frazil.query import extension_file

EXTENSIONS = ("avro", "iceberg", "delta")


def engine() -> duckdb.DuckDBPyConnection:
    """Return a new connection to the one database in memory, which keeps nothing of the files that it has read."""
    return _database().cursor()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    for name in EXTENSIONS:
        connection.execute(f"LOAD '{extension_file(name)}'")
    connection.execute("SET GLOBAL enable_external_file_cache = false")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
