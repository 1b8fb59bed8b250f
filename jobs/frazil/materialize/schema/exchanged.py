"""Find fields whose aliases lead around a ring, at every level of a writer's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from frazil.materialize.schema.name_tree import join
from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Struct


def exchanged(columns: tuple[Column, ...], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field whose alias leads around a ring: `a` was `b`, and `b` was `a`, at every level.

    The table knows columns by name, so an older record's value would share a column with another field's.
    """
    named = {column.name: column for column in columns}
    for ring in _rings({name: [a for a in each.aliases if a in named and a != name] for name, each in named.items()}):
        names = ", ".join(sorted(ring))
        problem = "takes the name of a field that the same schema renames: according to their aliases, the fields"
        yield from ((join(path, name), f"{problem} {names} exchange names") for name in sorted(ring))
    for column in columns:
        for inner_path, inner in structs_in(column.type, join(path, column.name)):
            yield from exchanged(inner.columns, inner_path)


def _rings(before: Mapping[str, Sequence[str]]) -> Iterator[set[str]]:
    """The rings among the names, each name in one of them at most."""
    left = {name: former for name, former in before.items() if former}
    while left:
        try:
            return TopologicalSorter(left).prepare()
        except CycleError as found:
            ring = set(found.args[1])
            yield ring
            left = {name: [f for f in former if f not in ring] for name, former in left.items() if name not in ring}


def structs_in(column_type: ColumnType, path: str) -> Iterator[tuple[str, Struct]]:
    """Yield the outermost structs in a type, with their paths."""
    match column_type:
        case Struct():
            yield path, column_type
        case ListOf(element):
            yield from structs_in(element, f"{path}[]")
        case MapOf(_, value):
            yield from structs_in(value, f"{path}{{}}")
        case _:
            return
