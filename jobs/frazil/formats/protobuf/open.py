"""Choose the decoder for a writer schema."""

from __future__ import annotations

from frazil.formats.decoder import Decoder
from frazil.formats.native import Engine, choose_decoder
from frazil.formats.parts import in_parts
from frazil.formats.protobuf.fallback import FallbackDecoder
from frazil.formats.protobuf.native import native_decoder
from frazil.formats.protobuf.schema import ProtobufSchema, refuse
from frazil.formats.protobuf.shape import expand, extra_slots


def open_decoder(schema: ProtobufSchema, engine: Engine | None = None) -> Decoder:
    """Return the native decoder if it is built and supports the schema, else the fallback; `engine` requests one.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns, and MissingToolError if the
    native decoder is requested and not available.
    """
    expanded = expand(schema)
    if expanded.findings:
        raise refuse(expanded.findings)
    decoder = choose_decoder(
        engine,
        lambda: native_decoder(schema, expanded.row),
        lambda: FallbackDecoder(schema, expanded.row),
        uncovered="the native Protobuf decoder does not cover this schema",
    )
    return in_parts(decoder, extra_slots(expanded.row))
