"""Choose the decoder for a writer schema."""

from __future__ import annotations

from collections.abc import Collection

from frazil.formats.avro.fallback import FallbackDecoder
from frazil.formats.avro.native import native_decoder
from frazil.formats.avro.projection import only
from frazil.formats.avro.room import extra_slots
from frazil.formats.avro.schema import refuse
from frazil.formats.avro.shape import shape_of
from frazil.formats.avro.types import AvroSchema
from frazil.formats.decoder import Decoder
from frazil.formats.native import Engine, choose_decoder
from frazil.formats.parts import in_parts


def open_decoder(
    schema: AvroSchema,
    engine: Engine | None = None,
    wanted: Collection[str] | None = None,
    packed: Collection[str] = (),
) -> Decoder:
    """Return the native decoder if it is built and supports the schema, else the fallback; `engine` requests one.

    The rows have the columns at the dotted paths `wanted`, with all that is in them, in the order of the schema; None
    is all columns. Payloads are judged as a whole in any case. Of the columns `packed` with optional records, the
    native decoder makes lists of no or one record, and stores nothing of a null; the fallback leaves them as they are.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns, and MissingToolError if the
    native decoder is requested and not available.
    """
    shape, findings = shape_of(schema)
    if findings:
        raise refuse(findings)
    if wanted is not None:
        shape = only(shape, wanted)
    decoder = choose_decoder(
        engine,
        lambda: native_decoder(shape, packed),
        lambda: FallbackDecoder(schema, shape),
        uncovered="the native Avro decoder does not cover this schema",
    )
    return in_parts(decoder, extra_slots(shape))
