"""The spec that a table follows at present, kept in a property of the table: what a changed spec is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

from frazil.materialize.changed_spec.earlier_keys import READ_BY, EarlierKeys, earlier_document, earlier_in, keys_before
from frazil.materialize.schema.former_names import former_names_of, ordered_by_present_name
from frazil.model.change_events import PLACEHOLDER, ChangeEvents
from frazil.model.errors import SpecChangeError
from frazil.model.partitioning import split_fields
from frazil.model.policed import policed
from frazil.model.policies import NO_POLICIES, Policies
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import (
    CONFLUENT,
    BadRecordLimit,
    KeyFormat,
    MetadataColumns,
    OnBadRecord,
    OnTombstone,
    Start,
    StartEarliest,
    StartLatest,
    StartOffsets,
    StartTimestamp,
    StringFormats,
    SubjectSettings,
    TableSpec,
    ValueFormat,
    WireFormat,
    WriteMode,
)

SPEC_PROPERTY = "frazil.spec"
"""A table property: JSON of the fields of `AppliedSpec`, without `offsets_first` and `earlier` if these are empty."""

FIXED = ("start",)
"""Keys whose value a table keeps from when it was made."""

_FOR_EVER = "for ever"
_FIRST_MESSAGE = "the first of each schema"

NO_LAYOUT = "nothing"

BY_OFFSET = "kafka_offset"

KEY_ALONE = "the key"

ADDED_LATER: Mapping[str, str] = {
    "value": "avro",
    "wire_format": CONFLUENT,
    "write": "append",
    "identity": KEY_ALONE,
    "on_incompatible_schema": "pause",
    "evolution": "lenient",
    "sort_by": NO_LAYOUT,
    "order_by": BY_OFFSET,
    "delete_memory": "604800 s",
    "maintain.keep_dead_letters": _FOR_EVER,
    "maintain.retain_rows": _FOR_EVER,
    "maintain.rewrite_deleted": "25%",
    "maintain.z_order": NO_LAYOUT,
    "string_formats": "typed",
    "fields": "",
    "routes": "",
    "shapes": "",
    "cdc": "none",
    "cdc_deletes": "by_key",
    "cdc_keep": "",
    "cdc_placeholder": PLACEHOLDER,
    "cdc_order": "offset",
    "cdc_connector": "",
    "columns": "",
    "tags": "",
    "message": _FIRST_MESSAGE,
    "key_message": _FIRST_MESSAGE,
    "outputs": "none",
}
"""Keys that older records lack, each with the value that their tables were made with."""


@dataclass(frozen=True, slots=True)
class AppliedSpec:
    """`keys` are the values by key, as text. `sometimes_kept` names metadata columns that some of the rows lack.

    `offsets_first`: since partitions were added to the topic, the offsets up to which offsets order the records of its
    former partitions (docs/decisions/0036). `earlier` are the values that records were read by, oldest first.
    """

    keys: Mapping[str, str]
    sometimes_kept: tuple[str, ...] = ()
    offsets_first: Mapping[int, int] = field(default_factory=dict)
    earlier: tuple[EarlierKeys, ...] = ()

    @property
    def prefix(self) -> str:
        return self.keys["metadata.prefix"]

    @property
    def keep(self) -> tuple[str, ...]:
        return tuple(self.keys["metadata.keep"].split(", "))


class _RecordedKeys(dict[str, str]):
    """The keys of a table's record. Raises SpecChangeError for a key that the record lacks."""

    def __init__(self, table: str, keys: Mapping[str, str]) -> None:
        super().__init__({**ADDED_LATER, **keys})
        self._table = table

    def __missing__(self, key: str) -> str:
        raise _unusable(self._table, f"lacks the key {key}")


def _unusable(table: str, problem: str) -> SpecChangeError:
    return SpecChangeError(
        f"{table}: the table's record of the spec that it follows, its property {SPEC_PROPERTY}, {problem}",
        hint="use the release of Frazil that wrote it, or restore the property from an earlier metadata file; if the"
        " spec has not changed since, remove the property: the next run records the spec again",
    )


def applied_spec_of(properties: Mapping[str, str], *, table: str) -> AppliedSpec | None:
    """Return the spec that the table follows, or None if none was recorded, as in a table that is being adopted.

    Raises SpecChangeError if the record cannot be parsed, and later where a key is read that it lacks.
    """
    text = properties.get(SPEC_PROPERTY)
    if text is None:
        return None
    try:
        value = json.loads(text)
        first = {int(number): int(offset) for number, offset in value.get("offsets_first", {}).items()}
        earlier = earlier_in(value.get("earlier", []))
        return AppliedSpec(_RecordedKeys(table, value["keys"]), tuple(value["sometimes_kept"]), first, earlier)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise _unusable(table, f"cannot be parsed ({type(problem).__name__}: {problem})") from problem


def read_by(view: TableView) -> tuple[str, ...]:
    """Return the values of the keys that decide what a record becomes, of the spec that a table follows now."""
    applied = applied_spec_of(view.properties, table=view.identifier)
    return () if applied is None else tuple(applied.keys[key] for key in READ_BY)


def spec_property(applied: AppliedSpec) -> dict[str, str]:
    value: dict[str, object] = {"keys": dict(applied.keys), "sometimes_kept": list(applied.sometimes_kept)}
    if applied.offsets_first:
        value["offsets_first"] = applied.offsets_first
    if applied.earlier:
        value["earlier"] = earlier_document(applied.earlier)
    return {SPEC_PROPERTY: json.dumps(value)}


def applied_by(spec: TableSpec, before: AppliedSpec | None = None) -> AppliedSpec:
    """Return the spec that a table follows once this one is applied."""
    keys = {key: text(spec) for key, text in TEXTS.items()}
    if before is None:
        return AppliedSpec(keys)
    keys |= {key: before.keys[key] for key in FIXED if key in before.keys}
    had = _columns_of(before.keep, before.keys["key"])
    changed = had ^ _columns_of(spec.metadata.keep, spec.key)
    if before.keys["key"] != spec.key:
        changed |= {"key"} & had
    return replace(before, keys=keys, sometimes_kept=tuple(sorted({*before.sometimes_kept, *changed})))


def as_applied(spec: TableSpec, properties: Mapping[str, str]) -> TableSpec:
    """The spec with the columns, the write mode, and all that says what records become, of the table, for reading."""
    applied = applied_spec_of(properties, table=spec.identifier)
    if applied is None:
        return spec
    formats = cast("StringFormats", applied.keys["string_formats"])
    read = replace(
        spec,
        key=cast("KeyFormat", applied.keys["key"]),
        value=cast("ValueFormat", applied.keys["value"]),
        write=cast("WriteMode", applied.keys["write"]),
        order_by=None if applied.keys["order_by"] == BY_OFFSET else applied.keys["order_by"],
        identity=identity_paths(applied.keys["identity"]),
        wire_format=cast("WireFormat", applied.keys["wire_format"]),
        on_bad_record=cast("OnBadRecord", applied.keys["on_bad_record"]),
        on_tombstone=cast("OnTombstone", applied.keys["on_tombstone"]),
        partition_by=layout_fields(applied.keys["partition_by"]),
        metadata=MetadataColumns(applied.prefix, applied.keep),
        value_settings=replace(
            spec.value_settings,
            string_formats=formats,
            fields=applied.keys["fields"],
            message=_message(applied.keys["message"], None),
            change_events=_applied_events(applied),
        ),
        key_settings=replace(
            spec.key_settings,
            string_formats=formats,
            message=_message(applied.keys["key_message"], None),
            of_change_events=applied.keys["cdc"] != "none",
        ),
    )
    read = ordered_by_present_name(read, former_names_of(properties))
    return with_policies(read, Policies.of_texts(applied.keys["columns"], applied.keys["tags"]))


def as_read_before(spec: TableSpec, applied: AppliedSpec, place: int) -> TableSpec:
    """Return the spec as it was at the time of the earlier keys at a place, with the present names of columns.

    What such a key says of columns that the table does not have is of no effect.
    """
    had = keys_before(applied.earlier, place)
    keep = tuple(had["metadata.keep"].split(", ")) if "metadata.keep" in had else spec.metadata.keep
    values, keys, events = spec.value_settings, spec.key_settings, spec.value_settings.change_events
    if events is not None and "cdc_placeholder" in had:
        events = replace(events, placeholder=had["cdc_placeholder"].encode())
    return replace(
        spec,
        key=cast("KeyFormat", had.get("key", spec.key)),
        on_bad_record=cast("OnBadRecord", had.get("on_bad_record", spec.on_bad_record)),
        on_tombstone=cast("OnTombstone", had.get("on_tombstone", spec.on_tombstone)),
        metadata=MetadataColumns(spec.metadata.prefix, keep),
        value_settings=replace(
            values,
            fields=had.get("fields", values.fields),
            message=_message(had.get("message"), values.message),
            change_events=events,
        ),
        key_settings=replace(keys, message=_message(had.get("key_message"), keys.message)),
    )


def _message(text: str | None, otherwise: str | None) -> str | None:
    if text is None:
        return otherwise
    return None if text == _FIRST_MESSAGE else text


def _applied_events(applied: AppliedSpec) -> ChangeEvents | None:
    if applied.keys["cdc"] == "none":
        return None
    kept = tuple(path for path in applied.keys["cdc_keep"].split(", ") if path)
    soft = applied.keys["cdc_deletes"] == "soft"
    connector, placeholder = applied.keys["cdc_connector"] or None, applied.keys["cdc_placeholder"].encode()
    return ChangeEvents(soft_deletes=soft, connector=connector, kept=kept, placeholder=placeholder)


def with_policies(spec: TableSpec, policies: Policies) -> TableSpec:
    """Return the spec with the policies of the table instead of its own, and the configured keys of the same ids."""
    hash_key = spec.value_settings.hash_key
    bare = replace(
        spec,
        policies=NO_POLICIES,
        value_settings=replace(spec.value_settings, policies=NO_POLICIES, hash_key=None),
        key_settings=replace(spec.key_settings, policies=NO_POLICIES, hash_key=None),
    )
    same = hash_key is not None and hash_key.id == policies.hash_key
    return policed(bare, policies, hash_key=hash_key if same else None, dead_letter_key=spec.dead_letter_key)


def naming_topics(spec: TableSpec, state: TableState) -> TableSpec:
    """The spec with the column for the topic, if the table was ever read from several: it keeps the column for ever."""
    kept = spec.metadata.keep
    topics = {*spec.topics, *(source.topic for source in state.sources)}
    if len(topics) == 1 or "topic" in kept:
        return spec
    return replace(spec, metadata=replace(spec.metadata, keep=("topic", *kept)))


def ordered_as(spec: TableSpec, properties: Mapping[str, str]) -> TableSpec:
    """The spec with the order of the table: once partitions were added to the topic, timestamps order the records.

    A column that was renamed has its present name.
    """
    if spec.order_by is not None:
        return ordered_by_present_name(spec, former_names_of(properties))
    applied = applied_spec_of(properties, table=spec.identifier)
    if applied is None or not applied.offsets_first or applied.keys["order_by"] == BY_OFFSET:
        return spec
    return replace(spec, order_by=f"{spec.metadata.prefix}timestamp")


def ever_kept(spec: TableSpec, properties: Mapping[str, str]) -> TableSpec:
    """The spec with every metadata column that the table ever had: no field of a record may take their names.

    Only for names: `key` is not "none" if the table had a column for keys of some type.
    """
    applied = applied_spec_of(properties, table=spec.identifier)
    if applied is None:
        return spec
    names = dict.fromkeys((*spec.metadata.keep, *applied.keep, *applied.sometimes_kept))
    key: KeyFormat = "bytes" if spec.key == "none" and "key" in applied.sometimes_kept else spec.key
    return replace(spec, key=key, metadata=replace(spec.metadata, keep=tuple(names)))


def _columns_of(keep: Sequence[str], key: str) -> set[str]:
    """Return the metadata columns of a table; a table without keys has no key columns."""
    return {name for name in keep if name != "key" or key != "none"}


def layout_text(fields: Sequence[str]) -> str:
    """Return the value of a layout key as text."""
    return ", ".join(fields) or NO_LAYOUT


def layout_fields(text: str) -> tuple[str, ...]:
    """Return the value of a layout key from its text."""
    return () if text == NO_LAYOUT else tuple(split_fields(text))


def identity_paths(text: str) -> tuple[str, ...]:
    """Return the paths of an identity from its text; none for the key."""
    return () if text == KEY_ALONE else tuple(text.split(", "))


def _kept_for(time: timedelta | None) -> str:
    return _FOR_EVER if time is None else f"{time.total_seconds():g} s"


def _limit(limit: BadRecordLimit) -> str:
    return "off" if limit == BadRecordLimit.off() else f"{limit.share:.10g} and at least {limit.at_least}"


def _start(start: Start) -> str:
    match start:
        case StartEarliest():
            return "earliest"
        case StartLatest():
            return "latest"
        case StartTimestamp(at):
            return f"timestamp {at.isoformat()}"
        case StartOffsets(offsets):
            return "offsets " + ", ".join(f"{number}: {offset}" for number, offset in sorted(offsets.items()))


def _events(spec: TableSpec) -> ChangeEvents:
    return spec.value_settings.change_events or ChangeEvents()


def _subject(subject: SubjectSettings) -> str:
    return subject.naming if subject.override is None else f"name {subject.override}"


TEXTS: Mapping[str, Callable[[TableSpec], str]] = {
    "topics": lambda spec: ", ".join(sorted(spec.topics)),
    "key": lambda spec: spec.key,
    "value": lambda spec: spec.value,
    "fields": lambda spec: spec.value_settings.fields,
    "wire_format": lambda spec: spec.wire_format,
    "routes": lambda spec: "" if spec.group is None or spec.group.has_shapes else spec.group.routes_text(),
    "shapes": lambda spec: spec.group.routes_text() if spec.group is not None and spec.group.has_shapes else "",
    "columns": lambda spec: spec.policies.columns_text(),
    "tags": lambda spec: spec.policies.tags_text(),
    "write": lambda spec: spec.write,
    "identity": lambda spec: ", ".join(spec.identity) or KEY_ALONE,
    "cdc": lambda spec: spec.cdc,
    "cdc_deletes": lambda spec: "soft" if _events(spec).soft_deletes else "by_key",
    "cdc_keep": lambda spec: ", ".join(_events(spec).kept),
    "cdc_placeholder": lambda spec: _events(spec).placeholder.decode(),
    "cdc_order": lambda spec: "source" if _events(spec).connector else "offset",
    "cdc_connector": lambda spec: _events(spec).connector or "",
    "partition_by": lambda spec: layout_text(spec.partition_by),
    "sort_by": lambda spec: layout_text(spec.sort_by),
    "order_by": lambda spec: spec.order_by or BY_OFFSET,
    "delete_memory": lambda spec: f"{spec.delete_memory.total_seconds():g} s",
    "readers": lambda spec: ", ".join(spec.readers) or "none",
    "on_bad_record": lambda spec: spec.on_bad_record,
    "bad_record_limit": lambda spec: _limit(spec.bad_record_limit),
    "on_tombstone": lambda spec: spec.on_tombstone,
    "on_incompatible_schema": lambda spec: spec.on_incompatible_schema,
    "evolution": lambda spec: spec.evolution,
    "trigger.every": lambda spec: f"{spec.trigger.every.total_seconds():g} s",
    "trigger.rows": lambda spec: f"{spec.trigger.rows:,}",
    "trigger.bytes": lambda spec: f"{spec.trigger.bytes:,} bytes",
    "maintain.target_file": lambda spec: f"{spec.maintain.target_file_bytes:,} bytes",
    "maintain.keep_snapshots.age": lambda spec: f"{spec.maintain.keep_snapshots.age.total_seconds():g} s",
    "maintain.keep_snapshots.count": lambda spec: f"{spec.maintain.keep_snapshots.count:,}",
    "maintain.keep_snapshots.daily": lambda spec: f"{spec.maintain.keep_snapshots.daily} days",
    "maintain.keep_dead_letters": lambda spec: _kept_for(spec.maintain.keep_dead_letters),
    "maintain.retain_rows": lambda spec: _kept_for(spec.maintain.retain_rows),
    "maintain.rewrite_deleted": lambda spec: f"{100 * spec.maintain.rewrite_deleted:g}%",
    "maintain.z_order": lambda spec: layout_text(spec.maintain.z_order),
    "formats": lambda spec: ", ".join(spec.formats),
    "outputs": lambda spec: "; ".join(map(str, spec.outputs)) or "none",
    "start": lambda spec: _start(spec.start),
    "metadata.prefix": lambda spec: spec.metadata.prefix,
    "metadata.keep": lambda spec: ", ".join(spec.metadata.keep),
    "subject": lambda spec: _subject(spec.value_subject),
    "key_subject": lambda spec: _subject(spec.key_subject),
    "string_formats": lambda spec: spec.value_settings.string_formats,
    "message": lambda spec: spec.value_settings.message or _FIRST_MESSAGE,
    "key_message": lambda spec: spec.key_settings.message or _FIRST_MESSAGE,
}
"""The keys of a spec that can differ from the table's, each with its value as text."""
