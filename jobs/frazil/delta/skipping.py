"""Choose the columns by whose bounds readers of a Delta log skip files: the property delta.dataSkippingStatsColumns.

The datasets of delta-rs compare every column with its bounds, unless this property leaves the column out. A bound that
a file lacks is null there, so a filter on the column finds no row of the file, nor does `is_null`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from frazil.delta.statistics import ScalarColumn, is_complete, is_odd, scalar_columns
from frazil.model.delta import DeltaLog, TableFile
from frazil.model.sql_text import quoted

AT_MOST = 32
"""As many columns as Delta's readers use without the property: each one costs them time for each file."""

_NAMES = re.compile(r"`(?:[^`]|``)*`(?:\.`(?:[^`]|``)*`)*")


def skipping_columns(files: Collection[TableFile], delta_schema: str, *, log: DeltaLog | None) -> str:
    """Return the property's value for a version with these files. Its names are quoted.

    `log` is None if there is none or if all files are written anew. A column that it names stays. Another one joins
    once every file has both its bounds and the count of its nulls: not while there are files from before the column was
    added. A new file that is odd is none of these: it gets no bounds. One in the log may have one bound there, by an
    earlier version of Frazil.
    """
    known = () if log is None else columns_skipped_by(log.metadata.skipping or "", scalar_columns(log.metadata.schema))
    logged = frozenset() if log is None else frozenset(file.path for file in log.files)
    names, columns = {column.name for column in known}, scalar_columns(delta_schema)
    bounded = (column for column in columns if column.has_bounds)
    chosen = (each for each in bounded if each.name in names or _is_in_every_file(each, files, columns, logged))
    quoted = [_quoted(column.name) for column in islice(chosen, AT_MOST)]
    return ",".join([*quoted, *_leaf_of_each_struct(json.loads(delta_schema)["fields"], ())])


def columns_skipped_by(skipping: str, columns: Sequence[ScalarColumn]) -> tuple[ScalarColumn, ...]:
    """Return those of the columns that the property's value names."""
    names = frozenset(_NAMES.findall(skipping))
    return tuple(column for column in columns if _quoted(column.name) in names)


def _is_in_every_file(
    column: ScalarColumn, files: Collection[TableFile], columns: Sequence[ScalarColumn], logged: Collection[str | None]
) -> bool:
    """Return whether the column may join. Bounds are converted last: it is asked again until no file lacks them."""
    return all(
        is_complete(each, column) or (each.path not in logged and is_odd(each, columns)) for each in files
    ) and not any(is_odd(each, [column]) for each in files if each.path in logged)


def _leaf_of_each_struct(fields: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> Iterator[str]:
    """Yield a column without bounds in each struct, at any depth.

    delta-rs 1.6.6 uses no bounds of the columns after a struct that has none of the columns. A file without bounds of a
    column inside a struct is never skipped by it.
    """
    if path:
        leaf = next((field["name"] for field in fields if not _is_struct(field)), None)
        yield from () if leaf is None else (".".join(map(_quoted, (*path, leaf))),)
    for field in filter(_is_struct, fields):
        yield from _leaf_of_each_struct(field["type"]["fields"], (*path, field["name"]))


def _is_struct(field: Mapping[str, Any]) -> bool:
    return isinstance(field["type"], dict) and field["type"]["type"] == "struct"


def _quoted(name: str) -> str:
    return quoted(name, "`")
