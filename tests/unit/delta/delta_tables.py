"""Views, files and logs of made-up tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from frazil.delta.schema import metadata_of
from frazil.model.delta import DeltaLog, DeltaMetadata, FileShape, LoggedFile, TableFile
from frazil.model.snapshot import Snapshot, TableView

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000


def schema(*fields: tuple[int, str, Any]) -> str:
    """Iceberg's JSON of `(id, name, type)` columns."""
    return json.dumps({"type": "struct", "schema-id": 0, "fields": [field(*each) for each in fields]})


def field(field_id: int, name: str, iceberg_type: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": iceberg_type, "required": False}


ONE = schema((1, "id", "int"), (2, "symbol", "string"))


def view(*operations: str, schema_json: str = ONE) -> TableView:
    """A table whose snapshots are numbered from 1, one for each operation."""
    snapshots = {n: Snapshot(n, n - 1 or None, o, {}, NOON) for n, o in enumerate(operations, start=1)}
    return TableView(
        identifier="lake.trades",
        location="s3://lake/trades",
        head=len(operations) or None,
        branches={},
        tags={},
        snapshots=snapshots,
        properties={},
        columns=(),
        format_version=2,
        schema_json=schema_json,
        partition_spec_json="",
        partition_fields=(),
        current=None,
    )


def file(name: str, **changes: Any) -> TableFile:
    made: Mapping[str, Any] = {"format": "PARQUET", "rows": 1, "size": 10, "modified_ms": 5, "path": f"data/{name}"}
    return TableFile(location=f"s3://lake/trades/data/{name}", **{**made, **changes})


def metadata(schema_json: str = ONE, skipping: str | None = "") -> DeltaMetadata:
    """The metadata of a log whose files have no bounds."""
    return replace(metadata_of(schema_json), skipping=skipping)


def log(snapshot_id: int, *names: str, schema_json: str = ONE, skipping: str | None = "") -> DeltaLog:
    files = tuple(LoggedFile(f"data/{name}", 10) for name in names)
    return DeltaLog(7, metadata(schema_json, skipping), snapshot_id, files)


class Footers:
    """Says that every file has these columns, and remembers which were asked for."""

    def __init__(self, schema_json: str | None = ONE) -> None:
        self._schema_json = schema_json
        self.asked: list[str] = []

    def __call__(self, files: Sequence[TableFile]) -> list[FileShape]:
        self.asked = [each.location.rpartition("/")[2] for each in files]
        return [FileShape(each.location, self._schema_json) for each in files]
