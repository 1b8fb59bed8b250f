"""Choose the decoder for a shape."""

from __future__ import annotations

from typing import Literal

from frazil.formats.decoder import Decoder
from frazil.formats.json_values.fallback import FallbackDecoder
from frazil.formats.json_values.native import native_decoder
from frazil.formats.json_values.shape import Row
from frazil.formats.native import native_available
from frazil.model.errors import MissingToolError

Engine = Literal["native", "fallback"]


def open_decoder(row: Row, engine: Engine | None = None) -> Decoder:
    """Return the native decoder if it is built and supports the shape, else the fallback; `engine` requests one.

    Raises MissingToolError if the native decoder is requested and not available.
    """
    native = None if engine == "fallback" else native_decoder(row)
    if native is None and engine == "native":
        raise MissingToolError(
            "the native JSON decoder does not cover this shape" if native_available() else "it is not built",
            hint="run `make setup`, or do not choose a decoder.",
        )
    return native or FallbackDecoder(row)
