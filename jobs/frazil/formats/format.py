"""The interfaces of value formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.formats.decoder import Decoder
from frazil.formats.mapped import VALUE, Mapped
from frazil.formats.validity import Invalid
from frazil.model.columns import Column, Scalar
from frazil.model.dead_letter import Reject
from frazil.model.schemas import RegisteredSchema, SchemaType
from frazil.model.spec import FormatSettings


@dataclass(frozen=True, slots=True)
class Format:
    """One value format with registered schemas.

    The first two functions raise IncompatibleSchemaError, which lists every problem of a schema. `invalid` returns what
    Confluent's checker refuses in a schema, also one with findings.
    """

    schema_type: SchemaType
    map_schema: Callable[[RegisteredSchema, FormatSettings], Mapped]
    open_decoder: Callable[[RegisteredSchema, FormatSettings], Decoder]
    invalid: Callable[[RegisteredSchema, FormatSettings], Iterator[Invalid]] | None = None


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """One value format without registered schemas: payloads have no header and are kept in one column as they are.

    `problems` returns a reject for each payload that the column cannot hold. Null is not a problem.
    """

    column_type: Scalar
    problems: Callable[[pa.LargeBinaryArray], Sequence[Reject]]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(VALUE, self.column_type),)
