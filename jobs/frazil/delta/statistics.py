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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_of(file: TableFile, delta_schema: str) -> str:
    fields = [field for field in json.loads(delta_schema)["fields"] if isinstance(field["type"], str)]
    least, most = _values(fields, file.lower_bounds), _values(fields, file.upper_bounds)
    if least.keys() != most.keys() or _unparsed(fields, file, least):
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


def _unparsed(fields: list[Mapping[str, Any]], file: TableFile, values: Mapping[str, int | str]) -> bool:
    """Return whether Iceberg has bounds of a column with statistics, but Delta's readers can parse neither."""
    bounded = (f["name"] for f in fields if f["type"] in WITH_STATISTICS and _id(f) in file.lower_bounds)
    return any(name not in values for name in bounded)


def _id(field: Mapping[str, Any]) -> int:
    return int(field["metadata"][FIELD_ID])


def _values(fields: list[Mapping[str, Any]], bounds: Mapping[int, bytes]) -> dict[str, int | str]:
    read = {f["name"]: _value(f["type"], bounds[_id(f)]) for f in fields if _id(f) in bounds}
    return {name: value for name, value in read.items() if value is not None}


def _value(delta_type: str, bound: bytes) -> int | str | None:
    """Convert one bound; None if Delta has no statistic for the type, or if its readers cannot parse the year."""
    try:
        match delta_type:
            case "integer" | "long":
                return _number(bound)
            case "date":
                return (date(1970, 1, 1) + timedelta(days=_number(bound))).isoformat()
            case "timestamp":
                moment = _EPOCH + timedelta(microseconds=_number(bound))
                return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
            case "string":
                return bound.decode()
            case _:
                return None
    except (OverflowError, UnicodeDecodeError):
        return None


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
