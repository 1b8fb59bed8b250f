"""The position of a change in the log of its database, as numbers that order changes of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Flags, flags, without_bad
from frazil.formats.debezium.hexadecimal import characters_of, unpacked
from frazil.model.columns import ColumnType, Scalar
from frazil.model.dead_letter import Reason, Reject

Numbers: TypeAlias = npt.NDArray[np.int64]
NONE = -1
"""The number of a field that is null, which comes before any other."""
_LSN = r"^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$"
_NO_LSN = "00000000:00000000:0000"
TEXT: tuple[ColumnType, ...] = (Scalar("string"),)


@dataclass(frozen=True, slots=True)
class Position:
    """Columns of numbers, the most significant first, and the records whose position cannot be read."""

    columns: tuple[Numbers, ...]
    rejects: tuple[Reject, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    columns: tuple[Numbers, ...]
    is_bad: Flags
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of `source`: the types that it may have, and how it is read."""

    stored: tuple[ColumnType, ...]
    read: Callable[[pa.Array], _Read]


def position(connector: str, source: pa.StructArray, is_snapshot: Flags) -> Position:
    """Return the positions of changes from their `source`. `connector` is one of `FIELDS`.

    The rows of a snapshot may have none: those of an incremental one are in no log.
    """
    columns: list[Numbers] = []
    is_other = ~flags(pc.equal(pc.struct_field(source, "connector"), connector))
    rejects = _rejects(is_other, Reason.BAD_FORMAT, f"expected {connector}", "connector")
    for name, field in FIELDS[connector].items():
        found = field.read(pc.struct_field(source, name))
        lacking = ~is_snapshot & (found.columns[0] == NONE) & ~found.is_bad & (not columns)
        columns += found.columns
        rejects = {
            **_rejects(lacking, Reason.NULL_ORDER, "it orders the changes of a key, and is null", name),
            **_rejects(found.is_bad, Reason.BAD_FORMAT, found.expected, name),
            **rejects,
        }
    return Position(tuple(columns), tuple(reject for _, reject in sorted(rejects.items())))


def _rejects(which: Flags, reason: Reason, detail: str, name: str) -> dict[int, Reject]:
    return {index: Reject(index, reason, detail, f"source.{name}") for index in np.flatnonzero(which).tolist()}


def _number(values: pa.Array) -> _Read:
    return _Read((_filled(values.cast(pa.int64())),), np.zeros(len(values), np.bool_))


def _digits(values: pa.Array) -> _Read:
    """Read texts of digits, as Oracle's system change numbers are: its numbers have more digits than a long."""
    is_bad = _unmatched(values, r"^\d{1,18}$")
    return _Read((_filled(without_bad(values, is_bad).cast(pa.int64())),), is_bad, "expected a number as text")


def _file(values: pa.Array) -> _Read:
    """Read the number at the end of a file's name, such as `mysql-bin.000003`."""
    values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    is_bad = _unmatched(values, r"\.\d{1,18}$")
    numbers = pc.replace_substring_regex(without_bad(values, is_bad), r"^.*\.", "")
    return _Read((_filled(numbers.cast(pa.int64())),), is_bad, "expected the name of a file that ends in a number")


def _lsn(values: pa.Array) -> _Read:
    """Read a log sequence number of SQL Server: 80 bits, of which the first 32 are a number of their own here."""
    is_bad = _unmatched(values, _LSN)
    is_absent = is_bad | flags(values.is_null())
    whole = without_bad(values, is_bad).fill_null(_NO_LSN)
    packed = unpacked(characters_of(whole), b":", len(values))
    halves = (_joined(packed[:, :4]), _joined(packed[:, 4:]))
    return _Read(tuple(np.where(is_absent, NONE, half) for half in halves), is_bad, "expected an LSN")


_NUMBER, _LSN_TEXT = Field((Scalar("long"), Scalar("int")), _number), Field(TEXT, _lsn)
_BINLOG = {"file": Field(TEXT, _file), "pos": _NUMBER, "row": _NUMBER}
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "postgresql": {"lsn": _NUMBER},
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    "sqlserver": {"commit_lsn": _LSN_TEXT, "change_lsn": _LSN_TEXT, "event_serial_no": _NUMBER},
    "oracle": {"scn": Field(TEXT, _digits)},
    "mongodb": {"ts_ms": _NUMBER, "ord": _NUMBER},
}
"""The fields of `source` that order the changes of one row, by the connector, the most significant first.

Their numbers are the columns `change_events.POSITIONS`.
"""


def _unmatched(values: pa.Array, pattern: str) -> Flags:
    return ~flags(pc.match_substring_regex(values, pattern)) & flags(values.is_valid())


def _filled(values: pa.Array) -> Numbers:
    filled: Numbers = values.fill_null(NONE).to_numpy()
    return filled


def _joined(packed: npt.NDArray[np.uint8]) -> Numbers:
    """Return big-endian numbers of less than 8 bytes."""
    joined: Numbers = packed.astype(np.int64) @ (256 ** np.arange(packed.shape[1] - 1, -1, -1, dtype=np.int64))
    return joined
