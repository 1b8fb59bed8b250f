"""The entry of Avro in the list of value formats."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.formats.avro import mapping, validity
from frazil.formats.avro import open as decoders
from frazil.formats.avro.schema import parse_schema
from frazil.formats.avro.types import AvroSchema
from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.mapped import Mapped
from frazil.formats.validity import Invalid
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import FormatSettings


def map_schema(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    del settings  # none are Avro's
    return mapping.map_schema(_parsed(schema))


def open_decoder(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    del settings
    return decoders.open_decoder(_parsed(schema))


def invalid(schema: RegisteredSchema, settings: FormatSettings) -> Iterator[Invalid]:
    del settings
    return validity.invalid(schema.text, schema.referenced_texts)


def _parsed(schema: RegisteredSchema) -> AvroSchema:
    return parse_schema(schema.text, schema.referenced_texts)


AVRO = Format("AVRO", map_schema, open_decoder, invalid)
