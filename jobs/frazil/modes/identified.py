"""The identity of rows by the columns that a table spec names (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.arrow import type_of
from frazil.model.columns import Column
from frazil.model.identity_columns import column_at
from frazil.modes.identity import identities


@dataclass(frozen=True, slots=True)
class IdentityPaths:
    """The paths of the columns of an identity, by their present names."""

    paths: tuple[str, ...]

    @classmethod
    def found(
        cls, paths: Sequence[str], rows: pa.Schema, former_names: Mapping[str, tuple[str, ...]]
    ) -> IdentityPaths | None:
        """Return the columns of rows with this schema; None if one of them is lacking."""
        columns = [Column(field.name, type_of(field.type)) for field in rows]
        at = [column_at(path, columns, former_names) for path in paths]
        present = tuple(each[0] for each in at if each is not None)
        return cls(present) if len(present) == len(at) else None

    @property
    def tops(self) -> tuple[str, ...]:
        """The columns of the table that hold them."""
        return tuple(dict.fromkeys(path.partition(".")[0] for path in self.paths))

    @property
    def text(self) -> str:
        return ", ".join(self.paths)

    def of(self, rows: Mapping[str, pa.Array] | pa.RecordBatch) -> pa.RecordBatch:
        """Return the two halves of the identity of each row, both null if one of its values is null."""
        return identities(pa.RecordBatch.from_arrays(self.values(rows), names=list(self.paths)))

    def values(self, rows: Mapping[str, pa.Array] | pa.RecordBatch) -> list[pa.Array]:
        """Return the values of each path."""
        return [value_at(rows, path) for path in self.paths]


def value_at(rows: Mapping[str, pa.Array] | pa.RecordBatch, path: str) -> pa.Array:
    """Return the values of a column by its dotted path; null where a struct around it is null."""
    top, *inside = path.split(".")
    return pc.struct_field(rows[top], inside) if inside else rows[top]
