"""Safe changes of a table's schema, found by comparing what writers write with what the table has.

Safe: a new column, int → long, float → double, a decimal with more digits before the point, a rename that the
writer's schema declares by an alias. A column that a writer no longer has stays, and is null in its rows.
Everything else is a finding, and all of them are collected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jobs.materialize.former_names import FormerNames
from jobs.model.changes import AddColumn, Change, RenameColumn, WidenType
from jobs.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct
from jobs.model.errors import IncompatibleSchemaError
from jobs.model.schemas import Finding

_WIDENS = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class Evolution:
    """What has to change so that the table can hold a writer's records, and what stands against it."""

    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    former_names: FormerNames = field(default_factory=dict)

    def __add__(self, other: Evolution) -> Evolution:
        """One after the other: whoever comes later was given the former names and returns all of them."""
        return Evolution(self.changes + other.changes, self.findings + other.findings, other.former_names)


def aliases_of(columns: tuple[Column, ...], path: str = "") -> FormerNames:
    """The former names that a new table begins with: every alias that is not a column beside it, given once."""
    found: dict[str, tuple[str, ...]] = {}
    taken = {column.name for column in columns}
    for column in columns:
        here = _join(path, column.name)
        former = tuple(alias for alias in column.aliases if alias not in taken)
        taken.update(former)
        if former:
            found[here] = former
        for inner_path, inner in _structs_in(column.type, here):
            found.update(aliases_of(inner.columns, inner_path))
    return found


def compare(
    wanted: tuple[Column, ...], have: tuple[Column, ...], former_names: FormerNames, *, path: str = ""
) -> Evolution:
    """What the table's columns `have` need in order to hold the columns `wanted`, both at `path`."""
    total = Evolution(former_names=dict(former_names))
    matches = _matches(wanted, have, former_names, path)
    shifted = _shifted(wanted, have)
    for column in wanted:
        if column.name in shifted:
            total = total + _refuse(_join(path, column.name), shifted[column.name], total.former_names)
            continue
        total = total + _compare_column(column, matches.get(column.name), wanted, have, total.former_names, path)
    return total


def refusal(table: str, schema_id: int | None, findings: tuple[Finding, ...]) -> IncompatibleSchemaError:
    """`schema_id` is None where it is the spec that asks for columns about the record."""
    listed = "\n".join(f"  - {finding}" for finding in findings)
    what = f"the writer schema {schema_id}" if schema_id is not None else "what the spec asks for about each record"
    return IncompatibleSchemaError(
        f"{table}: {what} cannot be carried over safely, {len(findings)} finding(s):\n{listed}",
        hint=f"register a compatible schema, or materialize into another `table`; then `frazil resume {table}`",
    )


def applied(columns: tuple[Column, ...], changes: tuple[Change, ...]) -> tuple[Column, ...]:
    """The columns after the changes of one comparison, whose paths are all in the names before it."""
    renames = [change for change in changes if isinstance(change, RenameColumn)]
    for change in (*(each for each in changes if not isinstance(each, RenameColumn)), *reversed(renames)):
        columns = _applied(columns, change, change.path)
    return columns


def _applied(columns: tuple[Column, ...], change: Change, path: str) -> tuple[Column, ...]:
    step = re.split(r"[.\[{]", path, maxsplit=1)[0]
    rest = path[len(step) :]
    if isinstance(change, AddColumn) and not rest:
        return (*columns, Column(step, change.type, doc=change.doc))
    if isinstance(change, RenameColumn) and not rest:
        return tuple(replace(each, name=change.new_name) if each.name == step else each for each in columns)
    return tuple(
        replace(each, type=_applied_inside(each.type, change, rest)) if each.name == step else each for each in columns
    )


def _applied_inside(column_type: ColumnType, change: Change, rest: str) -> ColumnType:
    match column_type:
        case ListOf(element) if rest:
            return ListOf(_applied_inside(element, change, rest.removeprefix("[]")))
        case MapOf(key, value) if rest:
            return MapOf(key, _applied_inside(value, change, rest.removeprefix("{}")))
        case Struct(columns) if rest:
            return replace(column_type, columns=_applied(columns, change, rest.removeprefix(".")))
        case _:
            return change.to_type if isinstance(change, WidenType) else column_type


def _matches(
    wanted: tuple[Column, ...], have: tuple[Column, ...], former_names: FormerNames, path: str
) -> dict[str, Column]:
    """The table's column for each of the writer's: by its name, by a former name, or by an alias. None serves two."""
    free = {each.name: each for each in have}
    found = {column.name: free.pop(column.name) for column in wanted if column.name in free}
    written = {column.name for column in wanted} - set(found)
    for each in tuple(free.values()):
        former = next((name for name in former_names.get(_join(path, each.name), ()) if name in written), None)
        if former is not None:
            written.remove(former)
            found[former] = free.pop(each.name)
    for column in wanted:
        alias = next((alias for alias in column.aliases if alias in free), None)
        if column.name in written and alias is not None:
            found[column.name] = free.pop(alias)
    return found


def _shifted(wanted: tuple[Column, ...], have: tuple[Column, ...]) -> dict[str, str]:
    """Fields that take the name of a column which the same schema renames: `a` to `b`, while `b` becomes `c`.

    The table finds `b` by its name, so that values of two meanings would share the column.
    """
    written = {column.name for column in wanted}
    unwritten = {column.name for column in have} - written
    moved_on = {alias: column.name for column in wanted for alias in column.aliases if alias != column.name}
    return {
        column.name: f"is the renamed column {alias}, and takes the name of the column that becomes"
        f" {moved_on[column.name]}"
        for column in wanted
        for alias in column.aliases
        if alias in unwritten and column.name in moved_on and any(each.name == column.name for each in have)
    }


def _compare_column(
    column: Column,
    match: Column | None,
    wanted: tuple[Column, ...],
    have: tuple[Column, ...],
    former_names: FormerNames,
    path: str,
) -> Evolution:
    beside = {each.name for each in (*wanted, *have)}
    known = match is not None and column.name in (match.name, *former_names.get(_join(path, match.name), ()))
    if match is not None and known:
        kept = Evolution(former_names=_learnt(column, match.name, beside, former_names, path))
        return kept + _compare_types(column.type, match.type, kept.former_names, _join(path, match.name))
    twin = next((e.name for e in have if e is not match and e.name.lower() == column.name.lower()), None)
    if twin is not None:
        problem = f"differs only in letter case from the table's column {twin}"
        return _refuse(_join(path, column.name), problem, former_names)
    holder = _holder(column.name, match, beside, former_names, path)
    if holder is not None:
        problem = f"is a former name or an alias of the column {holder}: older records use it for that column"
        return _refuse(_join(path, column.name), problem, former_names)
    if match is not None:
        return _rename(column, match, beside, former_names, path)
    return _add(column, beside, former_names, path)


def _holder(name: str, match: Column | None, beside: set[str], former_names: FormerNames, path: str) -> str | None:
    """The column beside it, other than the one to be renamed, that records may still call `name`."""
    own = None if match is None else match.name
    return next(
        (each for each in sorted(beside - {own, name}) if name in former_names.get(_join(path, each), ())), None
    )


def _learnt(column: Column, name: str, beside: set[str], former_names: FormerNames, path: str) -> FormerNames:
    """A writer may name an alias later than the column: it is remembered, unless it means another column."""
    here = _join(path, name)
    others = {former for known, names in former_names.items() if _parent(known) == path for former in names}
    new = tuple(dict.fromkeys(a for a in column.aliases if a not in beside | others))
    return {**former_names, here: (*former_names.get(here, ()), *new)} if new else dict(former_names)


def _rename(column: Column, old: Column, beside: set[str], former_names: FormerNames, path: str) -> Evolution:
    was, now = _join(path, old.name), _join(path, column.name)
    moved = {_moved(known, was, now): names for known, names in former_names.items()}
    moved[now] = (*moved.get(now, ()), old.name)
    renaming = Evolution(
        (RenameColumn(was, column.name),), former_names=_learnt(column, column.name, beside, moved, path)
    )
    inner = _compare_types(column.type, old.type, renaming.former_names, now)
    # The library resolves every path of one update against the names before it.
    return renaming + replace(inner, changes=tuple(_under_old_name(c, now, was) for c in inner.changes))


def _moved(path: str, was: str, now: str) -> str:
    inside = path == was or path.startswith((f"{was}.", f"{was}[", f"{was}{{"))
    return now + path[len(was) :] if inside else path


def _under_old_name(change: Change, now: str, was: str) -> Change:
    return replace(change, path=_moved(change.path, now, was))


def _add(column: Column, beside: set[str], former_names: FormerNames, path: str) -> Evolution:
    here = _join(path, column.name)
    inner = {k: v for k, v in aliases_of((column,), path).items() if k != here}
    known = _learnt(column, column.name, beside, former_names, path)
    return Evolution((AddColumn(here, column.type, column.doc),), former_names={**known, **inner})


def _compare_types(wanted: ColumnType, have: ColumnType, former_names: FormerNames, path: str) -> Evolution:
    match wanted, have:
        case Struct(columns), Struct(present):
            if wanted.is_union is not have.is_union:
                return _refuse(
                    path, f"is {_kind(wanted)} in the writer's schema, the table has {_kind(have)}", former_names
                )
            return compare(columns, present, former_names, path=path)
        case ListOf(element), ListOf(present_element):
            return _compare_types(element, present_element, former_names, f"{path}[]")
        case MapOf(key, value), MapOf(present_key, present_value):
            if key != present_key:
                return _refuse(path, f"the map's keys are {key}, the table has {present_key}", former_names)
            return _compare_types(value, present_value, former_names, f"{path}{{}}")
        case _:
            return _compare_scalars(wanted, have, former_names, path)


def _compare_scalars(wanted: ColumnType, have: ColumnType, former_names: FormerNames, path: str) -> Evolution:
    if wanted == have or _widens(wanted, have):
        return Evolution(former_names=former_names)
    if _widens(have, wanted):
        return Evolution((WidenType(path, have, wanted),), former_names=former_names)
    return _refuse(path, f"is {wanted} in the writer's schema, the table has {have}", former_names)


def _widens(narrow: ColumnType, wide: ColumnType) -> bool:
    match narrow, wide:
        case Scalar(a), Scalar(b):
            return (a, b) in _WIDENS
        case Decimal(digits, scale), Decimal(more_digits, same_scale):
            return scale == same_scale and digits < more_digits
        case _:
            return False


def _kind(struct: Struct) -> str:
    names = ", ".join(struct.names())
    return f"a union of {names}" if struct.is_union else f"a record of {names}"


def _refuse(path: str, problem: str, former_names: FormerNames) -> Evolution:
    return Evolution(findings=(Finding(path, problem),), former_names=former_names)


def _structs_in(column_type: ColumnType, path: str) -> Iterator[tuple[str, Struct]]:
    match column_type:
        case Struct():
            yield path, column_type
        case ListOf(element):
            yield from _structs_in(element, f"{path}[]")
        case MapOf(_, value):
            yield from _structs_in(value, f"{path}{{}}")
        case _:
            return


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
