"""The interface of value formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from frazil.formats.decoder import Decoder
from frazil.formats.mapped import Mapped
from frazil.model.schemas import RegisteredSchema, SchemaType


@dataclass(frozen=True, slots=True)
class Format:
    """One value format. Both functions raise IncompatibleSchemaError, which lists every problem of a schema."""

    schema_type: SchemaType
    map_schema: Callable[[RegisteredSchema], Mapped]
    open_decoder: Callable[[RegisteredSchema], Decoder]
