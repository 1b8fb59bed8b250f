"""Choose the decoder for a writer schema."""

from __future__ import annotations

from typing import Literal

from frazil.formats.decoder import Decoder
from frazil.formats.native import native_available
from frazil.formats.parts import in_parts
from frazil.formats.protobuf.fallback import FallbackDecoder
from frazil.formats.protobuf.native import native_decoder
from frazil.formats.protobuf.schema import ProtobufSchema, refuse
from frazil.formats.protobuf.shape import expand, extra_slots
from frazil.model.errors import MissingToolError

Engine = Literal["native", "fallback"]


def open_decoder(schema: ProtobufSchema, engine: Engine | None = None) -> Decoder:
    """Return the native decoder if it is built and supports the schema, else the fallback; `engine` requests one.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns, and MissingToolError if the
    native decoder is requested and not available.
    """
    expanded = expand(schema)
    if expanded.findings:
        raise refuse(expanded.findings)
    native = None if engine == "fallback" else native_decoder(schema, expanded.row)
    if native is None and engine == "native":
        raise MissingToolError(
            "the native Protobuf decoder does not cover this schema" if native_available() else "it is not built",
            hint="run `make setup`, or do not choose a decoder.",
        )
    return in_parts(native or FallbackDecoder(schema, expanded.row), extra_slots(expanded.row))
