"""Choose the decoder for a shape."""

from __future__ import annotations

from frazil.formats.decoder import Decoder
from frazil.formats.json_values.fallback import FallbackDecoder
from frazil.formats.json_values.native import native_decoder
from frazil.formats.json_values.shape import Row
from frazil.formats.native import Engine, choose_decoder


def open_decoder(row: Row, engine: Engine | None = None) -> Decoder:
    """Return the native decoder if it is built and supports the shape, else the fallback; `engine` requests one.

    Raises MissingToolError if the native decoder is requested and not available.
    """
    return choose_decoder(
        engine,
        lambda: native_decoder(row),
        lambda: FallbackDecoder(row),
        uncovered="the native JSON decoder does not cover this shape",
    )
