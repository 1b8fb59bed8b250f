"""The least number of bytes that a value of a type takes: what a block count is checked against."""

from __future__ import annotations

from collections.abc import Callable

from jobs.formats.avro.types import Array, AvroSchema, AvroType, Enum, Fixed, Map, Primitive, Record, Ref, Union

_BYTES = {"null": 0, "float": 4, "double": 8}
_CEILING = 2**31
"""No payload is this long, so larger sums say no more."""


def least_sizes(schema: AvroSchema) -> Callable[[AvroType], int | None]:
    """A function from a type of this schema to its least size; None where no value of the type ever ends."""
    known: dict[str, int | None] = dict.fromkeys(schema.named)

    def least(avro_type: AvroType) -> int | None:
        match avro_type:
            case Primitive(name):
                return _BYTES.get(name, 1)
            case Array() | Map():
                return 1
            case Union(branches):
                sizes = [size for branch in branches if (size := least(branch)) is not None]
                return 1 + min(sizes) if sizes else None
            case Ref(name):
                return known[name]

    def of_definition(name: str) -> int | None:
        match schema.named[name]:
            case Fixed(size=size):
                return size
            case Enum():
                return 1
            case Record(fields=fields):
                sizes = [least(field.type) for field in fields]
                return None if None in sizes else min(_CEILING, sum(size or 0 for size in sizes))

    _settle(known, of_definition)
    return least


def _settle(known: dict[str, int | None], of_definition: Callable[[str], int | None]) -> None:
    """Compute again until nothing changes: sizes only ever go from "no end" to a number, and down."""
    changed = True
    while changed:
        changed = False
        for name, before in list(known.items()):
            known[name] = of_definition(name)
            changed |= known[name] != before
