"""The columns of one struct of a table, and the fields that a writer has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from frazil.formats.families import family_of
from frazil.materialize.schema.name_tree import NameTree, join
from frazil.model.columns import Column, ColumnType


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A path in the names after all renames, for findings, and in those before, as changes have to name it.

    The library resolves every path of one update against the names before it.
    """

    now: str = ""
    was: str = ""

    def step(self, now: str, was: str | None = None) -> FieldPath:
        return FieldPath(join(self.now, now), join(self.was, now if was is None else was))


class Level:
    """The columns of one struct, with all that is looked up for each of them."""

    def __init__(self, place: FieldPath, names: NameTree, wanted: tuple[Column, ...], have: tuple[Column, ...]) -> None:
        self.place, self.names = place, names
        self.have = {each.name: each for each in have}
        self.beside = {each.name for each in (*wanted, *have)}
        first = _first_columns(have, names)
        self.matches = _matches(wanted, [each for each in have if each.name not in first], names)
        self.shifted = _shifted(wanted, self.have, {match.name for match in self.matches.values()}, names)
        self._by_lower: dict[str, list[str]] = {}
        for each in have:
            self._by_lower.setdefault(each.name.lower(), []).append(each.name)
        self._owners: dict[str, set[str]] = {}
        self._other_types: dict[str, list[Column]] = {}
        for name, base in first.items():
            self._other_types.setdefault(base, []).append(self.have[name])
        for name, node in names.under.items():
            self._own(name, node.former)

    def knows(self, name: str, column: str) -> bool:
        """Return whether the table recorded this name for the column."""
        return name == column or name in self.names.step(column).former

    def for_type(self, column_type: ColumnType, first: Column, name: str) -> Column | None:
        """Return the column for values of this type: `first`, which is called `name` now, one beside it, or None."""
        family = family_of(column_type)
        beside = (first, *self._other_types.get(name, ()))
        return next((each for each in beside if family_of(each.type) == family), None)

    def has_other_types(self, name: str) -> bool:
        """Return whether the column has others beside it, for values of other types."""
        return name in self._other_types

    def name_for_other_type(self, name: str) -> str:
        """Return the first of `name__v2`, `name__v3` and so on that nothing beside it has, letter case aside."""
        taken = {each.lower() for each in (*self.beside, *self._owners)}
        return next(new for n in count(2) if (new := f"{name}__v{n}").lower() not in taken)

    def add_other_type(self, column: Column, name: str) -> None:
        """Remember a new column beside the one called `name`, for its values of another type."""
        former = (name, *self.names.step(name).former)
        self.names.step(column.name).former = former
        self._own(column.name, former)
        self._other_types.setdefault(name, []).append(column)
        self.beside.add(column.name)

    def twin(self, name: str, match: Column | None) -> str | None:
        """Return another column of the table whose name differs in letter case only, or None."""
        own = None if match is None else match.name
        return next((each for each in self._by_lower.get(name.lower(), ()) if each != own), None)

    def holder(self, name: str, match: Column | None) -> str | None:
        """The column beside it, other than the one to be renamed, that records may still call `name`."""
        own = None if match is None else match.name
        return min((self._owners.get(name, set()) & self.beside) - {own, name}, default=None)

    def learn(self, aliases: Sequence[str], column: str) -> None:
        """A writer may name an alias later than the column: it is remembered, unless it means another column."""
        new = tuple(dict.fromkeys(a for a in aliases if a not in self.beside and a not in self._owners))
        if new:
            for each in (column, *(other.name for other in self._other_types.get(column, ()))):
                self.names.step(each).former += new
                self._own(each, new)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Return the names that no column of the table has or had."""
        return [name for name in names if name not in self.have and name not in self._owners]

    def rename(self, old: str, new: str) -> None:
        node = self.names.move(old, new)
        for former in node.former:
            self._owners[former].discard(old)
        node.former += (old,)
        self._own(new, node.former)
        if old in self._other_types:
            others = self._other_types[new] = self._other_types.pop(old)
            for each in others:
                self.names.step(each.name).former += (new,)
                self._own(each.name, (new,))

    def _own(self, column: str, former: Sequence[str]) -> None:
        for name in former:
            self._owners.setdefault(name, set()).add(column)


_OTHER_TYPE = re.compile(r"(.+)__v\d+")
"""A column for values of another type is called after the one beside it, as that was called then."""


def _first_columns(have: tuple[Column, ...], names: NameTree) -> dict[str, str]:
    """Return, for each column with values of another type of a field, the column beside it that the field had first.

    The table knows the column by the names of both: the one that it is called after, and the present one of the first.
    """
    there = {each.name for each in have}
    found: dict[str, str] = {}
    for name in there & names.under.keys():
        former, called = names.under[name].former, _OTHER_TYPE.fullmatch(name)
        first = next((each for each in former if each in there), None)
        if first is not None and called is not None and called[1] in former:
            found[name] = first
    return found


def _matches(wanted: tuple[Column, ...], firsts: Sequence[Column], names: NameTree) -> dict[str, Column]:
    """The table's column for each of the writer's: by its name, by a former name, or by an alias. None serves two.

    `firsts` are the table's columns without those beside another one, for values of another type.
    """
    free = {each.name: each for each in firsts}
    found = {column.name: free.pop(column.name) for column in wanted if column.name in free}
    written = {column.name for column in wanted} - set(found)
    for each in tuple(free.values()):
        former = next((name for name in names.step(each.name).former if name in written), None)
        if former is not None:
            written.remove(former)
            found[former] = free.pop(each.name)
    for column in wanted:
        alias = next((alias for alias in column.aliases if alias in free), None)
        if column.name in written and alias is not None:
            found[column.name] = free.pop(alias)
    return found


def _shifted(
    wanted: tuple[Column, ...], have: Mapping[str, Column], matched: set[str], names: NameTree
) -> dict[str, str]:
    """Fields that take the name of a column which the same schema renames: `a` to `b`, while `b` becomes `c`.

    The table finds `b` by its name, so that values of two meanings would share the column. A column that is matched to
    another field, by a former name, is not the one that the alias means. Nor is any other column if the table knows the
    field's own column by one of its aliases.
    """
    unwritten = have.keys() - {column.name for column in wanted} - matched
    moved_on = {alias: column.name for column in wanted for alias in column.aliases if alias != column.name}
    taking = [
        each
        for each in wanted
        if each.name in moved_on and each.name in have and not {*each.aliases} & {*names.step(each.name).former}
    ]
    return {
        column.name: f"is the renamed column {alias}, and takes the name of the column that is renamed to"
        f" {moved_on[column.name]}"
        for column in taking
        for alias in column.aliases
        if alias in unwritten
    }
