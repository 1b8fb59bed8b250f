"""The registry's wire format: a zero byte, the schema's id in four bytes (big end first), then the payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.native import native_available
from frazil.model.dead_letter import Reason, Reject
from frazil.model.spelling import plural

HEADER_BYTES = 5
_NULL, _UNFRAMED = -1, -2


@dataclass(frozen=True, slots=True)
class Group:
    """The values of one schema id. `indexes` is None where that is every value, in order."""

    schema_id: int
    indexes: pa.Int64Array | None


@dataclass(frozen=True, slots=True)
class Framed:
    """Which value has which schema. Every index is in exactly one place; groups are in the order of first use."""

    groups: tuple[Group, ...]
    nulls: tuple[int, ...]
    unframed: tuple[Reject, ...]


def group_by_schema_id(values: Sequence[bytes | None]) -> Framed:
    """Sort values by the schema id that they start with. Costs next to nothing where all have the same."""
    given = values if isinstance(values, list) else list(values)
    if not given:
        return Framed((), (), ())
    ids = schema_ids(given)
    distinct = pc.unique(ids).to_pylist()
    if len(distinct) == 1 and distinct[0] >= 0:
        return Framed((Group(distinct[0], None),), (), ())
    places: dict[int, list[int]] = {schema_id: [] for schema_id in distinct}
    for index, schema_id in enumerate(ids.to_pylist()):
        places[schema_id].append(index)
    nulls, unframed = places.pop(_NULL, []), places.pop(_UNFRAMED, [])
    groups = tuple(Group(schema_id, pa.array(indexes, pa.int64())) for schema_id, indexes in places.items())
    return Framed(groups, tuple(nulls), tuple(_reject(index, given[index]) for index in unframed))


def schema_ids(values: list[bytes | None]) -> pa.Int64Array:
    """The schema id of each value; -1 for None, -2 for a value that is not framed."""
    if native_available():
        import frazil_native  # noqa: PLC0415 - it may not be there

        return frazil_native.schema_ids(values)
    return pa.array(read_schema_ids(values), pa.int64())


def read_schema_ids(values: Sequence[bytes | None]) -> Iterator[int]:
    """The twin of the native `schema_ids`."""
    for value in values:
        if value is None:
            yield _NULL
        elif len(value) < HEADER_BYTES or value[0] != 0:
            yield _UNFRAMED
        else:
            yield int.from_bytes(value[1:HEADER_BYTES], "big")


def _reject(index: int, value: bytes | None) -> Reject:
    held = value or b""
    if len(held) < HEADER_BYTES:
        return Reject(index, Reason.NOT_FRAMED, f"{plural(len(held), 'byte')}, expected a header of {HEADER_BYTES}")
    first = f'{held[0]} ("{chr(held[0])}")' if chr(held[0]).isascii() and chr(held[0]).isprintable() else str(held[0])
    detail = f"starts with byte {first}, expected 0: was it written without a schema registry's serializer?"
    return Reject(index, Reason.NOT_FRAMED, detail)
