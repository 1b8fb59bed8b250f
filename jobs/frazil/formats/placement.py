"""Match the fields of a writer's schema to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from frazil.formats.families import arrow_family_of, is_list

ColumnSources = Mapping[str, str]
"""The name of the writer's field that fills a column, by the column's dotted path in the table (`columns.walk`)."""


def place_by_name(given: pa.Schema, target: pa.Schema, former_names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Match fields to columns by name at every level, or else by a former name of the column.

    If several columns are known by a field's name, they are for values of different types (`price`, `price__v2`), and
    the field fills the one for its own type.
    """
    return dict(_by_name(list(given), list(target), "", former_names))


def _by_name(
    given: list[pa.Field], wanted: list[pa.Field], path: str, former_names: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    here = {field.name: field for field in given}
    known = columns_by_name(wanted, path, former_names)
    filled = {name: column_for(field, known[name]).name for name, field in here.items() if name in known}
    for field in wanted:
        at = join(path, field.name)
        names = (field.name, *former_names.get(at, ()))
        source = next((name for name in names if filled.get(name) == field.name), None)
        if source is not None:
            yield at, source
            for inner_given, inner_wanted, inner_path in structs_within(here[source].type, field.type, at):
                yield from _by_name(inner_given, inner_wanted, inner_path, former_names)


def columns_by_name(
    columns: Sequence[pa.Field], path: str, former_names: Mapping[str, tuple[str, ...]]
) -> dict[str, list[pa.Field]]:
    """Return the columns of one level by the names that they are known by: first the one that has the name now."""
    known = {column.name: [column] for column in columns}
    for column in columns:
        for name in former_names.get(join(path, column.name), ()):
            known.setdefault(name, []).append(column)
    return known


def column_for(field: pa.Field, columns: Sequence[pa.Field]) -> pa.Field:
    """Return the column for the field's type among those that are known by its name; the first one if none is."""
    if len(columns) == 1:
        return columns[0]
    family = arrow_family_of(field.type)
    return next((column for column in columns if arrow_family_of(column.type) == family), columns[0])


def homeless(given: pa.Schema, target: pa.Schema, sources: ColumnSources) -> tuple[str, ...]:
    """Return the dotted paths of the writer's fields that fill no column: their values would be lost."""
    return tuple(_homeless(list(given), list(target), "", "", sources))


def _homeless(
    given: list[pa.Field], wanted: list[pa.Field], path: str, written_path: str, sources: ColumnSources
) -> Iterator[str]:
    columns = {sources[at]: field for field in wanted if (at := join(path, field.name)) in sources}
    for field in given:
        column, written_at = columns.get(field.name), join(written_path, field.name)
        if column is None:
            yield written_at
            continue
        at = join(path, column.name)
        for inner_given, inner_wanted, inner_path in structs_within(field.type, column.type, at):
            yield from _homeless(inner_given, inner_wanted, inner_path, written_at + inner_path[len(at) :], sources)


def structs_within(
    given: pa.DataType, wanted: pa.DataType, path: str
) -> Iterator[tuple[list[pa.Field], list[pa.Field], str]]:
    """Yield the structs that two types have at the same path: the fields of both, and the path."""
    types = pa.types
    if types.is_struct(given) and types.is_struct(wanted):
        yield list(given), list(wanted), path
    elif types.is_map(given) and types.is_map(wanted):
        yield from structs_within(given.item_type, wanted.item_type, path + "{}")
    elif is_list(given) and is_list(wanted):
        yield from structs_within(given.value_type, wanted.value_type, path + "[]")


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
