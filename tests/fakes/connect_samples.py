"""Schemas and values of Kafka Connect as its converters write them: JSON with the schema, Confluent's Avro and JSON
Schema.

A schema is a dict as in `JsonConverter`'s JSON: `type`, `optional`, `name`, `parameters`, and `field` in a struct.
Values are Python's, with Decimal and dates for the logical types that Connect itself knows.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

Json = Any
Schema = dict[str, Any]

INT, LONG, STRING, BYTES = ({"type": each} for each in ("int32", "int64", "string", "bytes"))
DOUBLE, BOOLEAN = {"type": "double"}, {"type": "boolean"}

_AVRO = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}
_LOGICAL = {"Date": "date", "Time": "time-millis", "Timestamp": "timestamp-millis"}
_CONNECT = "org.apache.kafka.connect.data."
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def struct(name: str = "", /, **fields: Schema) -> Schema:
    named = {"name": name} if name else {}
    return {"type": "struct", "fields": [{**schema, "field": each} for each, schema in fields.items()], **named}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def optional(schema: Schema) -> Schema:
    return {**schema, "optional": True}


def named(name: str, schema: Schema, **parameters: str) -> Schema:
    return {**schema, "name": name, "version": 1, **({"parameters": parameters} if parameters else {})}


def json_record(schema: Schema, value: Any) -> bytes:
    """Return what the JSON converter writes with `schemas.enable`."""
    return json.dumps({"schema": schema, "payload": json_value(schema, value)}, separators=(",", ":")).encode()


def json_value(schema: Schema, value: Any) -> Json:
    if isinstance(value, dict) and schema["type"] == "struct":
        return {each["field"]: json_value(each, value.get(each["field"])) for each in schema["fields"]}
    if isinstance(value, list):
        return [json_value(schema["items"], each) for each in value]
    if isinstance(value, Decimal):
        number = int(value.scaleb(int(schema["parameters"]["scale"])))
        value = number.to_bytes((number.bit_length() + 8) // 8, signed=True)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else _number(value)


def _number(value: Any) -> Json:
    """Return a date, a time or a timestamp as the number that Connect writes, and other values as they are."""
    match value:
        case dt.datetime():
            return round((value - _EPOCH).total_seconds() * 1000)
        case dt.date():
            return (value - _EPOCH.date()).days
        case dt.time():
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
        case _:
            return value


def avro_schema(schema: Schema) -> str:
    """Return the schema that the Avro converter registers."""
    return json.dumps(_Avro().type(schema))


def avro_payload(schema: Schema, value: Any) -> bytes:
    """Return the value that the Avro converter writes, without the header."""
    payload = BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(avro_schema(schema))), value)
    return payload.getvalue()


_NUMBERS = {
    **{each: ("integer", each) for each in ("int8", "int16", "int32", "int64")},
    **{"float": ("number", "float32"), "double": ("number", "float64")},
}


def json_schema(schema: Schema) -> str:
    """Return the schema that the JSON Schema converter registers (`JsonSchemaData.rawSchemaFromConnectSchema`)."""
    return json.dumps(_json_schema(schema, None))


def json_schema_payload(schema: Schema, value: Any) -> bytes:
    """Return the value that the JSON Schema converter writes, without the header."""
    return json.dumps(json_value(schema, value), separators=(",", ":")).encode()


def _json_schema(schema: Schema, index: int | None) -> Json:
    about = {"title": schema.get("name"), "connect.version": schema.get("version")}
    about |= {"connect.parameters": schema.get("parameters")}
    kind = {**_json_type(schema), **{each: given for each, given in about.items() if given is not None}}
    whole = {"oneOf": [{"type": "null"}, kind]} if schema.get("optional") else kind
    return whole if index is None else {**whole, "connect.index": index}


def _json_type(schema: Schema) -> Json:
    """Return a type. Properties are in no order, as they are in Java's hash maps: `connect.index` says it."""
    match schema["type"]:
        case "struct":
            parts = [(each["field"], _json_schema(each, index)) for index, each in enumerate(schema["fields"])]
            return {"type": "object", "properties": dict(sorted(parts, reverse=True))}
        case "array":
            return {"type": "array", "items": _json_schema(schema["items"], None)}
        case "map":
            values = _json_schema(schema["values"], None)
            return {"type": "object", "additionalProperties": values, "connect.type": "map"}
        case "bytes":
            is_decimal = schema.get("name") == f"{_CONNECT}Decimal"
            return {"type": "number" if is_decimal else "string", "connect.type": "bytes"}
        case word if word in _NUMBERS:
            name, connect_type = _NUMBERS[word]
            return {"type": name, "connect.type": connect_type}
        case word:
            return {"type": word}


class _Avro:
    """Writes each named struct where it is first used, and its name after that."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def type(self, schema: Schema) -> Json:
        kind = self._required(schema)
        return ["null", kind] if schema.get("optional") else kind

    def _required(self, schema: Schema) -> Json:
        name, parameters = schema.get("name"), schema.get("parameters")
        about = {"connect.version": schema["version"]} if "version" in schema else {}
        about |= {"connect.parameters": parameters} if parameters else {}
        about |= {"connect.name": name} if name else {}
        match schema["type"]:
            case "struct":
                return self._struct(schema, about)
            case "array":
                return {"type": "array", "items": self.type(schema["items"]), **about}
            case "map":
                return {"type": "map", "values": self.type(schema["values"]), **about}
            case word:
                kind = {"type": _AVRO.get(word, word), **about, **_logical(schema)}
                return kind if len(kind) > 1 else kind["type"]

    def _struct(self, schema: Schema, about: Schema) -> Json:
        name = schema.get("name", "io.confluent.connect.avro.ConnectDefault")
        if name in self._defined:
            return name
        self._defined.add(name)
        namespace, _, short = name.rpartition(".")
        fields = [self._field(each) for each in schema["fields"]]
        return {"type": "record", "name": short, "namespace": namespace, "fields": fields, **about}

    def _field(self, schema: Schema) -> Json:
        default = {"default": None} if schema.get("optional") else {}
        return {"name": schema["field"], "type": self.type(schema), **default}


def _logical(schema: Schema) -> Schema:
    name = schema.get("name", "")
    if name == f"{_CONNECT}Decimal":
        scale, precision = schema["parameters"]["scale"], schema["parameters"].get("connect.decimal.precision", "64")
        return {"scale": int(scale), "precision": int(precision), "logicalType": "decimal"}
    known = _LOGICAL.get(name.removeprefix(_CONNECT)) if name.startswith(_CONNECT) else None
    return {"logicalType": known} if known else {}
