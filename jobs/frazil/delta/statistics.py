"""Convert a file's statistics from the bounds in Iceberg's manifests to Delta's JSON.

Columns whose statistics differ between the formats are left out: floating point (NaN), decimals (JSON numbers are
inexact), and columns inside structs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from frazil.delta.schema import FIELD_ID
from frazil.model.delta import TableFile

WITH_STATISTICS = ("integer", "long", "date", "timestamp", "string")
"""Types of Delta whose bounds mean the same in both formats."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScalarColumn:
    """A column of the table, not of a struct in it, whose type is not nested."""

    field_id: int
    name: str
    type: str

    @property
    def has_bounds(self) -> bool:
        return self.type in WITH_STATISTICS


def scalar_columns(delta_schema: str) -> tuple[ScalarColumn, ...]:
    """Return the columns that may have statistics, in the schema's order."""
    fields = [field for field in json.loads(delta_schema)["fields"] if isinstance(field["type"], str)]
    return tuple(ScalarColumn(int(each["metadata"][FIELD_ID]), each["name"], each["type"]) for each in fields)


def is_complete(file: TableFile, column: ScalarColumn) -> bool:
    """Return whether the count of the column's nulls is known, and both bounds unless all values are null."""
    nulls, field_id = file.null_value_counts.get(column.field_id), column.field_id
    return nulls is not None and (
        nulls == file.rows or (field_id in file.lower_bounds and field_id in file.upper_bounds)
    )


def is_odd(file: TableFile, columns: Sequence[ScalarColumn]) -> bool:
    """Return whether a column has only one bound, or one that Delta's readers cannot parse."""
    least, most = _values(columns, file.lower_bounds), _values(columns, file.upper_bounds)
    return least.keys() != most.keys() or None in (*least.values(), *most.values())


def statistics_of(file: TableFile, columns: Sequence[ScalarColumn], skip_by: Sequence[ScalarColumn]) -> str:
    """Return the statistics as Delta's JSON.

    Only the number of rows if the file is odd, or incomplete in a column that readers skip files by: the datasets of
    delta-rs take a missing bound for null, and find no row of the file, whatever the filter on that column.
    """
    if is_odd(file, columns) or not all(is_complete(file, column) for column in skip_by):
        return json.dumps({"numRecords": file.rows}, separators=(",", ":"))
    counts = file.null_value_counts
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": _values(columns, file.lower_bounds),
            "maxValues": _values(columns, file.upper_bounds),
            "nullCount": {each.name: counts[each.field_id] for each in columns if each.field_id in counts},
        },
        separators=(",", ":"),
        ensure_ascii=False,  # the readers decode escapes of characters from U+20000 on to others
    )


def _values(columns: Sequence[ScalarColumn], bounds: Mapping[int, bytes]) -> dict[str, int | str | None]:
    bounded = (each for each in columns if each.has_bounds and each.field_id in bounds)
    return {each.name: _value(each.type, bounds[each.field_id]) for each in bounded}


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
