"""Field ids of a schema that takes the place of another: columns that are the same keep theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

ELEMENT, KEY, VALUE = "element", "key", "value"


def with_ids_of(wanted: Schema, known: Schema, *, schema_id: int, last_id: int) -> Schema:
    """Return the schema with the ids of `known` where path and type are the same, and ids after `last_id` elsewhere.

    So old files cannot be read as another type, and the partition specs of old files still find their columns.
    """
    fields = _Ids(last_id).fields(wanted.fields, known.fields)
    return Schema(*fields, schema_id=schema_id)


@dataclass(slots=True)
class _Ids:
    last: int

    def fields(self, wanted: Sequence[NestedField], known: Sequence[NestedField]) -> list[NestedField]:
        by_name = {field.name: field for field in known}
        return [self._field(field, by_name.get(field.name)) for field in wanted]

    def _field(self, wanted: NestedField, known: NestedField | None) -> NestedField:
        same = known is not None and _alike(wanted.field_type, known.field_type)
        field_id = known.field_id if known is not None and same else self._new()
        field_type = self._type(wanted.field_type, known.field_type if known is not None and same else None)
        return wanted.model_copy(update={"field_id": field_id, "field_type": field_type})

    def _type(self, wanted: IcebergType, known: IcebergType | None) -> IcebergType:
        """Return the type with ids; `known` is one of the same kind, or None."""
        inner = self.fields(_inner(wanted), () if known is None else _inner(known))
        match wanted:
            case StructType():
                return StructType(*inner)
            case ListType():
                return ListType(inner[0].field_id, inner[0].field_type, element_required=inner[0].required)
            case MapType():
                key, value = inner
                return MapType(
                    key.field_id, key.field_type, value.field_id, value.field_type, value_required=value.required
                )
            case _:
                return wanted

    def _new(self) -> int:
        self.last += 1
        return self.last


def _inner(of: IcebergType) -> Sequence[NestedField]:
    match of:
        case StructType():
            return of.fields
        case ListType():
            return (NestedField(of.element_id, ELEMENT, of.element_type, of.element_required),)
        case MapType():
            key = NestedField(of.key_id, KEY, of.key_type, required=True)
            return (key, NestedField(of.value_id, VALUE, of.value_type, of.value_required))
        case _:
            return ()


def _alike(one: IcebergType, other: IcebergType) -> bool:
    """Return whether two types are the same, apart from what is inside structs, lists and maps."""
    if isinstance(one, PrimitiveType) or isinstance(other, PrimitiveType):
        return one == other
    return type(one) is type(other)
