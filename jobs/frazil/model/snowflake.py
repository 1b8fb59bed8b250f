"""The tables in Snowflake: their names and how fresh they are."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.spec import TableSpec


@dataclass(frozen=True, slots=True)
class Served:
    """The state of an Iceberg table in Snowflake. `status` and `refreshing` are Snowflake's values.

    `metadata_location` is None if Snowflake has not read any metadata yet; `refreshing` is None if it is not reported.
    """

    metadata_location: str | None
    status: str
    refreshing: str | None = None


def iceberg_table(spec: TableSpec) -> str:
    return spec.table.upper()


def delta_table(spec: TableSpec) -> str:
    """Return the name of the external table over a Delta log."""
    return f"{spec.table.upper()}__DELTA"
