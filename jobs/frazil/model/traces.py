"""Traces of a value in the files of a table (docs/decisions/0061)."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from frazil.model.glue_frame import FRAME_BYTES, MOST_INFLATED, VERSION, ZLIB
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
        sought = [text.encode() for text in self.texts]
        return any(text in each for each in _texts_of(payload) for text in sought)

    def is_word_in_payload(self, payload: object, formats: Collection[str] = ()) -> bool:
        """Return whether they hold the text other than in a longer word: 17 is not in 2017.

        `formats` are those of keys and values. A binary one writes the length of a text in front of it. With exactly
        this length, the text is a value of its own, even if the bytes on both sides of it are letters.
        """
        sought = [text.encode() for text in self.texts]
        words = b"|".join(map(re.escape, sought))
        word = re.compile(rb"(?<![0-9A-Za-z])(?:" + words + rb")(?![0-9A-Za-z])")
        values = [_varint(len(each) << shift) + each for shift in _length_shifts(formats) for each in sought if each]
        return any(
            word.search(each) is not None or any(value in each for value in values) for each in _texts_of(payload)
        )


def _length_shifts(formats: Collection[str]) -> list[int]:
    """Return by how many bits these formats shift the lengths of texts: Avro's are zigzag numbers."""
    return [shift for name, shift in (("protobuf", 0), ("avro", 1)) if name in formats]


def _varint(number: int) -> bytes:
    """Return a number in groups of 7 bits, the least first, as Avro and Protobuf write it."""
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


_ESCAPED = re.compile(rb"(?:\\u[0-9a-fA-F]{4})+|\\[\"\\/bfnrt]")


def _texts_of(payload: object) -> Iterator[bytes]:
    """Yield the bytes of a payload, or of the names and values of headers; also as they are without JSON's escapes."""
    match payload:
        case bytes():
            for data in (payload, _inflated(payload)):
                yield data
                if b"\\" in data:
                    yield _ESCAPED.sub(_unescaped, data)
        case str():
            yield from _texts_of(payload.encode())
        case dict():
            yield from _texts_of(list(payload.values()))
        case list() | tuple():
            for each in payload:
                yield from _texts_of(each)
        case _:
            return


def _unescaped(found: re.Match[bytes]) -> bytes:
    text: str = json.loads(b'"%b"' % found[0])
    return text.encode(errors="surrogatepass")


def _inflated(payload: bytes) -> bytes:
    """Return what a compressed payload inflates to, as far as one of a batch may; of any other, nothing."""
    if not payload.startswith(bytes([VERSION, ZLIB])):
        return b""
    try:
        return zlib.decompressobj().decompress(payload[FRAME_BYTES:], MOST_INFLATED)
    except zlib.error:
        return b""


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
