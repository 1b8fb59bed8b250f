"""The value formats, by the registry's schema type. Other code uses formats only through this module.

To add a format, add a package next to `avro/` with a `Format`, and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from frazil.formats.avro.format import AVRO
from frazil.formats.decoder import Decoder
from frazil.formats.format import Format
from frazil.formats.mapped import Mapped
from frazil.model.schemas import RegisteredSchema, SchemaType

FORMATS: Mapping[SchemaType, Format] = {each.schema_type: each for each in (AVRO,)}


def is_known(schema: RegisteredSchema) -> bool:
    """Return whether records of this schema can be decoded."""
    return schema.format in FORMATS


@lru_cache(maxsize=16)
def map_schema(schema: RegisteredSchema) -> Mapped:
    """Return the columns of a writer schema. Cached, because several steps of a run need the same schemas.

    Raises IncompatibleSchemaError with every problem if the text is not a schema. `is_known(schema)` must be true.
    """
    return FORMATS[schema.format].map_schema(schema)


def open_decoder(schema: RegisteredSchema) -> Decoder:
    """Return the fastest decoder for payloads of a writer schema.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns. `is_known(schema)` must be
    true.
    """
    return FORMATS[schema.format].open_decoder(schema)
