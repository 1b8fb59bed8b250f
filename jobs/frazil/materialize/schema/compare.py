"""Safe changes of a table's schema, found by comparing what writers write with what the table has.

Safe: a new column, int → long, float → double, a decimal with more digits before the point, a rename that the
writer's schema declares by an alias. A column that a writer no longer has stays, and is null in its rows.
Everything else is a finding, and all of them are collected. With `on_incompatible_schema: new_column`, a field of
another type gets a column beside the one that it had (`price__v2`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from frazil.formats.mapped import holds_unknown
from frazil.materialize.schema.exchanged import exchanged, structs_in
from frazil.materialize.schema.former_names import FormerNames
from frazil.materialize.schema.level import FieldPath, Level
from frazil.materialize.schema.name_tree import NameTree, join, tree_of
from frazil.model.changes import AddColumn, Change, DropColumn, RenameColumn, WidenType
from frazil.model.columns import UNKNOWN, Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaFinding, SchemaId, unsafe_change
from frazil.model.spec import OnIncompatibleSchema

_WIDENS = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class Evolution:
    """The changes that a table needs to hold a writer's records, and the problems that prevent them."""

    changes: tuple[Change, ...] = ()
    findings: tuple[SchemaFinding, ...] = ()
    former_names: FormerNames = field(default_factory=dict)

    def __add__(self, other: Evolution) -> Evolution:
        """Combine two evolutions in order. The later one's former names include the earlier one's."""
        return Evolution(self.changes + other.changes, self.findings + other.findings, other.former_names)


def aliases_of(columns: tuple[Column, ...], path: str = "") -> FormerNames:
    """The former names that a new table begins with: every alias that is not a column beside it, given once."""
    found: dict[str, tuple[str, ...]] = {}
    taken = {column.name for column in columns}
    for column in columns:
        here = join(path, column.name)
        former = tuple(alias for alias in column.aliases if alias not in taken)
        taken.update(former)
        if former:
            found[here] = former
        for inner_path, inner in structs_in(column.type, here):
            found.update(aliases_of(inner.columns, inner_path))
    return found


def compare(
    wanted: tuple[Column, ...],
    have: tuple[Column, ...],
    former_names: FormerNames,
    on_incompatible: OnIncompatibleSchema = "pause",
) -> Evolution:
    """Return the changes that the columns `have` need to hold the columns `wanted`.

    The cost is linear in the number of columns and of former names.
    """
    names, found = tree_of(former_names), _Found(on_incompatible)
    for path, problem in exchanged(wanted):
        found.refuse(path, problem)
    _compare_columns(wanted, Level(FieldPath(), names, wanted, have), found)
    return Evolution(tuple(found.changes), tuple(found.findings), dict(names.flat()))


def refusal(
    table: str,
    schema_id: SchemaId | None,
    findings: tuple[SchemaFinding, ...],
    *,
    of_key: bool = False,
    held: bool = False,
) -> IncompatibleSchemaError:
    """`schema_id` is None where it is the spec that asks for columns: about the record, or of values without a schema.

    `held` says that the table had columns for the schema before.
    """
    what = (
        f"the writer schema {schema_id}{' of keys' if of_key else ''}"
        if schema_id is not None
        else "what the spec asks for"
    )
    return IncompatibleSchemaError(
        unsafe_change(table, what, findings),
        hint=_way_out(table, schema_id, of_key=of_key, held=held),
        schema_id=schema_id,
        of_key=of_key,
        findings=findings,
    )


def _way_out(table: str, schema_id: SchemaId | None, *, of_key: bool, held: bool) -> str:
    if schema_id is None:
        return (
            "undo what changed the column, or change `metadata` in the spec, or make all rows again (`frazil rebuild"
            f" {table}`); then `frazil resume {table}`"
        )
    schema = f"{'the key schema' if of_key else 'schema'} {schema_id}"
    exclude = f"`frazil resume {table} --dead-letter-schema {schema_id}`"
    lost = (
        "which a replay makes rows of only once the table can hold the schema; another `table` can have them as rows"
        " now (docs/operate.md, An incompatible schema)"
    )
    if held:
        return (
            f"the table had columns for {schema} before: undo what changed them, in the table or in the spec, and run"
            f" `frazil resume {table}`. If that cannot be, run {exclude}: all later records with {schema} become dead"
            f" letters, {lost}"
        )
    return (
        f"run {exclude} to go on: records with {schema} become dead letters, {lost}. New records need a compatible"
        f" schema. If no record was written with {schema} yet, register a compatible one and run"
        f" `frazil resume {table}`"
    )


def applied(columns: tuple[Column, ...], changes: tuple[Change, ...]) -> tuple[Column, ...]:
    """The columns after the changes of one comparison, whose paths are all in the names before it."""
    return _applied(columns, [(change.path, change) for change in changes]) if changes else columns


_Pending = Sequence[tuple[str, Change]]
"""Changes, each with what is left of its path."""


def _applied(columns: tuple[Column, ...], changes: _Pending) -> tuple[Column, ...]:
    added: list[Column] = []
    inside: dict[str, list[tuple[str, Change]]] = {}
    for path, change in changes:
        step = re.split(r"[.\[{]", path, maxsplit=1)[0]
        rest = path[len(step) :]
        if isinstance(change, AddColumn) and not rest:
            added.append(Column(step, change.type, doc=change.doc, mask=change.mask))
        else:
            inside.setdefault(step, []).append((rest, change))
    dropped = {path for path, change in changes if isinstance(change, DropColumn)}
    kept = (each for each in columns if each.name not in dropped)
    return (*(_changed(each, inside.get(each.name, ())) for each in kept), *added)


def _changed(column: Column, changes: _Pending) -> Column:
    if not changes:
        return column
    names = [change.new_name for rest, change in changes if isinstance(change, RenameColumn) and not rest]
    return replace(column, name=names[-1] if names else column.name, type=_changed_type(column.type, changes))


def _changed_type(column_type: ColumnType, changes: _Pending) -> ColumnType:
    widened = [change.to_type for rest, change in changes if isinstance(change, WidenType) and not rest]
    inside = [(rest, change) for rest, change in changes if rest]
    match column_type:
        case ListOf(element) if inside:
            return ListOf(_changed_type(element, _without("[]", inside)))
        case MapOf(key, value) if inside:
            return MapOf(key, _changed_type(value, _without("{}", inside)))
        case Struct(columns) if inside:
            return replace(column_type, columns=_applied(columns, _without(".", inside)))
        case _:
            return widened[-1] if widened else column_type


def _without(prefix: str, changes: _Pending) -> _Pending:
    return [(rest.removeprefix(prefix), change) for rest, change in changes]


@dataclass(slots=True)
class _Found:
    """The changes and findings of a comparison so far, and what it does about an incompatible type."""

    on_incompatible: OnIncompatibleSchema
    changes: list[Change] = field(default_factory=list)
    findings: list[SchemaFinding] = field(default_factory=list)

    def refuse(self, path: str, problem: str) -> None:
        self.findings.append(SchemaFinding(path, problem))


def _compare_columns(wanted: tuple[Column, ...], level: Level, found: _Found) -> None:
    for column in wanted:
        if column.name in level.shifted:
            found.refuse(level.place.step(column.name).now, level.shifted[column.name])
        else:
            _compare_column(column, level.matches.get(column.name), level, found)


def _compare_column(column: Column, match: Column | None, level: Level, found: _Found) -> None:
    if match is not None and column.mask != match.mask and not _may_mask_inside(column, match):
        return found.refuse(level.place.step(column.name).now, _unlike(column.mask, match))
    if match is not None and level.knows(column.name, match.name):
        level.learn(column.aliases, match.name)
        return _fill(column, match, match.name, level, found)
    taken = _taken(column.name, match, level)
    if taken is not None:
        return found.refuse(level.place.step(column.name).now, taken)
    unclear = (*_unknown_past(column, match, level), *_unmasked_branch(column, match, level))
    if unclear:
        return found.findings.extend(unclear)
    return _add(column, level, found) if match is None else _rename(column, match, level, found)


def _may_mask_inside(column: Column, match: Column) -> bool:
    """Return whether the column of a field without a known type has its mask from a policy for what is in it."""
    return column.type == UNKNOWN and isinstance(match.type, ListOf | MapOf | Struct)


def _unknown_past(column: Column, match: Column | None, level: Level) -> Iterator[SchemaFinding]:
    """Yield each column without a policy that had a name which the table does not know: perhaps that of a masked field.

    Another schema, which the table has not met, can lead from a masked or dropped field to that name.
    """
    here = level.place.step(column.name).now
    unknown = [(here, level.unknown(column.unmasked_aliases))]
    if match is None:
        unknown += [(path, list(inner.unmasked_aliases)) for path, inner in walk((replace(column, name=here),))][1:]
    for path, names in unknown:
        if names:
            had = f"has the alias {', '.join(names)}, which the table does not know: it may be a masked field"
            yield SchemaFinding(path, f"{had}. Add `{path}` to `columns`, with a policy or with `mask: none`")


def _unmasked_branch(column: Column, match: Column | None, level: Level) -> Iterator[SchemaFinding]:
    """Yield what the column of a branch would not mask, if the table masks it in the branch by another spelling.

    A column that is renamed has its masked values still, and keeps their policy.
    """
    here = level.place.step(column.name).now
    wanted = dict(walk((replace(column, name=here),)))
    for name in dict.fromkeys(chain.from_iterable(column.spellings)):
        for path, inner in walk((replace(level.have[name], name=here),)) if name in level.have else ():
            kept = path in wanted and wanted[path].kept and level.have[name] is not match
            if inner.mask and path in wanted and not (wanted[path].mask or kept):
                there = level.place.step(name).now + path.removeprefix(here)
                problem = _unlike("", replace(inner, name=there))
                masks = f"the policy {inner.mask}" if level.have[name] is match else "a policy or with `mask: none`"
                yield SchemaFinding(path, f"{problem}. Add `{path}` to `columns`, with {masks}")


def _taken(name: str, match: Column | None, level: Level) -> str | None:
    """Return why the table cannot have a new column, or one that it has, by this name."""
    if match is None and name in level.have:
        return "has the name of a column that holds values of another field, those of another type"
    twin = level.twin(name, match)
    if twin is not None:
        return f"differs only in letter case from the table's column {twin}"
    holder = level.holder(name, match)
    if holder is not None:
        return f"is a former name or an alias of the column {holder}: older records use it for that column"
    return None


def _unlike(mask: str, have: Column) -> str:
    """Return why a column cannot have this mask from now on."""
    own = f"has the policy {mask}" if mask else "has no policy"
    return f"{own}, but the values in the table's column {have.name} are {have.mask or 'not masked'}"


def _rename(column: Column, old: Column, level: Level, found: _Found) -> None:
    place = level.place.step(column.name, old.name)
    found.changes.append(RenameColumn(place.was, column.name, old.mask))
    level.rename(old.name, column.name)
    level.learn(column.aliases, column.name)
    _fill(column, old, column.name, level, found)


def _fill(column: Column, first: Column, name: str, level: Level, found: _Found) -> None:
    """Compare the field with the column for its type: its first one, which is called `name` now, or one beside that."""
    place = level.place.step(name, first.name)
    if found.on_incompatible != "new_column" and not level.has_other_types(name):
        return _compare_types(column.type, first.type, level.names.step(name), place, found)
    if holds_unknown(column.type):
        return None
    target = level.for_type(column.type, first, name)
    if target is None and found.on_incompatible == "new_column":
        other = replace(column, name=level.name_for_other_type(name), aliases=())
        unknown = tuple(_unknown_past(other, None, level))
        if unknown:
            return found.findings.extend(unknown)
        level.add_other_type(other, name)
        return _add(other, level, found, beside=place.now)
    if target is None or target is first:
        return _compare_types(column.type, first.type, level.names.step(name), place, found)
    own = level.place.step(target.name)
    return _compare_types(column.type, target.type, level.names.step(target.name), own, found)


def _add(column: Column, level: Level, found: _Found, beside: str = "") -> None:
    found.changes.append(AddColumn(level.place.step(column.name).was, column.type, column.doc, column.mask, beside))
    level.learn(column.aliases, column.name)
    for path, former in aliases_of((column,)).items():
        if path != column.name:
            level.names.at(path).former = former


def _compare_types(wanted: ColumnType, have: ColumnType, names: NameTree, place: FieldPath, found: _Found) -> None:
    match wanted, have:
        case Struct(columns), Struct(present):
            if wanted.is_union is not have.is_union:
                problem = f"is {_kind(wanted)} in the writer's schema, the table has {_kind(have)}"
                return found.refuse(place.now, problem)
            return _compare_columns(columns, Level(place, names, columns, present), found)
        case ListOf(element), ListOf(present_element):
            return _compare_types(element, present_element, names.step("[]"), place.step("[]"), found)
        case MapOf(key, value), MapOf(present_key, present_value):
            if key != present_key:
                return found.refuse(place.now, f"the map's keys are {key}, the table has {present_key}")
            return _compare_types(value, present_value, names.step("{}"), place.step("{}"), found)
        case _:
            return _compare_scalars(wanted, have, place, found)


def _compare_scalars(wanted: ColumnType, have: ColumnType, place: FieldPath, found: _Found) -> None:
    if wanted in (have, UNKNOWN) or _widens(wanted, have):
        return
    if _widens(have, wanted):
        found.changes.append(WidenType(place.was, have, wanted))
    else:
        found.refuse(place.now, f"is {wanted} in the writer's schema, the table has {have}")


def _widens(narrow: ColumnType, wide: ColumnType) -> bool:
    match narrow, wide:
        case Scalar(a), Scalar(b):
            return (a, b) in _WIDENS
        case Decimal(digits, scale), Decimal(more_digits, same_scale):
            return scale == same_scale and digits < more_digits
        case _:
            return False


def _kind(struct: Struct) -> str:
    return f"{'a union' if struct.is_union else 'a record'} of {', '.join(struct.names())}"
