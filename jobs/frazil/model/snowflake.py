"""What Snowflake has of the lake: under which names, and how fresh."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.spec import TableSpec


@dataclass(frozen=True, slots=True)
class Served:
    """What queries of an Iceberg table see. `status` and `refreshing` are Snowflake's own words.

    `metadata_location` is None where it could not read any metadata yet; `refreshing` is None where it does not tell.
    """

    metadata_location: str | None
    status: str
    refreshing: str | None = None


def iceberg_table(spec: TableSpec) -> str:
    return spec.table.upper()


def delta_table(spec: TableSpec) -> str:
    """The external table over a Delta log."""
    return f"{spec.table.upper()}__DELTA"
