"""The memory of a row beyond that of its values, for `parts.in_parts`.

Arrow stores a null of a fixed(n) in n bytes, and a symbol of an enum as text; in the payload each takes a byte or two.
"""

from __future__ import annotations

from frazil.formats.avro.shape import Choice, Leaf, Members, Shape
from frazil.formats.avro.sizes import slots_of
from frazil.formats.avro.types import Enum, Fixed


def extra_slots(shape: Shape) -> int:
    """Return the slots beyond one per value. The items of arrays and maps are counted when they are read."""
    match shape:
        case Leaf(Fixed() | Enum() as named):
            return slots_of(named) - 1
        case Members(fields):
            return sum(extra_slots(each.shape) for each in fields)
        case Choice():
            return sum(extra_slots(each.shape) for each in shape.values())
        case _:
            return 0
