"""Select the tables that a command names."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.model.errors import SpecError
from frazil.model.spec import Settings, TableSpec
from frazil.specs.problems import suggest


def select_tables(settings: Settings, names: Sequence[str]) -> tuple[TableSpec, ...]:
    """Return the specs of these tables (`table` or `database.table`), in the order of the files; all without names.

    Raises SpecError if no spec has one of the names.
    """
    unknown = [name for name in names if not any(_is_named(spec, name) for spec in settings.tables)]
    if unknown:
        known = [spec.table for spec in settings.tables]
        raise SpecError(
            f"no table {unknown[0]} in the specs of {settings.source_file}", hint=suggest(unknown[0], known)
        )
    return tuple(spec for spec in settings.tables if not names or any(_is_named(spec, name) for name in names))


def _is_named(spec: TableSpec, name: str) -> bool:
    return name in {spec.table, spec.identifier}
