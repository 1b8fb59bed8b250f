"""Convert a file's statistics from the bounds in Iceberg's manifests to Delta's JSON.

Columns whose statistics differ between the formats are left out: floating point (NaN), decimals (JSON numbers are
inexact), and columns inside structs. A file with only one bound of a column has none: the datasets of delta-rs compare
with null where a bound is absent, and pass over the file, whatever the filter on that column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from frazil.delta.schema import FIELD_ID
from frazil.model.delta import TableFile

WITH_STATISTICS = ("integer", "long", "date", "timestamp", "string")
"""Types of Delta whose bounds mean the same in both formats."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_of(file: TableFile, delta_schema: str) -> str:
    fields = [field for field in json.loads(delta_schema)["fields"] if isinstance(field["type"], str)]
    bounded = [field for field in fields if field["type"] in WITH_STATISTICS]
    least, most = _values(bounded, file.lower_bounds), _values(bounded, file.upper_bounds)
    if least.keys() != most.keys() or None in (*least.values(), *most.values()):
        return json.dumps({"numRecords": file.rows}, separators=(",", ":"))
    counts = {_id(f): f["name"] for f in fields if _id(f) in file.null_value_counts}
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": least,
            "maxValues": most,
            "nullCount": {name: file.null_value_counts[field_id] for field_id, name in counts.items()},
        },
        separators=(",", ":"),
    )


def _id(field: Mapping[str, Any]) -> int:
    return int(field["metadata"][FIELD_ID])


def _values(fields: list[Mapping[str, Any]], bounds: Mapping[int, bytes]) -> dict[str, int | str | None]:
    return {f["name"]: _value(f["type"], bounds[_id(f)]) for f in fields if _id(f) in bounds}


def _value(delta_type: str, bound: bytes) -> int | str | None:
    """Convert one bound of a type with statistics; None if Delta's readers cannot parse it, such as its year."""
    try:
        match delta_type:
            case "integer" | "long":
                return _number(bound)
            case "date":
                return (date(1970, 1, 1) + timedelta(days=_number(bound))).isoformat()
            case "timestamp":
                moment = _EPOCH + timedelta(microseconds=_number(bound))
                return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
            case _:
                return bound.decode()
    except (OverflowError, UnicodeDecodeError):
        return None


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
