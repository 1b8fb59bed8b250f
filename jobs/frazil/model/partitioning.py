"""Iceberg's partition transforms in the syntax of `partition_by` (Iceberg specification, "Partition Transforms")."""

from __future__ import annotations

import re
from dataclasses import dataclass

TIMES = frozenset({"year", "month", "day", "hour"})
CALL = re.compile(r"\s*([A-Za-z]+)\s*\(\s*(?:([^,()]*?)\s*,\s*)?([^,()]*?)\s*\)\s*")
"""Matches a transform, its number if it has one, and its column."""

_SUFFIXES = {"bucket": "_bucket", "truncate": "_trunc", "void": "_null", "identity": ""}
_BETWEEN_FIELDS = re.compile(r",\s*(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A transform of one column. `parameter` is the number of buckets or the truncation width, else None."""

    transform: str
    column: str
    parameter: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        inner = self.column if self.parameter is None else f"{self.parameter}, {self.column}"
        return f"{self.transform}({inner})"

    @property
    def family(self) -> tuple[str, str]:
        """The family of the field. Iceberg rejects two fields of one family, such as day and hour of one column."""
        return ("time" if self.transform in TIMES else self.transform), self.column

    @property
    def name(self) -> str:
        """The field's name, formed as other engines do: `at_day` for `day(at)`.

        It is a name in the Avro schema of manifests, which has ASCII letters only (Avro specification, "Names").
        """
        column = "".join(c if c.isascii() else f"_x{ord(c):X}" for c in self.column.replace(".", "_"))
        return column + _SUFFIXES.get(self.transform, f"_{self.transform}")


def partition_field(text: str) -> PartitionField:
    """Parse one field. Text that is not a call of a transform is the name of a column."""
    call = CALL.fullmatch(text)
    number = call and call[2]
    if call is None or (number is not None and not number.isdecimal()):
        return PartitionField("identity", text.strip())
    return PartitionField(call[1], call[3], None if number is None else int(number))


def split_fields(text: str) -> list[str]:
    """Split a comma-separated list of fields; commas inside parentheses separate nothing."""
    return _BETWEEN_FIELDS.split(text)
