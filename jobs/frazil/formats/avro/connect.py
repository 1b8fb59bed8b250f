"""The types of a writer schema that Kafka Connect named."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.formats.avro.types import Array, AvroSchema, AvroType, Primitive, Record, Union
from frazil.formats.connect import ConnectType, ConnectTypes


def connect_types(schema: AvroSchema) -> ConnectTypes:
    """Return the named types by the dotted paths of their columns.

    Types in maps, and in unions of several types other than null, are left out. A record inside itself is read once.
    """
    return dict(_of_fields(schema, schema.row(), "", ()))


def _of_fields(
    schema: AvroSchema, record: Record, path: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, ConnectType]]:
    for field in record.fields:
        here = f"{path}.{field.name}" if path else field.name
        yield from _of_type(schema, field.type, here, (*inside, record.name))


def _of_type(
    schema: AvroSchema, avro_type: AvroType, path: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, ConnectType]]:
    kind = schema.resolve(avro_type)
    if isinstance(kind, Union):
        only = kind.optional()
        if only is not None:
            yield from _of_type(schema, only, path, inside)
        return
    if isinstance(kind, Primitive | Array | Record) and kind.connect is not None:
        yield path, kind.connect
    if isinstance(kind, Array):
        yield from _of_type(schema, kind.items, path + "[]", inside)
    if isinstance(kind, Record) and kind.name not in inside:
        yield from _of_fields(schema, kind, path, inside)
