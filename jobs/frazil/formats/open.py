"""The value formats, by the registry's schema type, and those without registered schemas, by their words in a spec.

Other code uses formats only through this module. To add a format with registered schemas, add a package next to `avro/`
with a `Format`, and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

import pyarrow as pa

from frazil.formats.avro.format import AVRO
from frazil.formats.connect_json.embedded import embedded_schema, group_by_embedded_schema, is_embedded, remember
from frazil.formats.debezium.declared import declared_changes, map_declared
from frazil.formats.debezium.format import (
    AVRO_KEYS,
    AVRO_VALUES,
    JSON_KEYS,
    JSON_SCHEMA_KEYS,
    JSON_SCHEMA_VALUES,
    JSON_VALUES,
)
from frazil.formats.declared import declared_row
from frazil.formats.decoder import Decoder
from frazil.formats.file_levels import within_files
from frazil.formats.format import Format, PlainFormat
from frazil.formats.framing import Grouping, group_by_schema_id, one_group
from frazil.formats.glue_framing import group_by_version_id
from frazil.formats.header_framing import group_by_header
from frazil.formats.json_schema.format import JSON_SCHEMA
from frazil.formats.json_values import open as json_values
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped
from frazil.formats.masks.arrays import MaskedDecoder
from frazil.formats.masks.columns import Masked, mask_columns
from frazil.formats.plain import PLAIN_FORMATS, PlainDecoder
from frazil.formats.protobuf.format import PROTOBUF, open_message_names, with_glue_index
from frazil.formats.validity import Invalid
from frazil.model.columns import Column
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema, SchemaType
from frazil.model.spec import CONFLUENT, DEFAULT_SETTINGS, EMBEDDED, FormatSettings, TableSpec, WireFormat

FORMATS: Mapping[SchemaType, Format] = {each.schema_type: each for each in (AVRO, PROTOBUF, JSON_SCHEMA)}
CHANGE_EVENTS: Mapping[SchemaType, Format] = {
    each.schema_type: each for each in (AVRO_VALUES, JSON_VALUES, JSON_SCHEMA_VALUES)
}
KEYS_OF_CHANGE_EVENTS: Mapping[SchemaType, Format] = {
    each.schema_type: each for each in (AVRO_KEYS, JSON_KEYS, JSON_SCHEMA_KEYS)
}


__all__ = ("embedded_schema", "is_embedded", "remember")


def is_known(schema: RegisteredSchema) -> bool:
    """Return whether records of this schema can be decoded."""
    return schema.format in FORMATS


@lru_cache(maxsize=16)
def map_schema(schema: RegisteredSchema, settings: FormatSettings = DEFAULT_SETTINGS) -> Mapped:
    """Return the columns of a writer schema. Cached, because several steps of a run need the same schemas.

    They are the columns after the policies of the settings. Raises IncompatibleSchemaError with every problem if the
    text is not a schema, or refers to one that is missing. `is_known(schema)` must be true.
    """
    return _after_policies(within_files(_format_of(schema, settings).map_schema(schema, settings)), settings)


def _format_of(schema: RegisteredSchema, settings: FormatSettings) -> Format:
    """Return the format that reads a schema. Raises IncompatibleSchemaError if the schema refers to a missing one."""
    if schema.missing:
        raise IncompatibleSchemaError(
            f"it refers to {', '.join(schema.missing)}, which the schema registry does not have",
            hint="register the referenced schema again, or restore it if it was deleted",
        )
    if settings.change_events is not None:
        return CHANGE_EVENTS[schema.format]
    return (KEYS_OF_CHANGE_EVENTS if settings.of_change_events else FORMATS)[schema.format]


@lru_cache(maxsize=10_000)
def record_name(schema: RegisteredSchema) -> str | None:
    """Return the full name of a schema of records (in JSON Schema its title), or None for another schema or text."""
    mapped = _mapped(schema)
    return None if mapped is None else mapped.record or None


@lru_cache(maxsize=10_000)
def record_names(schema: RegisteredSchema) -> frozenset[str]:
    """Return the full names of the records that payloads of a schema can be: in Protobuf, of all its messages."""
    mapped = _mapped(schema)
    return frozenset() if mapped is None else frozenset(filter(None, (mapped.record, *mapped.other_records)))


def _mapped(schema: RegisteredSchema) -> Mapped | None:
    """Return the columns of a schema; None for one of an unknown type and for a text that is none."""
    try:
        return map_schema(schema) if is_known(schema) else None
    except IncompatibleSchemaError:
        return None


@lru_cache(maxsize=64)
def invalid_for_confluent(schema: RegisteredSchema, settings: FormatSettings = DEFAULT_SETTINGS) -> tuple[Invalid, ...]:
    """Return what Confluent's checker refuses in a schema by itself, also one with findings of `map_schema`."""
    known = FORMATS.get(schema.format)
    if known is None or known.invalid is None:
        return ()
    try:
        return tuple(dict.fromkeys(known.invalid(schema, settings)))
    except RecursionError:  # far deeper than a table's columns, which `map_schema` finds
        return ()


def why_invalid(schema: RegisteredSchema) -> str | None:
    """Return why a text is not a schema of its format; None for a schema, also if it cannot become columns."""
    try:
        if is_known(schema):
            map_schema(schema)
    except IncompatibleSchemaError as invalid:
        return invalid.what
    return None


def open_decoder(
    schema: RegisteredSchema, settings: FormatSettings = DEFAULT_SETTINGS, wire_format: WireFormat = CONFLUENT
) -> Decoder:
    """Return the fastest decoder for payloads of a writer schema.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns. `is_known(schema)` must be
    true.
    """
    decoder, masked = _opened(schema, settings, wire_format)
    return decoder if masked is None else MaskedDecoder(decoder, masked, settings.hash_key)


@lru_cache(maxsize=128)
def _opened(
    schema: RegisteredSchema, settings: FormatSettings, wire_format: WireFormat
) -> tuple[Decoder, Masked | None]:
    """Return the decoder before masks, and the masks. Cached, because each task of a process needs the same schemas.

    Keys of hashes are not: settings are equal if the ids of their keys are.
    """
    known = _format_of(schema, settings)
    decoder = _after_index(known.open_decoder(schema, settings), schema, wire_format)
    return decoder, _masks(known.map_schema(schema, settings), settings) if settings.policies else None


def message_names(schema: RegisteredSchema, wire_format: WireFormat) -> Decoder | None:
    """Return a decoder of the full name of the message that each payload is; None if the schema has one record only.

    Raises IncompatibleSchemaError.
    """
    return _after_index(open_message_names(schema), schema, wire_format) if schema.format == "PROTOBUF" else None


def _after_index(decoder: Decoder, schema: RegisteredSchema, wire_format: WireFormat) -> Decoder:
    numbered = wire_format == "glue" and schema.format == "PROTOBUF"
    return with_glue_index(decoder, schema) if numbered else decoder


def plain_format(word: str) -> PlainFormat | None:
    """Return the format that a spec's `value` or `key` names; None if a registered schema decodes it, or it is none."""
    return PLAIN_FORMATS.get(word)


def plain_columns(word: str, settings: FormatSettings = DEFAULT_SETTINGS) -> tuple[Column, ...]:
    """Return the columns of values without registered schemas; none if `plain_format` is None."""
    mapped = plain_mapped(word, settings)
    return () if mapped is None else mapped.columns


def plain_mapped(word: str, settings: FormatSettings = DEFAULT_SETTINGS) -> Mapped | None:
    """Return the columns of values without registered schemas, and why policies cannot be applied to them."""
    mapped = _plain_mapped(word, settings)
    return None if mapped is None else _after_policies(within_files(mapped), settings)


def _plain_mapped(word: str, settings: FormatSettings) -> Mapped | None:
    plain = plain_format(word)
    if plain is None:
        return None
    if settings.fields and settings.change_events is not None:
        return map_declared(settings.fields, settings.change_events)
    if settings.fields:
        return Mapped(columns_of(declared_row(settings.fields)), (), record="")
    return Mapped(tuple(replace(each, is_json=word == "json") for each in plain.columns), ())


def open_plain(word: str, settings: FormatSettings = DEFAULT_SETTINGS) -> Decoder | None:
    """Return the decoder of values without registered schemas, and None as `plain_format` does."""
    plain = plain_format(word)
    if plain is None:
        return None
    decoder = _plain_decoder(plain, settings)
    mapped = _plain_mapped(word, settings)
    masked = None if mapped is None or not settings.policies else _masks(mapped, settings)
    return decoder if masked is None else MaskedDecoder(decoder, masked, settings.hash_key)


def _plain_decoder(plain: PlainFormat, settings: FormatSettings) -> Decoder:
    if not settings.fields:
        return PlainDecoder(plain)
    if settings.change_events is not None:
        return declared_changes(settings.fields, settings.change_events)
    return json_values.open_decoder(declared_row(settings.fields))


def _after_policies(mapped: Mapped, settings: FormatSettings) -> Mapped:
    if not settings.policies:
        return mapped
    masked = mask_columns(mapped, settings.policies)
    findings = mapped.findings + masked.findings
    return replace(mapped, columns=masked.columns, findings=findings, unmatched=masked.unmatched)


def _masks(mapped: Mapped, settings: FormatSettings) -> Masked | None:
    """Return the masks of the columns; None if no policy changes them. Raises IncompatibleSchemaError."""
    masked = mask_columns(mapped, settings.policies)
    if masked.findings:
        raise unmaskable(masked)
    return masked if masked.changes_values or masked.columns != mapped.columns else None


def unmaskable(masked: Masked) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        "the policies cannot be applied: " + "; ".join(map(str, masked.findings)),
        hint="change `columns` or `tags` in the table spec",
    )


def guessed_plain_format(payloads: pa.LargeBinaryArray) -> str:
    """Return the first of `json`, `string` and `bytes` that holds all payloads, or all but a few of many.

    It is `json` only if a payload is an array or an object: a number or a word in quotes may be any text.
    """
    compound = any(payload.lstrip()[:1] in (b"[", b"{") for payload in payloads.to_pylist())
    words = ("json", "string", "bytes") if compound else ("string", "bytes")
    return next(word for word in words if are_few(len(PLAIN_FORMATS[word].problems(payloads)), of=len(payloads)))


def are_few(count: int, *, of: int) -> bool:
    """Return whether so many of the newest values may be garbage, which says nothing about a topic."""
    return count * 5 <= of


def has_framing_headers(spec: TableSpec) -> bool:
    """Return whether headers of the records name their schemas."""
    return spec.needs_registry and spec.wire_format == "confluent_headers"


def grouping_of(word: str, wire_format: WireFormat = CONFLUENT, *, of_key: bool = False) -> Grouping:
    """Return how payloads of a format are grouped by writer schema: as their wire format names it, if they have one."""
    if word == EMBEDDED:
        return group_by_embedded_schema
    return one_group if plain_format(word) is not None else grouping_by_schema(word, wire_format, of_key=of_key)


def grouping_by_schema(word: str | None, wire_format: WireFormat, *, of_key: bool = False) -> Grouping:
    """Return how payloads with registered schemas are grouped; `word` is None if their format is not known."""
    match wire_format:
        case "confluent":
            return group_by_schema_id
        case "confluent_headers":
            return group_by_header(word, of_key=of_key)
        case "glue":
            return group_by_version_id
        case _:
            assert_never(wire_format)
