"""Changes to a table's schema, as values that can be listed, printed, compared and skipped if already made."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.columns import ColumnType


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add an optional column at a dotted path, whose parent exists.

    `beside` is the path of the column that the field had first, for a column that holds its values of another type.
    """

    path: str
    type: ColumnType
    doc: str | None = None
    mask: str = ""
    beside: str = ""

    def __str__(self) -> str:
        masked = f", masked: {self.mask}" if self.mask else ""
        return f"add column {self.path}: {self.type}{masked}{f', beside {self.beside}' if self.beside else ''}"


@dataclass(frozen=True, slots=True)
class WidenType:
    """Widen int to long, float to double, or a decimal to a greater precision with the same scale."""

    path: str
    from_type: ColumnType
    to_type: ColumnType

    def __str__(self) -> str:
        return f"widen {self.path}: {self.from_type} to {self.to_type}"


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column, after an alias in the writer's schema or for another `metadata.prefix`. Its `mask` stays."""

    path: str
    new_name: str
    mask: str = ""

    def __str__(self) -> str:
        masked = f", still masked: {self.mask}" if self.mask else ""
        return f"rename {self.path} to {self.new_name}{masked}"


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column of the top level that has no value, because the spec declares its field otherwise."""

    path: str

    def __str__(self) -> str:
        return f"drop column {self.path}, which has no value"


Change = AddColumn | WidenType | RenameColumn | DropColumn
