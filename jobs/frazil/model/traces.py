"""Traces of a value in the files of a table (docs/decisions/0061)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
        text = self.text.encode()
        return any(text in each for each in _texts_of(payload))

    def is_word_in_payload(self, payload: object) -> bool:
        """Return whether they hold the text other than in a longer word: 17 is not in 2017."""
        word = re.compile(rb"(?<![0-9A-Za-z])" + re.escape(self.text.encode()) + rb"(?![0-9A-Za-z])")
        return any(word.search(each) is not None for each in _texts_of(payload))


def _texts_of(payload: object) -> Iterator[bytes]:
    """Yield the bytes of a payload, or of the names and values of headers."""
    match payload:
        case bytes():
            yield payload
        case str():
            yield payload.encode()
        case dict():
            yield from _texts_of(list(payload.values()))
        case list() | tuple():
            for each in payload:
                yield from _texts_of(each)
        case _:
            return


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
