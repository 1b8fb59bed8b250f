"""Traces of a value in the files of a table (docs/decisions/0061)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from frazil.model.payload_texts import has_word, layers_of, pieces_of
from frazil.model.spelling import plural

ROW = "row"
LETTER = "dead letter"
STATISTIC = "bound or partition value"


@dataclass(frozen=True, slots=True)
class SoughtColumn:
    """A column that has or had the name, by its field id, and the value as its type has it.

    `name_now` is None if the column was dropped. `partitioned`: the table is, or was, partitioned by its values.
    """

    field_id: int
    value: str | int
    name_now: str | None
    partitioned: bool = False


@dataclass(frozen=True, slots=True)
class SoughtValue:
    """A value of a column; `text` is as it was typed. `columns` are all those that have or had the name `column`.

    `labels` are all names of these columns, and of partition fields with their values. `unsearched` describes earlier
    columns of the name whose type cannot be searched.
    """

    column: str
    text: str
    columns: tuple[SoughtColumn, ...]
    labels: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()

    @property
    def renamed(self) -> tuple[str, ...]:
        """The columns that had the name, and have another one now: their rows are erased by that name only."""
        return tuple(each.name_now for each in self.columns if each.name_now not in (None, self.column))

    @property
    def without_renamed(self) -> SoughtValue:
        return replace(self, columns=tuple(each for each in self.columns if each.name_now in (None, self.column)))

    @property
    def texts(self) -> tuple[str, ...]:
        """The value as it was typed, and as each column shows it: 017 is 17 in a column of ints."""
        return tuple(dict.fromkeys((self.text, *(str(each.value) for each in self.columns))))

    def is_in_payload(self, payload: object) -> bool:
        """Return whether bytes, or headers, of a record hold the text. A number in a binary format is not found."""
        layers = (layer for piece in pieces_of(payload) for layer in layers_of(piece))
        return any(text in layer for layer in layers for text in self.texts)

    def is_word_in_payload(self, payload: object, format_name: str | None = None) -> bool:
        """Return whether they hold the text other than in a longer word: 17 is not in 2017.

        `format_name` is that of the payload; headers have none. A binary one writes the length of a text in front of
        it. With exactly this length, the text is a value of its own, even if the bytes on both sides are letters.
        """
        sought = [(text, _with_length(text, format_name)) for text in self.texts]
        return any(
            (value is not None and value in piece) or has_word(piece, text)
            for piece in pieces_of(payload)
            for text, value in sought
        )


_LENGTH_SHIFTS = {"protobuf": 0, "avro": 1}
"""By how many bits these formats shift the lengths of texts: Avro's are zigzag numbers."""


def _with_length(text: str, format_name: str | None) -> bytes | None:
    """Return a text as the format writes it, behind its length; None if the format writes no lengths."""
    shift = _LENGTH_SHIFTS.get(format_name or "")
    data = text.encode()
    return None if shift is None or not data else _varint(len(data) << shift) + data


def _varint(number: int) -> bytes:
    """Return a number in groups of 7 bits, the least first, as Avro and Protobuf write it."""
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


@dataclass(frozen=True, slots=True)
class Trace:
    """A file with the value, how often, and what keeps it: branches, tags and snapshots. Nothing keeps an orphan.

    `is_earlier`: it is an earlier version of an object, which only its bucket keeps.
    """

    address: str
    kind: str
    count: int
    kept_by: tuple[str, ...] = ()
    is_earlier: bool = False

    def __str__(self) -> str:
        kinds = "bounds or partition values" if self.kind == STATISTIC else ""
        kept = "the bucket as an earlier version" if self.is_earlier else ", ".join(self.kept_by) or "no snapshot"
        return f"{plural(self.count, self.kind, kinds)} in {self.address}, kept by {kept}"


@dataclass(frozen=True, slots=True)
class Traces:
    """What a search found in a table, how many files of each kind it decoded, and those that it has no decoder for.

    `unlisted` says why earlier versions of objects were not searched; empty if they were, or if there can be none.
    """

    table: str
    found: tuple[Trace, ...]
    looked_through: Mapping[str, int]
    not_decoded: tuple[str, ...] = ()
    unlisted: str = ""
