"""Bring back columns that other writers dropped: their values are in the table's files, under the former field ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    SetCurrentSchemaUpdate,
    UpdatesAndRequirements,
    UpdateTableMetadata,
)
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from frazil.adapters.iceberg.former_columns import fields_within, held_in
from frazil.adapters.iceberg.scan import reading

TABLE = -1
"""In place of the id of a parent: the field is a column."""


def restore_columns(table: Table) -> tuple[str, ...]:
    """Add the dropped fields whose values live files of `main` still have, and return their dotted names.

    Only the schema changes: no file is written, and a field comes back with its id, and so with its values. It gets
    the first name that it had, followed by its id if another field has that name now: `kafka_offset_5`.

    Raises pyiceberg's CommitFailedException, and changes nothing, if another writer changed the schema meanwhile.
    """
    with reading(".".join(table.name())):
        held = held_in(table, [task.file.file_path for task in table.scan().plan_files()])
    now = table.schema()
    known = _known_fields(table.metadata.schemas)
    with_values = {ancestor for number in held - now.field_ids for ancestor in _lineage(known, number)}
    restoring = _Restoring(known, with_values - now.field_ids)
    schema = Schema(*restoring.struct(now.as_struct(), TABLE).fields, identifier_field_ids=now.identifier_field_ids)
    if restoring.restored:
        with table.transaction() as transaction:
            _SetSchema(transaction, schema).commit()
    return tuple(str(schema.find_column_name(number)) for number in restoring.restored)


@dataclass(frozen=True, slots=True)
class _Known:
    """A field that any schema has: the id of its parent, its first name, and its newest definition."""

    parent: int
    name: str
    field: NestedField


def _known_fields(schemas: Iterable[Schema]) -> dict[int, _Known]:
    """Return all fields by id. The order of schema ids is that of first use: an id is used again if its schema is."""
    known: dict[int, _Known] = {}
    for schema in sorted(schemas, key=lambda each: each.schema_id):
        for parent, each in _with_parents(schema.fields, TABLE):
            first = known.get(each.field_id)
            known[each.field_id] = _Known(parent, first.name if first else each.name, each)
    return known


def _with_parents(fields: Iterable[NestedField], parent: int) -> Iterator[tuple[int, NestedField]]:
    for each in fields:
        yield parent, each
        yield from _with_parents(fields_within(each.field_type) or (), each.field_id)


def _lineage(known: Mapping[int, _Known], number: int) -> Iterator[int]:
    """Yield the ids of a field and of all those that hold it; none if no schema has it."""
    while number in known:
        yield number
        number = known[number].parent


@dataclass(slots=True)
class _Restoring:
    """Adds the `missing` fields where they were, and notes their ids."""

    known: Mapping[int, _Known]
    missing: Set[int]
    restored: list[int] = field(default_factory=list)

    def struct(self, kind: StructType, parent: int) -> StructType:
        fields = [self._completed(each) for each in kind.fields]
        taken = {each.name.casefold() for each in fields}
        for number in sorted(self.missing - {each.field_id for each in fields}):
            former = self.known[number]
            if former.parent == parent:
                name = former.name if former.name.casefold() not in taken else f"{former.name}_{number}"
                taken.add(name.casefold())
                self.restored.append(number)
                fields.append(self._completed(former.field.model_copy(update={"name": name, "required": False})))
        return StructType(*fields)

    def _completed(self, each: NestedField) -> NestedField:
        return each.model_copy(update={"field_type": self._type(each.field_type, each.field_id)})

    def _type(self, kind: IcebergType, parent: int) -> IcebergType:
        if isinstance(kind, StructType):
            return self.struct(kind, parent)
        if isinstance(kind, ListType):
            element = self._type(kind.element_type, kind.element_id)
            return ListType(element_id=kind.element_id, element_type=element, element_required=kind.element_required)
        if isinstance(kind, MapType):
            value = self._type(kind.value_type, kind.value_id)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
        return kind


class _SetSchema(UpdateTableMetadata["_SetSchema"]):
    """Makes a schema the current one, with the ids that it has: PyIceberg's own update gives columns new ids."""

    def __init__(self, transaction: Transaction, schema: Schema) -> None:
        super().__init__(transaction)
        self._schema = schema

    def _commit(self) -> UpdatesAndRequirements:
        metadata = self._transaction.table_metadata
        unchanged = (AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),)
        known = next((each.schema_id for each in metadata.schemas if each == self._schema), None)
        if known is not None:
            return (SetCurrentSchemaUpdate(schema_id=known),), unchanged
        number = 1 + max(each.schema_id for each in metadata.schemas)
        schema = self._schema.model_copy(update={"schema_id": number})
        return (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)), unchanged
