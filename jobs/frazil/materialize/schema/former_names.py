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
    """The spec with the present name of the column of the values that orders the records, which is inside no other."""
    named = (path for path, names in former_names.items() if spec.order_by in names and not {*".[{"} & {*path})
    return replace(spec, order_by=next(named, spec.order_by)) if spec.orders_by_value else spec
