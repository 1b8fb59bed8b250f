"""What Confluent's checker refuses in a Protobuf schema by itself: `formats/validity.py`.

Its source: `protobuf/ProtoToLogicalTypeConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frazil.formats.protobuf.schema import ProtobufSchema
from frazil.formats.validity import (
    Invalid,
    Recursive,
    clashes,
    cyclic,
    join,
    no_fields,
    of_decimal,
    of_length,
    of_precision,
    of_timestamp,
    unconvertible,
    variant,
)

_WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "UInt32", "Int32", "Bool", "String", "Bytes")
)
_VALUES = (
    *_WRAPPERS, "google.protobuf.Timestamp", "google.type.Date", "google.type.TimeOfDay", "confluent.type.Decimal",
    "confluent.type.Variant",
)  # fmt: skip
"""The messages that become one value, so that their own fields do not count."""


def invalid(schema: ProtobufSchema) -> Iterator[Invalid]:
    """Yield what the checker refuses in a valid schema."""
    yield from _Walk(schema).message(schema.message, "")


class _Walk:
    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._walked: set[str] = set()
        self._recursive = Recursive(self._used_by)

    def message(self, message: Any, path: str) -> Iterator[Invalid]:
        """Yield what is wrong with a message, once: at the first path that leads to it."""
        name = message.full_name
        if name in self._recursive:
            yield cyclic(name, path)
        elif name not in self._walked:
            self._walked.add(name)
            yield from self._fields(message, path)

    def _fields(self, message: Any, path: str) -> Iterator[Invalid]:
        oneofs = [each for each in message.oneofs if not _is_synthetic(each)]
        alone = [field for field in message.fields if field.containing_oneof not in oneofs]
        if not message.fields:
            yield no_fields("is a message without fields", path)
        yield from clashes([each.name for each in (*alone, *oneofs)], path)
        for field in alone:
            yield from self._field(field, join(path, field.name))
        for oneof in oneofs:
            here = join(path, oneof.name)
            yield from clashes((field.name for field in oneof.fields), here)
            for field in oneof.fields:
                yield from self._field(field, join(here, field.name))

    def _field(self, field: Any, path: str) -> Iterator[Invalid]:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            yield from self._field(message.fields_by_name["value"], path + "{}")
            return
        path += "[]" if field.label == field.LABEL_REPEATED else ""
        if message is not None and message.full_name not in _VALUES:
            yield from self.message(message, path)
            return
        try:
            yield from self._value(field, path)
        except ValueError:
            yield unconvertible(path, "has a parameter that is not a number")

    def _value(self, field: Any, path: str) -> Iterator[Invalid]:
        """Yield what is wrong with a value without fields. Raises ValueError for a parameter that is no number."""
        params = self._schema.params_of(field)
        if field.message_type is None:
            if field.type in (field.TYPE_STRING, field.TYPE_BYTES) and "flink.maxLength" in params:
                yield from of_length(int(params["flink.maxLength"]), path, least=0)
            return
        match field.message_type.full_name:
            case "google.protobuf.Timestamp":
                yield from of_timestamp(int(params.get("flink.precision", "9")), path)
            case "google.type.TimeOfDay":
                yield from of_precision(int(params.get("flink.precision", "9")), path)
            case "confluent.type.Decimal":
                yield from of_decimal(int(params.get("precision", "10")), int(params.get("scale", "0")), path)
            case "confluent.type.Variant" as name:
                yield variant(name, path)

    def _used_by(self, name: str) -> Iterator[str]:
        for field in self._schema.find(name).fields:
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                inner = inner.fields_by_name["value"].message_type
            if inner is not None and inner.full_name not in _VALUES:
                yield inner.full_name


def _is_synthetic(oneof: Any) -> bool:
    """Return whether the oneof is that of one field with the word `optional` in proto3."""
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"
