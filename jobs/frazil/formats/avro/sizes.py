"""The smallest encoding of a type, and the slots that a value fills in columns, to check the counts of blocks."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.formats.avro.types import (
    NULL,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Ref,
    Union,
)
from frazil.formats.limits import slots_of_bytes

_BYTES = {"null": 0, "float": 4, "double": 8}
_CEILING = 2**31
"""Sums are capped here: no payload is this long."""


@dataclass(frozen=True, slots=True)
class ItemSize:
    """The size of an item of an array or a map: its least number of bytes, and the slots in columns that it fills."""

    least_bytes: int
    slots: int


class Sizes:
    """The sizes of the types of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._named = schema.named
        self._least: dict[str, int | None] = dict.fromkeys(schema.named)
        self._slots: dict[str, int] = {}
        self._settle()
        for name in schema.named:  # definitions come before their uses, which keeps the recursion shallow
            self._slots_of_definition(name)

    def item(self, items: AvroType) -> ItemSize:
        """Return the size of an array's item."""
        return ItemSize(self._least_bytes(items) or 0, self._slots_of(items))

    def entry(self, values: AvroType) -> ItemSize:
        """Return the size of a map's entry: the value's, plus at least 1 byte and a column for the key."""
        value = self.item(values)
        return ItemSize(1 + value.least_bytes, 1 + value.slots)

    def is_endless(self, name: str) -> bool:
        """Return whether every value of this type contains another one, so that no payload can hold it."""
        return self._least[name] is None

    def _settle(self) -> None:
        """Compute sizes until they no longer change. This ends, because sizes start as infinite and only decrease."""
        changed = True
        while changed:
            changed = False
            for name, before in list(self._least.items()):
                self._least[name] = self._least_of_definition(self._named[name])
                changed |= self._least[name] != before

    def _least_bytes(self, avro_type: AvroType) -> int | None:
        match avro_type:
            case Primitive(name):
                return _BYTES.get(name, 1)
            case Array() | Map():
                return 1
            case Union(branches):
                sizes = [size for branch in branches if (size := self._least_bytes(branch)) is not None]
                return 1 + min(sizes) if sizes else None
            case Ref(name):
                return self._least[name]

    def _least_of_definition(self, named: NamedType) -> int | None:
        match named:
            case Fixed(size=size):
                return size
            case Enum():
                return 1
            case Record(fields=fields):
                sizes = [self._least_bytes(field.type) for field in fields]
                return None if None in sizes else min(_CEILING, sum(size or 0 for size in sizes))

    def _slots_of(self, avro_type: AvroType) -> int:
        """Return how many slots one value fills, null or not. Items of arrays and maps in it are counted separately."""
        match avro_type:
            case Union(branches):
                return min(_CEILING, max(1, sum(self._slots_of(branch) for branch in branches if branch != NULL)))
            case Ref(name):
                return self._slots_of_definition(name)
            case _:
                return 1

    def _slots_of_definition(self, name: str) -> int:
        """Return the slots of a named type. A recursive record counts once: after a few levels it is JSON text."""
        named = self._named[name]
        if name not in self._slots and isinstance(named, Record):
            self._slots[name] = 1
            self._slots[name] = min(_CEILING, max(1, sum(self._slots_of(field.type) for field in named.fields)))
        return self._slots.get(name, 1) if isinstance(named, Record) else slots_of(named)


def slots_of(named: Fixed | Enum) -> int:
    """Return how many slots a value fills at most."""
    size = named.size if isinstance(named, Fixed) else max((len(each.encode()) for each in named.symbols), default=0)
    return slots_of_bytes(size)
