"""Notes on types that a table stores less exactly than its writers' schemas, for `explain` and `status`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from frazil.formats.families import family_of
from frazil.formats.mapped import LEFT_OUT
from frazil.formats.open import map_schema
from frazil.materialize.schema.former_names import FormerNames
from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.reader_rules import warned_columns
from frazil.model.schemas import RegisteredSchema, SchemaFinding
from frazil.model.spec import TableSpec

LEFT_OUT_PROPERTY = "frazil.left-out"
"""A table property: JSON list of the fields, by dotted path, that have no column because their type holds no data."""


def notes_of_values(spec: TableSpec, schema: RegisteredSchema) -> tuple[SchemaFinding, ...]:
    """Return ignored logical types, fields without a column, lossy conversions, and warnings for readers, by path."""
    mapped = map_schema(schema, spec.value_settings)
    return mapped.notes + warned_columns(spec.readers, mapped.columns)


def notes_of_keys(spec: TableSpec, schema: RegisteredSchema) -> tuple[SchemaFinding, ...]:
    """The same for a key's schema, with paths inside the key's column."""
    mapped, column = map_schema(schema, spec.key_settings), spec.metadata.prefix + "key"
    return tuple(
        SchemaFinding(f"{column}.{n.path}" if mapped.record is not None else column, n.problem) for n in mapped.notes
    )


def left_out(properties: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(json.loads(properties.get(LEFT_OUT_PROPERTY, "[]")))


def left_out_property(
    properties: Mapping[str, str], notes: Iterable[SchemaFinding], columns: tuple[Column, ...]
) -> dict[str, str]:
    """Return the property after these notes, for a table with these columns; empty if nothing changes."""
    before, named = left_out(properties), [note.path for note in notes if note.problem == LEFT_OUT]
    there = {path for path, _ in walk(columns)} if before or named else set()
    found = {*before, *named} - there
    return {LEFT_OUT_PROPERTY: json.dumps(sorted(found))} if sorted(found) != sorted(before) else {}


def differences(
    written: tuple[Column, ...], have: tuple[Column, ...], former_names: FormerNames, path: str = ""
) -> Iterator[SchemaFinding]:
    """Columns that a writer's newest schema does not fill, and those that are wider than what it writes."""
    given = {column.name: column for column in written}
    for column in have:
        here = f"{path}.{column.name}" if path else column.name
        field = next((given[name] for name in (column.name, *former_names.get(here, ())) if name in given), None)
        if field is None:
            yield SchemaFinding(here, "not in the newest schema: null in new rows")
        elif family_of(field.type) != family_of(column.type):
            yield SchemaFinding(here, f"{field.type} in the newest schema: null in new rows")
        else:
            yield from _narrower(field.type, column.type, former_names, here)


def _narrower(written: ColumnType, have: ColumnType, former_names: FormerNames, path: str) -> Iterator[SchemaFinding]:
    match written, have:
        case Struct(inner), Struct(present):
            yield from differences(inner, present, former_names, path)
        case ListOf(element), ListOf(present_element):
            yield from _narrower(element, present_element, former_names, f"{path}[]")
        case MapOf(_, value), MapOf(_, present_value):
            yield from _narrower(value, present_value, former_names, f"{path}{{}}")
        case (Scalar() | Decimal(), Scalar() | Decimal()) if written != have:
            yield SchemaFinding(
                path, f"{written} in the newest schema: the column stays {have}, and values are widened"
            )
        case _:
            return
