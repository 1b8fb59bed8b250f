"""The result of mapping a writer schema: its columns, and the problems that prevent them."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.columns import Column, Scalar, Struct
from frazil.model.schemas import SchemaFinding

LEFT_OUT = "left out: the type holds no data"
"""The text of a note about a field that has no column."""
VALUE = "value"
"""The only column of a schema that is not a record."""
PRESENCE = Struct((Column("present", Scalar("boolean")),))
"""The type of a value without data that is there or not. A struct can take fields that are added later."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The columns of a writer schema, and every reason why it cannot become columns.

    If there are findings, `columns` must not be used. `notes` list what the columns hold less exactly than the schema
    defines it, and the fields without a column. `record` is the full name of the schema's record, which may be empty;
    None for any other type, which becomes the only column `VALUE`. `other_records` are the full names of further
    messages in a Protobuf schema, which could make the rows instead. `unmatched` are the paths of policies that name
    none of the columns. `is_of_rows` is false for keys and values of other records, which need no column.
    """

    columns: tuple[Column, ...]
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...] = ()
    record: str | None = None
    other_records: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    is_of_rows: bool = True
