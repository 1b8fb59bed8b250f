"""Convert the keys of one table spec to a TableSpec, and find its contradictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import cast

from frazil.model.declared import NAMED
from frazil.model.errors import SpecError
from frazil.model.partitioning import PartitionField
from frazil.model.policed import policed
from frazil.model.reader_rules import refused_table_name
from frazil.model.row_age import age_of_rows
from frazil.model.sort_order import SortField
from frazil.model.spec import (
    CONFLUENT,
    EMBEDDED,
    METADATA_NAMES,
    SCHEMA_TYPES,
    FormatSettings,
    KeyFormat,
    MetadataColumns,
    OnBadRecord,
    OnIncompatibleSchema,
    OnTombstone,
    Reader,
    SchemaEvolution,
    StartOffsets,
    StringFormats,
    SubjectSettings,
    TableFormat,
    TableSpec,
    ValueFormat,
    WireFormat,
    WriteMode,
    schema_type_of,
)
from frazil.specs import table_keys as keys
from frazil.specs.change_events import change_event_problems, change_events_of
from frazil.specs.keyed import deletes_by_key, identity_of, keyed_problems, order_by_of, orders_by_value
from frazil.specs.keys import Key, Values
from frazil.specs.names import safe_name
from frazil.specs.outputs import output_problems, outputs_of
from frazil.specs.partitions import z_order_contradictions
from frazil.specs.policies import kept_under, policies_of, policy_problems
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import ROUTES
from frazil.specs.routes import group_of, route_problems, tables_of
from frazil.specs.shape_keys import SHAPES
from frazil.specs.table_shapes import shape_problems


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A spec of a table with the position of its name, and of the name from which its dead letters have theirs."""

    spec: TableSpec
    named_at: Position
    spec_named_at: Position


def specs_of(values: Values, source_file: str, default_database: str) -> Iterator[ReadSpec]:
    """Yield the spec of each table."""
    database = values.get(keys.DATABASE) or default_database
    group = group_of(values, database=database, name=table_name(values))
    for table in tables_of(values):
        spec = spec_of(table, source_file, database)
        yield ReadSpec(replace(spec, group=group), _named_at(table), _named_at(values))


def _named_at(values: Values) -> Position:
    return values.place_of(next(key for key in (keys.TABLE, keys.TOPIC, keys.TOPICS) if values.is_given(key)))


def table_name(values: Values) -> str:
    return values.get(keys.TABLE) or safe_name(topics_of(values)[0])


def spec_of(values: Values, source_file: str, database: str) -> TableSpec:
    metadata, policies = metadata_of(values), policies_of(values)
    spec = TableSpec(
        source_file=source_file,
        database=database,
        table=table_name(values),
        topics=topics_of(values),
        key=cast("KeyFormat", values[keys.KEY]),
        value=cast("ValueFormat", values[keys.VALUE]),
        write=cast("WriteMode", values[keys.WRITE]),
        partition_by=tuple(str(field) for field in partition_fields(values, metadata)),
        readers=cast("tuple[Reader, ...]", values[keys.READERS]),
        on_bad_record=cast("OnBadRecord", values[keys.ON_BAD_RECORD]),
        bad_record_limit=values[keys.LIMIT],
        on_tombstone=on_tombstone_of(values, metadata),
        identity=identity_of(values, metadata),
        on_incompatible_schema=cast("OnIncompatibleSchema", values[keys.ON_SCHEMA]),
        evolution=cast("SchemaEvolution", values[keys.EVOLUTION]),
        sort_by=tuple(str(field) for field in values.get(keys.SORT_BY) or ()),
        order_by=order_by_of(values, metadata),
        delete_memory=values[keys.DELETE_MEMORY],
        trigger=values[keys.TRIGGER],
        maintain=values[keys.MAINTAIN],
        start=values[keys.START],
        metadata=metadata,
        value_subject=subject_of(values, keys.SUBJECT),
        key_subject=subject_of(values, keys.KEY_SUBJECT),
        value_settings=replace(
            format_settings(values, keys.MESSAGE),
            fields=values.get(keys.FIELDS) or "",
            change_events=change_events_of(values),
        ),
        key_settings=replace(format_settings(values, keys.KEY_MESSAGE), of_change_events=values[keys.CDC] != "none"),
        formats=cast("tuple[TableFormat, ...]", values[keys.FORMATS]),
        wire_format=cast("WireFormat", values[keys.WIRE_FORMAT]),
        outputs=outputs_of(values, metadata),
    )
    return policed(spec, policies, hash_key=None, dead_letter_key=None)


def on_tombstone_of(values: Values, metadata: MetadataColumns) -> OnTombstone:
    identity = identity_of(values, metadata)
    if values.get(keys.CDC_CONNECTOR) is not None:
        return "skip"
    if deletes_by_key(values, metadata) and not orders_by_value(values, metadata):
        return "skip" if values[keys.CDC_DELETES] == "soft" else "delete"
    return cast("OnTombstone", values.get(keys.ON_TOMBSTONE) or ("dead_letter" if identity else "row"))


def subject_of(values: Values, key: Key[SubjectSettings]) -> SubjectSettings:
    """Return a subject. Schemas in AWS Glue have the name of the topic, and schemas in records have no subject."""
    if values[keys.VALUE if key is keys.SUBJECT else keys.KEY] == EMBEDDED:
        return SubjectSettings("record")
    return replace(values[key], suffixed=values[keys.WIRE_FORMAT] != "glue")


def format_settings(values: Values, message: Key[str]) -> FormatSettings:
    return FormatSettings(values.get(message), string_formats=cast("StringFormats", values[keys.STRING_FORMATS]))


def topics_of(values: Values) -> tuple[str, ...]:
    topic = values.get(keys.TOPIC)
    return values[keys.TOPICS] if topic is None else (topic,)


def metadata_of(values: Values) -> MetadataColumns:
    """Return the metadata columns, with partition and offset, and with the topic if there are several topics."""
    section = values[keys.METADATA]
    keep = {"partition", "offset", *section[keys.KEEP]}
    if names_schemas_by_uuid(values) and not section.is_given(keys.KEEP):
        keep.add("schema_uuid")
    if len(topics_of(values)) > 1:
        keep.add("topic")
    if values[keys.KEY] == "none":
        keep.discard("key")
    kept = tuple(name for name in METADATA_NAMES if name in keep)
    metadata = MetadataColumns(section[keys.PREFIX_KEY], kept)
    return kept_under(policies_of(values), metadata, is_given=section.is_given(keys.KEEP))


def names_schemas_by_uuid(values: Values) -> bool:
    """Return whether records name the schemas of their values by a UUID."""
    return values[keys.VALUE] in SCHEMA_TYPES and values[keys.WIRE_FORMAT] != CONFLUENT


def partition_fields(values: Values, metadata: MetadataColumns) -> tuple[PartitionField, ...]:
    given = values.get(keys.PARTITION_BY)
    if given is not None:
        return given
    return (PartitionField("day", f"{metadata.prefix}timestamp"),) if "timestamp" in metadata.keep else ()


def spec_problems(values: Values, *, catalog_type: str) -> Iterator[Problem]:
    """Yield the contradictions within a spec, and between a spec and its declared readers."""
    yield from _topic_problems(values)
    yield from output_problems(values, metadata_of(values), topics_of(values))
    yield from route_problems(values, name=table_name(values))
    yield from shape_problems(values, metadata_of(values), name=table_name(values))
    tables = tables_of(values)
    names = chain.from_iterable(_name_problems(each, catalog_type) for each in (values, *tables))
    rest = chain.from_iterable(_table_problems(each) for each in tables)
    yield from dict.fromkeys((*names, *rest))


def _table_problems(values: Values) -> Iterator[Problem]:
    """Yield what is wrong with a table; most problems are those of all tables of its spec."""
    yield from _partition_problems(values, metadata_of(values))
    yield from _sort_problems(values, metadata_of(values))
    yield from _z_order_problems(values, metadata_of(values))
    yield from _retention_problems(values)
    yield from _key_problems(values)
    yield from _field_problems(values)
    yield from keyed_problems(values, metadata_of(values))
    yield from change_event_problems(values)
    yield from policy_problems(values, metadata_of(values))
    if "iceberg" not in values[keys.FORMATS]:
        what = "delta is only supported together with iceberg, which holds the offsets"
        yield _problem(values.place_of(keys.FORMATS), what, "write [iceberg, delta]")


def _topic_problems(values: Values) -> Iterator[Problem]:
    if len(topics_of(values)) == 1:
        return
    if not values.is_given(keys.TABLE):
        hint = "add `table: name`"
        yield _problem(values.place_of(keys.TOPICS), "a spec with several topics requires a table", hint)
    if isinstance(values[keys.START], StartOffsets):
        hint = "start at a timestamp, or write one spec per topic"
        yield _problem(values.place_of(keys.START), "offsets cannot be given for several topics at once", hint)


def _name_problems(values: Values, catalog_type: str) -> Iterator[Problem]:
    for key in (keys.TABLE, keys.DATABASE):
        name = values.get(key) or ""
        if catalog_type == "glue" or "athena" in values[keys.READERS]:
            reader = "AWS Glue" if catalog_type == "glue" else "athena"
            problem = refused_table_name("athena", name)
            if problem is not None:
                yield _problem(values.place_of(key), f"{reader} {problem}", f"write {name.lower()}")


def _partition_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    place = values.place_of(keys.PARTITION_BY)
    families: dict[tuple[str, str], PartitionField] = {}
    for field in partition_fields(values, metadata):
        yield from _not_kept(field, place, metadata)
        if field.family in families:
            what = f"{families[field.family]} and {field} are redundant: Iceberg accepts only one of them"
            yield _problem(place, what, "keep the finer one")
        families.setdefault(field.family, field)


def _sort_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    place = values.place_of(keys.SORT_BY)
    known: dict[PartitionField, SortField] = {}
    for field in values.get(keys.SORT_BY) or ():
        yield from _not_kept(field.of, place, metadata)
        if field.of in known:
            yield _problem(place, f"{known[field.of]} and {field} sort by the same values", "keep the first one")
        known.setdefault(field.of, field)


def _z_order_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    place, names = values.place_of(keys.MAINTAIN), values[keys.MAINTAIN].z_order
    for name in names:
        yield from _not_kept(PartitionField("identity", name), place, metadata)
    if names and values.get(ROUTES) is not None:
        what = "z_order: each table of routes has columns of its own"
        yield _problem(place, what, "write sort_by in each route, or one spec per table")
    yield from z_order_contradictions(names, place, is_sorted=values.is_given(keys.SORT_BY))


def _retention_problems(values: Values) -> Iterator[Problem]:
    maintain = values[keys.MAINTAIN]
    kept, longest = maintain.keep_dead_letters, maintain.keep_snapshots.longest
    if kept is not None and kept < longest:
        what = (
            "keep_dead_letters is shorter than keep_snapshots keeps snapshots, at most"
            f" {longest / timedelta(days=1):g} days: after a rollback, deleted dead letters would be counted again"
        )
        hint = f"write keep_dead_letters: {longest / timedelta(days=1):g}d or longer, or keep snapshots for less time"
        yield _problem(values.place_of(keys.MAINTAIN), what, hint)
    if maintain.retain_rows is not None:
        yield from _row_retention_problems(values)


def _row_retention_problems(values: Values) -> Iterator[Problem]:
    place = values.place_of(keys.MAINTAIN)
    write, metadata = values[keys.WRITE], metadata_of(values)
    if values.get(ROUTES) is not None or values.get(SHAPES) is not None:
        what = "retain_rows: the tables of routes and shapes share one state, and keep all rows in this release"
        yield _problem(place, what, "remove retain_rows, or write one spec per table")
    elif write not in ("append", "deduplicate") or values[keys.CDC] != "none":
        what = "retain_rows: the rows are the state of their keys, which has no age"
        yield _problem(place, what, "remove retain_rows, or use write: append or write: deduplicate without cdc")
    if outputs_of(values, metadata):
        what = "retain_rows: the output topics would get deletes of the old rows"
        yield _problem(place, what, "remove retain_rows or outputs")
    if age_of_rows(map(str, partition_fields(values, metadata))) is None:
        what = "retain_rows: rows go in whole partitions of time, and partition_by has no time"
        hint = f"add one, such as partition_by: [day({metadata.prefix}timestamp)]"
        yield _problem(values.place_of(keys.PARTITION_BY), what, hint)


def _not_kept(field: PartitionField, place: Position, metadata: MetadataColumns) -> Iterator[Problem]:
    known = {f"{metadata.prefix}{name}": name for name in METADATA_NAMES}
    name = known.get(field.column)
    if name is not None and name not in metadata.keep:
        yield _problem(place, f"{field}: the column {field.column} is not kept", f"add {name} to metadata.keep")


def _key_problems(values: Values) -> Iterator[Problem]:
    key, metadata = values[keys.KEY], values[keys.METADATA]
    for subject, part in ((keys.SUBJECT, keys.VALUE), (keys.KEY_SUBJECT, keys.KEY)):
        if values.is_given(subject) and values[part] not in SCHEMA_TYPES:
            what = f"no effect, because {part.name} is {values[part]}"
            hint = f"set {part.name}: {' or '.join(SCHEMA_TYPES)}, or remove {subject.name}"
            yield _problem(values.place_of(subject), what, hint)
    if values.is_given(keys.STRING_FORMATS) and "json_schema" not in (key, values[keys.VALUE]):
        what = f"no effect, because value is {values[keys.VALUE]} and key is {key}"
        yield _problem(values.place_of(keys.STRING_FORMATS), what, "set value: json_schema, or remove string_formats")
    yield from _wire_problems(values)
    for message, part in ((keys.MESSAGE, keys.VALUE), (keys.KEY_MESSAGE, keys.KEY)):
        if values.is_given(message) and values[part] != "protobuf":
            what = f"no effect, because {part.name} is {values[part]}"
            yield _problem(values.place_of(message), what, f"set {part.name}: protobuf, or remove {message.name}")
    if key == "none" and metadata.is_given(keys.KEEP) and "key" in metadata[keys.KEEP]:
        what = "the key cannot be kept, because key is none"
        yield _problem(metadata.place_of(keys.KEEP), what, "set key: bytes, or remove key from the list")


def _wire_problems(values: Values) -> Iterator[Problem]:
    key, value, metadata = values[keys.KEY], values[keys.VALUE], values[keys.METADATA]
    if values.is_given(keys.WIRE_FORMAT) and not SCHEMA_TYPES.keys() & {key, value}:
        what = f"no effect, because value is {value} and key is {key}: no registered schema decodes them"
        yield _problem(values.place_of(keys.WIRE_FORMAT), what, "remove wire_format")
    if values[keys.EVOLUTION] == "strict" and schema_type_of(key) is None and schema_type_of(value) is None:
        what = f"no effect, because value is {value} and key is {key}: no schema decodes them"
        yield _problem(values.place_of(keys.EVOLUTION), what, "remove evolution")
    if values[keys.EVOLUTION] == "strict" and (unordered := _without_order(values)):
        hint = "write evolution: lenient, and let the registry check the compatibility of new versions"
        yield _problem(values.place_of(keys.EVOLUTION), unordered, hint)
    if metadata.is_given(keys.KEEP) and "schema_uuid" in metadata[keys.KEEP] and not names_schemas_by_uuid(values):
        what = "records name no schema of their values by a UUID"
        hint = "set wire_format: confluent_headers or glue, or remove schema_uuid from the list"
        yield _problem(metadata.place_of(keys.KEEP), what, hint)


def _without_order(values: Values) -> str | None:
    """Return why the writer schemas of a table cannot be compared in the order of their registration."""
    if values[keys.WIRE_FORMAT] == "confluent_headers":
        return (
            "strict compares schemas in the order of their registration: headers name them by GUIDs, which have no"
            " order, and Confluent's client reads neither the number nor the version of the schema of a GUID"
        )
    if EMBEDDED in (values[keys.VALUE], values[keys.KEY]):
        return f"strict compares schemas in the order of their registration: those of {EMBEDDED} are not registered"
    return None


def _field_problems(values: Values) -> Iterator[Problem]:
    declared = values.get(keys.FIELDS)
    if declared is None:
        return
    place, metadata = values.place_of(keys.FIELDS), metadata_of(values)
    if values[keys.VALUE] != "json":
        yield _problem(place, f"no effect, because value is {values[keys.VALUE]}", "set value: json, or remove fields")
    if values[keys.CDC] == "none" and (names := [name for name in NAMED if f'"{name}"' in declared]):
        what = f"{', '.join(names)}: change events have such types, and cdc is none"
        yield _problem(place, what, "set cdc, or write another type")
    taken = {metadata.prefix + name for name in metadata.keep}
    for name in json.loads(declared):
        if name.lower() in taken:
            what = f"the field {name} has the name of a metadata column"
            yield _problem(place, what, "choose another metadata.prefix, or leave the field out: _extra holds it")


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
