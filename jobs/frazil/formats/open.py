"""The value formats, by the schema type that the registry names: all that other code knows of them.

A new format is a package beside `avro/` with a `Format`, and its line in `FORMATS`.
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
    """Return the columns of a writer schema. Cached, since several steps of a run ask for the same ones.

    Raises IncompatibleSchemaError with every problem if the text is not a schema. The format must be known.
    """
    return FORMATS[schema.format].map_schema(schema)


def open_decoder(schema: RegisteredSchema) -> Decoder:
    """Return the fastest decoder for payloads of a writer schema.

    Raises IncompatibleSchemaError with every finding if the schema cannot become columns. The format must be known.
    """
    return FORMATS[schema.format].open_decoder(schema)
