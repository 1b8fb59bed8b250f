"""What every format derives from a writer schema: its columns, and the problems that prevent them."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.columns import Column
from frazil.model.schemas import SchemaFinding

LEFT_OUT = "left out: the type holds no data"
"""The problem of a note about a field that has no column."""
VALUE = "value"
"""The one column of a schema that is no record."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The columns of a writer schema, and every reason why there cannot be any.

    With findings, `columns` are not to be used. `notes` say what the columns hold less exactly than the schema says it,
    and which fields have none. `record` is the full name of the record that the schema describes; None if it describes
    anything else, which has the one column `VALUE`.
    """

    columns: tuple[Column, ...]
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...] = ()
    record: str | None = None
