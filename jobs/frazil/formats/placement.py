"""Match the fields of a writer's schema to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

ColumnSources = Mapping[str, str]
"""The name of the writer's field that fills a column, by the column's dotted path in the table (`columns.walk`)."""


def place_by_name(given: pa.Schema, target: pa.Schema, former_names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Match fields to columns by name at every level, or else by a former name of the column."""
    return dict(_by_name(list(given), list(target), "", former_names))


def _by_name(
    given: list[pa.Field], wanted: list[pa.Field], path: str, former_names: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    here, taken = {field.name: field for field in given}, {field.name for field in wanted}
    for field in wanted:
        at = join(path, field.name)
        former = (name for name in former_names.get(at, ()) if name in here and name not in taken)
        source = field.name if field.name in here else next(former, None)
        if source is not None:
            yield at, source
            for inner_given, inner_wanted, inner_path in structs_within(here[source].type, field.type, at):
                yield from _by_name(inner_given, inner_wanted, inner_path, former_names)


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


def is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
