"""The columns that are the identity of a row, found by their paths and their former names (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.model.columns import Column, Struct

HALVES = ("frazil_identity_1", "frazil_identity_2")
"""The columns of the two halves of the hash of a row's identity."""


def column_at(
    path: str, columns: Sequence[Column], former_names: Mapping[str, tuple[str, ...]]
) -> tuple[str, Column] | None:
    """Return the column at a dotted path, with its present path; None if there is none.

    A column that has the name goes before one that had it.
    """
    here, found, level = "", None, tuple(columns)
    for name in path.split("."):
        inside = {f"{here}.{column.name}" if here else column.name: column for column in level}
        by_name = (at for at, column in inside.items() if column.name == name)
        formerly = (at for at in inside if name in former_names.get(at, ()))
        at = next(by_name, None) or next(formerly, None)
        if at is None:
            return None
        here, found = at, inside[at]
        level = found.type.columns if isinstance(found.type, Struct) else ()
    return None if found is None else (here, found)
