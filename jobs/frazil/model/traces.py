"""Traces of a value in the files of a table (docs/decisions/0061)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.spelling import plural

ROW = "row"
LETTER = "dead letter"
STATISTIC = "bound or partition value"


@dataclass(frozen=True, slots=True)
class SoughtValue:
    """A value of one column; `text` is as it was typed."""

    column: str
    field_id: int
    value: str | int
    text: str
    partitioned: bool
    """Whether the table is, or was, partitioned by the column."""

    @property
    def leaf(self) -> str:
        """The name of the column in its struct."""
        return self.column.rpartition(".")[2]

    def is_in_payload(self, payload: object) -> bool:
        """Return whether bytes, or headers, of a record hold the text. A number in a binary format is not found."""
        match payload:
            case bytes():
                return self.text.encode() in payload
            case dict():
                return any(map(self.is_in_payload, payload.values()))
            case list() | tuple():
                return any(map(self.is_in_payload, payload))
            case str():
                return self.text in payload
            case _:
                return False


@dataclass(frozen=True, slots=True)
class Trace:
    """A file with the value, how often, and what keeps it: branches, tags and snapshots. Nothing keeps an orphan."""

    address: str
    kind: str
    count: int
    kept_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = "bounds or partition values" if self.kind == STATISTIC else ""
        kept = ", ".join(self.kept_by) or "no snapshot"
        return f"{plural(self.count, self.kind, kinds)} in {self.address}, kept by {kept}"


@dataclass(frozen=True, slots=True)
class Traces:
    """What a search found in a table, how many files of each kind it decoded, and those that it has no decoder for."""

    table: str
    found: tuple[Trace, ...]
    looked_through: Mapping[str, int]
    not_decoded: tuple[str, ...] = ()
