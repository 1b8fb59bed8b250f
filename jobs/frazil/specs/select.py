"""Select the tables that a command names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from frazil.model.errors import SpecError
from frazil.model.settings import Settings
from frazil.model.spec import TableSpec
from frazil.specs.problems import suggest


def select_tables(settings: Settings, names: Sequence[str]) -> tuple[TableSpec, ...]:
    """Return the specs of these tables (`table` or `database.table`), in the order of the files; all without names.

    The tables of a group are read together: the name of one of them, or that of the group, selects all. Raises
    SpecError if no spec has one of the names.
    """
    chosen = {spec.pipeline.name for name in names for spec in _named(settings, name)}
    return tuple(spec for spec in settings.tables if not names or spec.pipeline.name in chosen)


def select_table(settings: Settings, name: str) -> TableSpec:
    """Return the spec of one table; for the name of a group, that of its first table. Raises SpecError."""
    return _named(settings, name)[0]


def select_own_table(settings: Settings, name: str) -> TableSpec:
    """Return the spec of one table by its own name. Raises SpecError, also for the name of a group of tables."""
    spec = select_table(settings, name)
    if name not in {spec.table, spec.identifier}:
        tables = ", ".join(each.table for each in read_with(settings, spec))
        raise SpecError(f"{name} is a group of tables, and this command takes one", hint=f"name one of: {tables}")
    return spec


def read_with(settings: Settings, spec: TableSpec) -> tuple[TableSpec, ...]:
    """Return the tables of a table's group, or the table alone."""
    return tuple(each for each in settings.tables if each.pipeline.name == spec.pipeline.name)


def select_ledger(settings: Settings, name: str) -> TableSpec:
    """Return the spec of one table, or of its group's ledger: the one that a pause and dead letters belong to.

    Raises SpecError.
    """
    return read_with(settings, select_table(settings, name))[0]


def read_together(specs: Iterable[TableSpec]) -> Iterator[tuple[TableSpec, ...]]:
    """Yield the tables of each group, its ledger first, and each table without a group alone."""
    tables: dict[str, list[TableSpec]] = {}
    for spec in specs:
        tables.setdefault(spec.pipeline.name, []).append(spec)
    return map(tuple, tables.values())


def _named(settings: Settings, name: str) -> Sequence[TableSpec]:
    """Return the tables with a name; if there is none, those of the group with this name, in their order."""
    tables = [spec for spec in settings.tables if name in {spec.table, spec.identifier}]
    of_groups = [spec for spec in settings.tables if spec.group and name in {spec.group.name, spec.group.identifier}]
    if not tables and not of_groups:
        _refuse_dead_letters(settings, name)
        _refuse_transforms(settings, name)
        names = [name for spec in settings.tables for name in (spec.table, spec.group.name if spec.group else "")]
        known = dict.fromkeys(filter(None, names))
        hint = suggest(name, known, listed="`frazil check --offline` lists the tables")
        raise SpecError(f"no table {name} in the specs of {settings.source_file}", hint=hint)
    return tables or of_groups


def _refuse_dead_letters(settings: Settings, name: str) -> None:
    """Raise SpecError if a table of dead letters has this name: commands take the table that they belong to."""
    for spec in settings.tables:
        owner, letters = spec.pipeline.name, spec.dead_letters_identifier
        if name in {letters, letters.partition(".")[2]}:
            hint = f"name the table instead: {owner.partition('.')[2]}"
            raise SpecError(
                f"{name} is the table of the dead letters of {owner}, and has no spec of its own", hint=hint
            )


def _refuse_transforms(settings: Settings, name: str) -> None:
    """Raise SpecError if a transformation makes a table with this name."""
    for made in settings.transforms:
        if name in {made.table, made.identifier}:
            raise SpecError(
                f"{name} is the table of the transformation {made.name}, and this command takes one that a topic fills",
                hint="`frazil transform --help` lists the commands for transformations",
            )
