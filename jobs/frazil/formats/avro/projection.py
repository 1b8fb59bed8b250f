"""The shape of rows with some of the columns of a schema."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from frazil.formats.avro.shape import Choice, Empty, Member, Members, Shape, Skipped


def only(row: Members, wanted: Collection[str]) -> Members:
    """Return the shape in which fields are skipped, except for those at the dotted paths `wanted` and what is in them.

    A path leads through records, optional ones too. A path that does not exist has no effect.
    """
    return Members(tuple(_member(each, each.name, wanted) for each in row.fields))


def _member(member: Member, path: str, wanted: Collection[str]) -> Member:
    if path in wanted or isinstance(member.shape, Empty):
        return member
    shape = _inside(member.shape, path, wanted) if any(each.startswith(f"{path}.") for each in wanted) else None
    return replace(member, shape=Skipped(member.shape) if shape is None else shape, is_shared=False)


def _inside(shape: Shape, path: str, wanted: Collection[str]) -> Shape | None:
    """Return the shape of a record with some of its fields; None if it has none of them, or is no record."""
    match shape:
        case Members(fields):
            inner = Members(tuple(_member(each, f"{path}.{each.name}", wanted) for each in fields))
            return inner if inner.with_data() else None
        case Choice(branches) if len(shape.values()) == 1:
            kept = _inside(shape.values()[0].shape, path, wanted)
            return None if kept is None else Choice(tuple(_with_shape(branch, kept) for branch in branches))
        case _:
            return None


def _with_shape(branch: Member | None, shape: Shape) -> Member | None:
    return None if branch is None else replace(branch, shape=shape, is_shared=False)
