"""The entry of JSON Schema in the list of value formats."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.json_schema import validity
from frazil.formats.json_schema.schema import Expanded, expand, refuse
from frazil.formats.json_values import open as decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped, judged_columns
from frazil.formats.validity import Invalid
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import FormatSettings


def map_schema(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    return mapped(expanded(schema, settings))


def mapped(found: Expanded) -> Mapped:
    """Return the columns of a schema whose shape is known."""
    row = found.row
    columns = columns_of(row)
    if found.findings:
        columns = judged_columns(columns, found.unmapped)
    record = (found.title or "") if row.is_object or row.keeps_extra else None
    return Mapped(columns, found.findings, found.notes, record)


def open_decoder(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    found = expanded(schema, settings)
    if found.findings:
        raise refuse(found.findings)
    return decoders.open_decoder(found.row)


def invalid(schema: RegisteredSchema, settings: FormatSettings) -> Iterator[Invalid]:
    del settings
    return validity.invalid(schema.text, schema.references)


def expanded(schema: RegisteredSchema, settings: FormatSettings) -> Expanded:
    """Return the shape of a schema. Raises IncompatibleSchemaError if its text is no schema."""
    return expand(schema.text, schema.references, string_formats=settings.string_formats == "typed")


JSON_SCHEMA = Format("JSON", map_schema, open_decoder, invalid)
