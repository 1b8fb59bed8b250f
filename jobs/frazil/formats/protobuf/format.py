"""The entry of Protobuf in the list of value formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.mapped import Mapped
from frazil.formats.validity import Invalid
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import DEFAULT_SETTINGS, FormatSettings

if TYPE_CHECKING:
    from frazil.formats.protobuf.schema import ProtobufSchema


def map_schema(schema: RegisteredSchema, settings: FormatSettings) -> Mapped:
    from frazil.formats.protobuf import mapping  # noqa: PLC0415 - google.protobuf is imported for its schemas only

    return mapping.map_schema(_parsed(schema, settings))


def open_decoder(schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
    from frazil.formats.protobuf import open as decoders  # noqa: PLC0415

    return decoders.open_decoder(_parsed(schema, settings))


def invalid(schema: RegisteredSchema, settings: FormatSettings) -> Iterator[Invalid]:
    from frazil.formats.protobuf import validity  # noqa: PLC0415

    return validity.invalid(_parsed(schema, settings))


def open_message_names(schema: RegisteredSchema) -> Decoder:
    """Return a decoder of the full name of the message that each payload is."""
    from frazil.formats.protobuf.message_names import MessageNameDecoder  # noqa: PLC0415

    return MessageNameDecoder(_parsed(schema, DEFAULT_SETTINGS).names)


def with_glue_index(decoder: Decoder, schema: RegisteredSchema) -> Decoder:
    """Return the decoder for payloads that AWS Glue's serializers wrote."""
    from frazil.formats.protobuf.glue_index import GlueIndexDecoder  # noqa: PLC0415
    from frazil.formats.protobuf.schema import paths_by_name  # noqa: PLC0415

    return GlueIndexDecoder(decoder, paths_by_name(schema.text))


def _parsed(schema: RegisteredSchema, settings: FormatSettings) -> ProtobufSchema:
    from frazil.formats.protobuf.schema import parse_schema  # noqa: PLC0415

    return parse_schema(schema.text, schema.references, settings.message)


PROTOBUF = Format("PROTOBUF", map_schema, open_decoder, invalid)
