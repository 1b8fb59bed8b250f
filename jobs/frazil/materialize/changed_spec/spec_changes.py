"""The fate of each difference between a spec and an existing table, decided in one place.

`explain` prints the differences, `check` reports those that are refused, and `materialize` applies or refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.materialize.changed_spec.applied_spec import (
    TEXTS,
    applied_by,
    applied_spec_of,
    identity_paths,
    layout_text,
    spec_property,
)
from frazil.materialize.changed_spec.changed_fields import changed_fields
from frazil.materialize.changed_spec.earlier_keys import with_change
from frazil.materialize.changed_spec.judged import NEXT_BATCH, Judged, prefix_renames
from frazil.materialize.changed_spec.layout_rules import (
    LAYOUT,
    partition_by_rule,
    sort_by_rule,
    with_new_names,
    z_order_rule,
)
from frazil.materialize.changed_spec.policy_changes import policies_rule, tags_rule
from frazil.materialize.layout import metadata_columns
from frazil.materialize.schema.compare import applied
from frazil.materialize.schema.former_names import former_names_of, former_names_property
from frazil.model.changes import RenameColumn
from frazil.model.columns import Column
from frazil.model.errors import SpecChangeError
from frazil.model.masked import masked_property
from frazil.model.partitioning import split_fields
from frazil.model.pipeline import listed_topics
from frazil.model.reader_rules import refused_columns
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import Fate, SpecChange
from frazil.model.spelling import plural
from frazil.model.unions import unions_property

OTHER_MESSAGE = f"{NEXT_BATCH}; existing rows of another message stay"
REBUILT = frozenset(
    {"key", "value", "fields", "wire_format", "columns", "tags", "write", "identity", "order_by", "cdc", "cdc_deletes",
     "cdc_keep", "cdc_order", "cdc_connector", "string_formats"}
)  # fmt: skip
"""Keys whose change is refused because of rows that are there: a rebuild makes all of them again."""
TARGET_FILE_PROPERTY = "write.target-file-size-bytes"


def spec_changes(spec: TableSpec, view: TableView, *, arriving: Sequence[Column] = ()) -> tuple[SpecChange, ...]:
    """Return every difference between the spec and the table; `arriving` are columns that the next batch adds.

    A table whose spec was never recorded differs in its partitioning and sort order at most.
    """
    applied_now = applied_spec_of(view.properties, table=spec.identifier) or applied_by(spec)
    fields = changed_fields(applied_now.keys["fields"], spec.value_settings.fields, view)
    followed = prefix_renames(spec, view, applied_now) + (() if fields is None else fields.drops)
    columns = applied(view.columns, followed)
    judged = Judged(spec, view, applied_now, columns, tuple(arriving), fields)
    return tuple(change for rule in RULES.values() for change in rule(judged))


def refused_changes(spec: TableSpec, changes: Sequence[SpecChange]) -> tuple[SpecChangeError, ...]:
    """Return one error for each change that the table cannot follow."""
    return tuple(_refusal(spec, change) for change in changes if change.fate is Fate.REFUSED)


def _refusal(spec: TableSpec, change: SpecChange) -> SpecChangeError:
    given_in = change.given_in or f"`{change.key}` in {spec.source_file}"
    way_out = "materialize into another `table`"
    if change.key in REBUILT:
        way_out = f"run `frazil rebuild {spec.identifier}`, which reads the topic again by the changed spec"
    return SpecChangeError(
        f"{spec.identifier}: the table cannot follow a change of its spec: {change.key}:"
        f" {change.table_has} -> {change.spec_says}: {change.how}",
        hint=f"restore {given_in}, or {way_out}",
    )


def once_followed(spec: TableSpec, view: TableView, changes: Sequence[SpecChange]) -> TableView:
    """The table as it is once these changes are applied, as far as schemas are compared with it."""
    columns = tuple(column for change in changes for column in change.columns)
    properties = {**view.properties, **needed_properties(spec, view, changes)}
    return replace(view, columns=applied(view.columns, columns), properties=properties)


def needed_properties(spec: TableSpec, view: TableView, changes: Sequence[SpecChange]) -> dict[str, str]:
    """The properties that the table must get with these changes; empty where it has them.

    A partitioning or sort order that is not among them stays recorded as it is: a commit of its own changes it.
    """
    before = applied_spec_of(view.properties, table=spec.identifier)
    after = applied_by(spec, before)
    if before is not None:
        columns = (column for change in changes for column in change.columns)
        renamed = {column.path: column.new_name for column in columns if isinstance(column, RenameColumn)}
        kept = set(LAYOUT) - {change.key for change in changes if change.lays_out}
        texts = {key: layout_text(with_new_names(key, split_fields(before.keys[key]), renamed)) for key in kept}
        keys = {**after.keys, **texts}
        after = replace(after, keys=keys, earlier=with_change(before.earlier, before.keys, keys, view))
    wanted = spec_property(after)
    for change in changes:
        wanted |= change.properties
    return {name: value for name, value in wanted.items() if view.properties.get(name) != value}


def _at_once(key: str, how: str = NEXT_BATCH) -> Callable[[Judged], Iterator[SpecChange]]:
    def judge(judged: Judged) -> Iterator[SpecChange]:
        if judged.applied.keys[key] != TEXTS[key](judged.spec):
            yield judged.change(key, Fate.APPLIED, how)

    return judge


def _not_judged(judged: Judged) -> Iterator[SpecChange]:
    """The key is judged with `topics`, or names the table: with another name it is another table."""
    del judged
    yield from ()


def _never(key: str, why: str, *, by: str = "") -> Callable[[Judged], Iterator[SpecChange]]:
    def judge(judged: Judged) -> Iterator[SpecChange]:
        # a change that goes with one of the key `by` is said there
        if [each for each in (by, key) if each and judged.applied.keys[each] != TEXTS[each](judged.spec)] == [key]:
            yield judged.change(key, Fate.REFUSED, why)

    return judge


def _topics(judged: Judged) -> Iterator[SpecChange]:
    """Yield what becomes of the topics. A spec that shares none with the table is another pipeline, refused before."""
    before, now = set(judged.applied.keys["topics"].split(", ")), set(judged.spec.topics)
    told = []
    if judged.spec.write in ("upsert", "history") and judged.spec.order_by is None and before != now:
        how = "the offset orders the records of a key, and those of another topic have offsets of their own"
        yield judged.change("topics", Fate.REFUSED, how)
        return
    if now - before:
        told.append(f"{listed_topics(now - before)}: added, from where `start` points or where an earlier batch ended")
    if before - now:
        told.append(f"{listed_topics(before - now)}: not read any more; rows and offsets stay and are proven")
    if told:
        yield judged.change("topics", Fate.APPLIED, "; ".join(told))


def _routes(judged: Judged) -> Iterator[SpecChange]:
    before, now = (json.loads(text or "[]") for text in (judged.applied.keys["routes"], TEXTS["routes"](judged.spec)))
    if before == now:
        return
    if not (before and now):
        how = "a table cannot leave its group" if before else "a table made without routes cannot join a group"
        change = judged.change("routes", Fate.REFUSED, f"{how}, because the tables of a group have common offsets")
    elif before[0]["table"] != now[0]["table"]:
        how = f"the table of the first route holds the state of the group, so {before[0]['table']} stays first"
        change = judged.change("routes", Fate.REFUSED, how)
    else:
        how = f"{NEXT_BATCH}; existing rows stay in their tables, and records of a removed route follow the others"
        change = judged.change("routes", Fate.APPLIED, how)
    yield replace(change, table_has=change.table_has or "none", spec_says=change.spec_says or "none")


def _shapes(judged: Judged) -> Iterator[SpecChange]:
    how = "the tables of shapes have each record from the start on; write another spec, with other tables"
    for change in _never("shapes", how)(judged):
        yield replace(change, table_has=change.table_has or "none", spec_says=change.spec_says or "none")


def _fields(judged: Judged) -> Iterator[SpecChange]:
    found = judged.fields
    if found is None:
        return
    change = judged.change("fields", Fate.APPLIED, f"{NEXT_BATCH}; no row has a value that was read otherwise")
    if found.problems:
        how = "; ".join(found.problems)
        change = replace(change, fate=Fate.REFUSED, how=how)
    else:
        change = replace(change, columns=found.drops)
    yield replace(change, table_has=change.table_has or "none", spec_says=change.spec_says or "none")


def _key(judged: Judged) -> Iterator[SpecChange]:
    before, now = judged.applied.keys["key"], judged.spec.key
    if before == now:
        return
    if any(path.partition(".")[0] == f"{judged.spec.metadata.prefix}key" for path in judged.spec.identity_paths):
        yield judged.change("key", Fate.REFUSED, "the key is the identity of the table's rows")
        return
    there = judged.holds(f"{judged.spec.metadata.prefix}key")
    ours = before != "none" or "key" in judged.applied.sometimes_kept
    if there is not None and not ours:
        yield judged.change("key", Fate.REFUSED, f"a field of the records has the column {there.name}")
    elif there is not None and not _holds_keys(there, before, judged.spec):
        how = f"the column {there.name} is {there.type}, which cannot hold keys read as {now}"
        yield judged.change("key", Fate.REFUSED, how)
    else:
        yield judged.change("key", Fate.APPLIED, f"{NEXT_BATCH}; existing rows keep their key")


def _identity(judged: Judged) -> Iterator[SpecChange]:
    """Yield what becomes of another identity. Columns that were renamed are the same identity by both names."""
    if judged.applied.keys["identity"] == TEXTS["identity"](judged.spec):
        return
    before = identity_paths(judged.applied.keys["identity"])
    same = bool(before and judged.spec.identity) and judged.found(before) == judged.found(judged.spec.identity)
    if same and None not in judged.found(before):
        yield judged.change("identity", Fate.APPLIED, "the same columns by their present names")
    else:
        how = "the rows have the identity of their present columns, and would have another one"
        yield judged.change("identity", Fate.REFUSED, how)


def _order_by(judged: Judged) -> Iterator[SpecChange]:
    """Yield another order. The column of timestamps stays the same by another prefix; a renamed one by both names."""
    before, now = judged.applied.keys["order_by"], TEXTS["order_by"](judged.spec)
    times = (f"{judged.applied.prefix}timestamp", f"{judged.spec.metadata.prefix}timestamp")
    column = judged.found((before,))
    same = column == judged.found((now,)) and None not in column
    if before != now and (before, now) != times and not same:
        how = "existing rows were kept, replaced or valid by their current order"
        yield judged.change("order_by", Fate.REFUSED, how)


def _holds_keys(there: Column, before: str, spec: TableSpec) -> bool:
    """Return whether the key column fits the spec's key; keys by schema that were text or bytes before do not."""
    wanted = next((c for c in metadata_columns(spec, None) if c.name.lower() == there.name.lower()), None)
    if spec.key_type is not None:
        return before == "none"
    return wanted is None or wanted.type == there.type


def _readers(judged: Judged) -> Iterator[SpecChange]:
    if judged.applied.keys["readers"] == TEXTS["readers"](judged.spec):
        return
    findings = refused_columns(judged.spec.readers, judged.columns)
    if findings:
        yield judged.change("readers", Fate.REFUSED, "; ".join(map(str, findings)))
    else:
        yield judged.change("readers", Fate.APPLIED, NEXT_BATCH)


def _target_file(judged: Judged) -> Iterator[SpecChange]:
    for change in _at_once("maintain.target_file", f"for files written {NEXT_BATCH}")(judged):
        size = str(judged.spec.maintain.target_file_bytes)
        yield replace(change, properties={TARGET_FILE_PROPERTY: size})


def _bad_record_limit(judged: Judged) -> Iterator[SpecChange]:
    for change in _at_once("bad_record_limit")(judged):
        yield replace(change, table_has=_in_percent(change.table_has), spec_says=_in_percent(change.spec_says))


def _in_percent(limit: str) -> str:
    """Return a limit as the spec says it; tables record the share as a fraction: `0.05 and at least 100`."""
    share, has_share, rest = limit.partition(" and ")
    return f"{float(share) * 100:.10g}% and {rest}" if has_share else limit


def _formats(judged: Judged) -> Iterator[SpecChange]:
    if judged.applied.keys["formats"] == TEXTS["formats"](judged.spec):
        return
    added = "the next run creates the Delta log"
    if judged.applied.prefix != judged.spec.metadata.prefix:
        added = "the Delta log is created once older files are compacted, because metadata.prefix renames columns"
    gone = "the Delta log is no longer updated: delete the table's folder _delta_log/ once no reader needs it"
    yield judged.change("formats", Fate.APPLIED, added if "delta" in judged.spec.formats else gone)


def _start(judged: Judged) -> Iterator[SpecChange]:
    if judged.applied.keys["start"] != TEXTS["start"](judged.spec):
        how = (
            "the table continues from its offsets, and only topics that are added later start here; to start its"
            f" topics elsewhere, run `frazil rebuild {judged.spec.identifier}`"
        )
        yield judged.change("start", Fate.REBUILD, how)


def _prefix(judged: Judged) -> Iterator[SpecChange]:
    renames = prefix_renames(judged.spec, judged.view, judged.applied)
    if judged.applied.prefix == judged.spec.metadata.prefix:
        return
    taken = [clash for rename in renames if (clash := _taken(rename, judged.view)) is not None]
    if taken:
        yield judged.change("metadata.prefix", Fate.REFUSED, "; ".join(taken))
        return
    how = f"{plural(len(renames), 'column')} renamed, and existing rows keep their values"
    if "delta" in judged.spec.formats:
        how += "; the Delta log waits until older files are compacted"
    moved = {
        **_moved_former_names(judged.view, renames),
        **unions_property(judged.columns),
        **masked_property(judged.columns),
    }
    yield replace(judged.change("metadata.prefix", Fate.APPLIED, how), columns=renames, properties=moved)


def _taken(rename: RenameColumn, view: TableView) -> str | None:
    other = next((c.name for c in view.columns if c.name.lower() == rename.new_name.lower()), None)
    if other is None or other == rename.path:
        return None
    return f"{rename.path} cannot be renamed to {rename.new_name}: the table already has a column {other}"


def _moved_former_names(view: TableView, renames: Sequence[RenameColumn]) -> dict[str, str]:
    """Return the former names inside a renamed column, such as those of an Avro key's fields."""
    known = former_names_of(view.properties)
    moved = {_under_new_name(path, renames): names for path, names in known.items()}
    return former_names_property(moved) if moved != known else {}


def _under_new_name(path: str, renames: Sequence[RenameColumn]) -> str:
    for rename in renames:
        if path == rename.path or path.startswith((f"{rename.path}.", f"{rename.path}[", f"{rename.path}{{")):
            return rename.new_name + path[len(rename.path) :]
    return path


def _keep(judged: Judged) -> Iterator[SpecChange]:
    before, now = set(judged.applied.keep), set(judged.spec.metadata.keep)
    key_format_changed = judged.applied.keys["key"] != judged.spec.key
    if "timestamp" not in now and judged.applied.offsets_first:
        how = f"{judged.spec.metadata.prefix}timestamp orders the records of a key, since partitions were added"
        yield judged.change("metadata.keep", Fate.REFUSED, how)
        return
    added = [name for name in judged.spec.metadata.keep if name not in before]
    gone = [name for name in judged.applied.keep if name not in now]
    if (not added and not gone) or (key_format_changed and {*added, *gone} == {"key"}):
        return
    prefix, ours = judged.spec.metadata.prefix, before | set(judged.applied.sometimes_kept)
    clashes = [prefix + name for name in added if name not in ours and judged.holds(prefix + name)]
    if clashes:
        how = f"a field of the records has the column {', '.join(clashes)}; choose another metadata.prefix"
        yield judged.change("metadata.keep", Fate.REFUSED, how)
        return
    said = [f"{prefix}{name} is null in existing rows" for name in added]
    said += [f"{prefix}{name} stays, and is null from the next batch on" for name in gone]
    yield judged.change("metadata.keep", Fate.APPLIED, "; ".join(said))


RULES: Mapping[str, Callable[[Judged], Iterator[SpecChange]]] = {
    "topic": _not_judged,
    "topics": _topics,
    "table": _not_judged,
    "database": _not_judged,
    "key": _key,
    "value": _never("value", "the table's columns were made for values of its current format"),
    "wire_format": _never("wire_format", "the table's rows were read from records of its current wire format"),
    "fields": _fields,
    "routes": _routes,
    "shapes": _shapes,
    "columns": policies_rule,
    "tags": tags_rule,
    "write": _never("write", "existing rows were written in the current mode, and are proven by it"),
    "identity": _identity,
    "order_by": _order_by,
    "delete_memory": _at_once("delete_memory"),
    "cdc": _never("cdc", "existing rows were made of records that were read otherwise"),
    "cdc_deletes": _never("cdc_deletes", "the rows of keys that are deleted already would be missing, or stay"),
    "cdc_keep": _never("cdc_keep", "existing rows were made without these columns, or with others"),
    "cdc_placeholder": _at_once("cdc_placeholder"),
    "cdc_order": _never("cdc_order", "existing rows were kept or replaced by their current order"),
    "cdc_connector": _never(
        "cdc_connector", "positions of two connectors do not say which change is newer", by="cdc_order"
    ),
    "partition_by": partition_by_rule,
    "sort_by": sort_by_rule,
    "readers": _readers,
    "on_bad_record": _at_once("on_bad_record"),
    "bad_record_limit": _bad_record_limit,
    "on_tombstone": _at_once("on_tombstone"),
    "on_incompatible_schema": _at_once("on_incompatible_schema"),
    "evolution": _at_once("evolution", "for schemas that are met from the next batch on"),
    "trigger.every": _at_once("trigger.every", "from the next start of `frazil materialize` on"),
    "trigger.rows": _at_once("trigger.rows"),
    "trigger.bytes": _at_once("trigger.bytes"),
    "maintain.target_file": _target_file,
    "maintain.keep_snapshots.age": _at_once("maintain.keep_snapshots.age"),
    "maintain.keep_snapshots.count": _at_once("maintain.keep_snapshots.count"),
    "maintain.keep_snapshots.daily": _at_once("maintain.keep_snapshots.daily"),
    "maintain.keep_dead_letters": _at_once("maintain.keep_dead_letters", "for all dead letters, at most an hour later"),
    "maintain.retain_rows": _at_once("maintain.retain_rows", "for all rows, at most an hour later"),
    "maintain.rewrite_deleted": _at_once("maintain.rewrite_deleted"),
    "maintain.z_order": z_order_rule,
    "formats": _formats,
    "outputs": _at_once("outputs", "for the epochs that are published from now on"),
    "start": _start,
    "metadata.prefix": _prefix,
    "metadata.keep": _keep,
    "subject": _at_once("subject"),
    "key_subject": _at_once("key_subject"),
    "string_formats": _never("string_formats", "the table's columns have the types of its current setting"),
    "message": _at_once("message", OTHER_MESSAGE),
    "key_message": _at_once("key_message", OTHER_MESSAGE),
}
"""The rule for a change of each key of a spec. A test checks that every key has one."""
