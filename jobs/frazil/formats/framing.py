"""Payloads grouped by the writer schema that their wire format names.

Confluent's wire format is a zero byte, the schema's id in four bytes (big-endian), then the data. `header_framing.py`
and `glue_framing.py` have the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.native import native_available
from frazil.formats.rejects import Rejects
from frazil.model.dead_letter import Reason, Reject
from frazil.model.schemas import SchemaId
from frazil.model.spelling import plural
from frazil.records import Headers, value_ends

FRAME_BYTES = 5
"""The bytes before the data."""

_NULL, _UNFRAMED = -1, -2
_NOWHERE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Group:
    """The values of one schema id; it is None for values without a schema. `indexes` is None if these are all values.

    The data begins after `header_bytes`. If `is_compressed`, it is one zlib stream. `message` are the bytes that
    Confluent's wire format would have before the data, where a record has them elsewhere: Protobuf's message indexes.
    The last `trailer_bytes` are not data.
    """

    schema_id: SchemaId | None
    indexes: npt.NDArray[np.int64] | None
    header_bytes: int = 0
    is_compressed: bool = False
    message: bytes = b""
    trailer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Framed:
    """Values grouped by schema id. Every index appears exactly once; groups are in the order of first use."""

    groups: tuple[Group, ...]
    nulls: tuple[int, ...]
    unframed: Sequence[Reject]


Grouping = Callable[[pa.LargeBinaryArray, Headers], Framed]
"""Groups the values, or the keys, of records with these headers."""


def one_group(values: pa.LargeBinaryArray, headers: Headers | None = None) -> Framed:
    """Put all values that are not null in one group: they have no header."""
    del headers
    if not values.null_count:
        return Framed((Group(None, None),) if len(values) else (), (), ())
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    there, nulls = np.flatnonzero(~is_null), tuple(np.flatnonzero(is_null).tolist())
    return Framed((Group(None, there),) if len(there) else (), nulls, ())


def group_by_schema_id(values: pa.LargeBinaryArray, headers: Headers | None = None) -> Framed:
    """Group values by the schema id in their header. This is cheap if all values have the same id."""
    del headers
    places = places_by_id(values) if native_available() else places_by_id_in_python(values)
    nulls, unframed = (_indexes(places.pop(each, _NOWHERE), len(values)) for each in (_NULL, _UNFRAMED))
    groups = tuple(Group(schema_id, indexes, FRAME_BYTES) for schema_id, indexes in places.items())
    return Framed(groups, tuple(nulls.tolist()), _rejects(values, unframed))


PlacesById = dict[int, npt.NDArray[np.int64] | None]
"""The indexes of values by schema id, in the order of first use; None is all of them.

-1 is in place of the id of nulls, and -2 of values without a valid header.
"""


def places_by_id(values: pa.LargeBinaryArray) -> PlacesById:
    """Return them from the native module."""
    import frazil_native  # noqa: PLC0415 - it may not be built

    ids, ends, indexes = frazil_native.schema_id_groups(values)
    if indexes is None:
        return dict.fromkeys(ids)
    return dict(zip(ids, np.split(indexes.to_numpy(), ends[:-1]), strict=True))


def places_by_id_in_python(values: pa.LargeBinaryArray) -> PlacesById:
    """Return the same as the native module."""
    ids = schema_ids(values)
    is_first = ids == ids[:1]
    if is_first.all():
        return dict.fromkeys(ids[:1].tolist())
    others = np.flatnonzero(~is_first)
    places: PlacesById = {schema_id: np.flatnonzero(is_first) for schema_id in ids[:1].tolist()}
    return places | {each: others[ids[others] == each] for each in pc.unique(pa.array(ids[others])).to_pylist()}


def _indexes(found: npt.NDArray[np.int64] | None, count: int) -> npt.NDArray[np.int64]:
    return np.arange(count) if found is None else found


def grouped(
    named_by: pa.LargeBinaryArray,
    values: pa.LargeBinaryArray,
    parsed: Callable[[bytes | None], Group | str],
) -> Framed:
    """Group values by the bytes that name their schema, each of which is parsed once.

    `parsed` returns a group without indexes, or what is wrong with the bytes; they are None where a record has none.
    """
    encoded = named_by.dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy()
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    there = np.flatnonzero(~is_null)
    order = there[np.argsort(codes[there], kind="stable")]
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    groups: list[Group] = []
    unframed: list[Rejects] = []
    for indexes in np.split(order, ends) if len(order) else ():
        found = parsed(encoded.dictionary[int(codes[indexes[0]])].as_py())
        if isinstance(found, str):
            unframed.append(Rejects.alike(indexes, Reason.NOT_FRAMED, found))
        else:
            chosen = None if len(indexes) == len(values) else indexes
            groups.append(Group(found.schema_id, chosen, found.header_bytes, found.is_compressed, found.message))
    first_use = sorted(groups, key=lambda group: 0 if group.indexes is None else int(group.indexes[0]))
    return Framed(tuple(first_use), tuple(np.flatnonzero(is_null).tolist()), Rejects.joined(unframed))


def schema_ids(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return the schema id of each value; -1 for null, -2 for a value without a valid header."""
    ends, data = value_ends(values), values.buffers()[2]
    long_enough = np.diff(ends) >= FRAME_BYTES
    if len(long_enough) and long_enough.all():
        ids = _ids_at(data, ends[:-1])
    else:
        ids = np.full(len(values), _UNFRAMED, np.int64)
        ids[long_enough] = _ids_at(data, ends[:-1][long_enough])
    if values.null_count:
        ids[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return ids


def _ids_at(data: pa.Buffer, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the schema ids of the values that start at these places; -2 for a value without a header."""
    if not len(starts):
        return _NOWHERE
    ids = _words_after(data, starts)
    ids[np.frombuffer(data, np.uint8)[starts] != 0] = _UNFRAMED
    return ids


def _words_after(data: pa.Buffer, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the 4 bytes after each place as a big-endian number: a view of overlapping words is gathered at once."""
    words: npt.NDArray[np.uint32] = np.ndarray((len(data) - 4,), ">u4", buffer=data, offset=1, strides=(1,))
    return words[places].astype(np.int64)


def _rejects(values: pa.LargeBinaryArray, unframed: npt.NDArray[np.int64]) -> Sequence[Reject]:
    """Refuse the values at these indexes."""
    if not len(unframed):
        return ()
    ends, data = value_ends(values), np.frombuffer(values.buffers()[2] or b"", np.uint8)
    starts = ends[unframed]
    sizes = ends[unframed + 1] - starts
    firsts = np.zeros(len(unframed), np.uint8)
    firsts[sizes > 0] = data[starts[sizes > 0]]
    details = list(map(_wrong_start, np.minimum(sizes, FRAME_BYTES).tolist(), firsts.tolist()))
    return Rejects(unframed, [Reason.NOT_FRAMED.value] * len(unframed), details, [""] * len(unframed))


@lru_cache(maxsize=1024)
def _wrong_start(size: int, first: int) -> str:
    """Return what is wrong with a value of this size that starts with this byte; longer ones count as a header's."""
    if size < FRAME_BYTES:
        return f"{plural(size, 'byte')}, expected a header of {FRAME_BYTES}"
    return f"starts with byte {shown(first)}, expected 0: was it written without a schema registry's serializer?"


@lru_cache(maxsize=256)
def shown(byte: int) -> str:
    """Return a byte as messages show it."""
    return f'{byte} ("{chr(byte)}")' if chr(byte).isascii() and chr(byte).isprintable() else str(byte)
