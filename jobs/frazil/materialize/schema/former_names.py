"""Under which names older writer schemas know a table's columns: the table remembers, in a property of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from frazil.model.spec import TableSpec

FORMER_NAMES_PROPERTY = "frazil.former-names"
"""A table property: JSON of column path → the names under which older writer schemas know the column."""

FormerNames = Mapping[str, tuple[str, ...]]


def former_names_of(properties: Mapping[str, str]) -> FormerNames:
    return {path: tuple(names) for path, names in json.loads(properties.get(FORMER_NAMES_PROPERTY, "{}")).items()}


def former_names_property(names: FormerNames) -> dict[str, str]:
    kept = {path: list(former) for path, former in sorted(names.items()) if former}
    return {FORMER_NAMES_PROPERTY: json.dumps(kept)} if kept else {}


def ordered_by_present_name(spec: TableSpec, former_names: FormerNames) -> TableSpec:
    """The spec with the present path of the column that orders the records, unless that is one of the metadata."""
    if spec.order_by is None or not spec.orders_by_field:
        return spec
    return replace(spec, order_by=present_path(spec.order_by, former_names))


def present_path(path: str, former_names: FormerNames) -> str:
    """Return the path of a column whose parts may have names that it had before, with its present ones."""
    here = ""
    for name in path.split("."):
        formerly = (at for at, names in former_names.items() if name in names and at.rpartition(".")[0] == here)
        here = next(formerly, f"{here}.{name}" if here else name)
    return here


def former_paths(path: str, former_names: FormerNames) -> tuple[str, ...]:
    """Return the paths that a column had before, by its own former names."""
    around, dot, _ = path.rpartition(".")
    return tuple(f"{around}{dot}{name}" for name in former_names.get(path, ()))
