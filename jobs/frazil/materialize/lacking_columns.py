"""Why a table has no column at a path that its spec names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.model.columns import Column, Struct
from frazil.model.identity_columns import column_at
from frazil.model.spelling import did_you_mean


def why_lacking(
    path: str, columns: Sequence[Column], former_names: Mapping[str, tuple[str, ...]]
) -> tuple[str, str | None]:
    """Return why none of these columns is at a path, and the path that was probably meant."""
    present = column_at(path, columns, former_names)
    if present is not None:
        return f"is a former name of {present[0]}, and a new table has the present one", present[0]
    around, level = "", tuple(columns)
    for name in path.split("."):
        bare = name.replace("[]", "").replace("{}", "")
        found = column_at(f"{around}.{bare}" if around else bare, columns, former_names)
        if found is None:
            break
        around, column = found
        if name != bare or not isinstance(column.type, Struct):
            return f"names what is inside {around}, which is {column.type}", None
        level = column.type.columns
    names = [column.name for column in level]
    likely = did_you_mean(name, names)
    if around:
        what = f"names a field that {around} does not have; its fields are {', '.join(names)}"
        return what, None if likely is None else f"{around}.{likely}"
    return f"names a column that the table does not have; its columns are {', '.join(names)}", likely
