"""The entry of JSON Schema in the list of value formats."""

from __future__ import annotations

from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.json_schema.schema import Expanded, expand, refuse
from frazil.formats.json_values import open as decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import FormatSettings


def map_schema(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    expanded = _expanded(schema, settings)
    row = expanded.row
    columns = () if expanded.findings else columns_of(row)
    record = (expanded.title or "") if row.is_object or row.keeps_extra else None
    return Mapped(columns, expanded.findings, expanded.notes, record)


def open_decoder(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    expanded = _expanded(schema, settings)
    if expanded.findings:
        raise refuse(expanded.findings)
    return decoders.open_decoder(expanded.row)


def _expanded(schema: RegisteredSchema, settings: FormatSettings) -> Expanded:
    return expand(schema.text, schema.references, string_formats=settings.string_formats == "typed")


JSON_SCHEMA = Format("JSON", map_schema, open_decoder)
