"""The entries of change events in the list of value formats: their values, and their keys."""

from __future__ import annotations

from dataclasses import replace

from frazil.formats.avro import mapping
from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.schema import parse_schema
from frazil.formats.avro.types import AvroSchema
from frazil.formats.connect_json.schema import read_schema
from frazil.formats.debezium.columns import LogicalColumns
from frazil.formats.debezium.decoder import avro_changes, json_changes, map_avro, map_json
from frazil.formats.debezium.envelope import is_key_of_row
from frazil.formats.debezium.json_schema import json_schema_changes, json_schema_keys, map_json_schema
from frazil.formats.debezium.keys import avro_keys, json_keys
from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.json_schema import format as json_schemas
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped
from frazil.model.change_events import ChangeEvents
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import FormatSettings


def _map_values(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    return map_avro(_parsed(schema), _events(settings))


def _open_values(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    return avro_changes(_parsed(schema), _events(settings))


def _map_keys(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    del settings
    parsed = _parsed(schema)
    mapped = mapping.map_schema(parsed)
    if not is_key_of_row(mapped.record):
        return _of_no_row(mapped.record)
    return replace(mapped, columns=LogicalColumns(mapped.columns, connect_types(parsed)).columns)


def _of_no_row(record: str | None) -> Mapped:
    return Mapped((), (), record=record, is_of_rows=False)


def _open_keys(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    del settings
    return avro_keys(_parsed(schema))


def _parsed(schema: RegisteredSchema) -> AvroSchema:
    return parse_schema(schema.text, schema.referenced_texts)


def _events(settings: FormatSettings) -> ChangeEvents:
    assert settings.change_events is not None  # noqa: S101 - else another format is asked
    return settings.change_events


def _map_json_values(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    return map_json(read_schema(schema.text), _events(settings))


def _open_json_values(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    return json_changes(read_schema(schema.text), _events(settings))


def _map_json_keys(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    del settings
    embedded = read_schema(schema.text)
    if not is_key_of_row(embedded.name):
        return _of_no_row(embedded.name)
    columns = LogicalColumns(columns_of(embedded.row), embedded.types).columns
    return Mapped(columns, (), record=embedded.name or "")


def _open_json_keys(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    del settings
    return json_keys(read_schema(schema.text))


def _map_json_schema_values(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    return map_json_schema(json_schemas.expanded(schema, settings), _events(settings))


def _open_json_schema_values(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    return json_schema_changes(json_schemas.expanded(schema, settings), _events(settings))


def _map_json_schema_keys(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    found = json_schemas.expanded(schema, settings)
    if not is_key_of_row(found.title):
        return _of_no_row(found.title)
    mapped = json_schemas.mapped(found)
    return mapped if mapped.findings else replace(mapped, columns=LogicalColumns(mapped.columns, found.types).columns)


def _open_json_schema_keys(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    return json_schema_keys(json_schemas.expanded(schema, settings))


AVRO_VALUES = Format("AVRO", _map_values, _open_values)
AVRO_KEYS = Format("AVRO", _map_keys, _open_keys)
JSON_VALUES = Format("CONNECT", _map_json_values, _open_json_values)
JSON_KEYS = Format("CONNECT", _map_json_keys, _open_json_keys)
JSON_SCHEMA_VALUES = Format("JSON", _map_json_schema_values, _open_json_schema_values)
JSON_SCHEMA_KEYS = Format("JSON", _map_json_schema_keys, _open_json_schema_keys)
