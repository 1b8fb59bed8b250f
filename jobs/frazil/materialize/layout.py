"""The properties of a table, its metadata columns, and the columns of its dead letters table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.delta.expressible import inexpressible
from frazil.formats.open import plain_columns
from frazil.materialize.lacking_columns import why_lacking
from frazil.model.changes import AddColumn, Change
from frazil.model.columns import UNKNOWN, Column, ColumnType, Fixed, ListOf, Scalar, Struct, walk
from frazil.model.errors import SpecError
from frazil.model.identity_columns import column_at
from frazil.model.partitioning import PartitionField, partition_field
from frazil.model.reader_rules import refused_columns, refused_partition_source
from frazil.model.row_age import age_of_rows
from frazil.model.schemas import SchemaFinding
from frazil.model.sort_order import sort_field
from frazil.model.spec import TableSpec
from frazil.model.spelling import did_you_mean
from frazil.modes.followed import added_columns
from frazil.modes.identity import without_identity
from frazil.modes.validity import TIMES

TABLE_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""What each table that Frazil makes begins with: old metadata files do not pile up."""

HEADERS_COLUMN_TYPE = ListOf(Struct((Column("key", Scalar("string")), Column("value", Scalar("binary")))))

_TYPES: dict[str, ColumnType] = {
    "topic": Scalar("string"),
    "partition": Scalar("int"),
    "offset": Scalar("long"),
    "timestamp": Scalar("timestamptz"),
    "timestamp_type": Scalar("string"),
    "headers": HEADERS_COLUMN_TYPE,
    "schema_id": Scalar("int"),
    "schema_uuid": Scalar("string"),
    "leader_epoch": Scalar("int"),
    "value": Scalar("binary"),
}

DEAD_LETTER_COLUMNS: tuple[Column, ...] = (
    Column("topic", Scalar("string"), doc="The topic of the record."),
    Column("topic_id", Scalar("string"), doc="The topic's id; null where the broker has none."),
    Column("generation", Scalar("int"), doc="Which topic of this name, counted from 0."),
    Column("partition", Scalar("int"), doc="The partition of the record."),
    Column("offset", Scalar("long"), doc="The offset of the record."),
    Column("timestamp", Scalar("timestamptz"), doc="The record's timestamp."),
    Column("key", Scalar("binary"), doc="The key, byte for byte."),
    Column("value", Scalar("binary"), doc="The value, byte for byte."),
    Column("headers", HEADERS_COLUMN_TYPE, doc="The headers in order, byte for byte."),
    Column("reason", Scalar("string"), doc="Why it could not become a row: one of the reasons in docs/operate.md."),
    Column("detail", Scalar("string"), doc="What was wrong."),
    Column("path", Scalar("string"), doc="Where in the record it was wrong; empty for the record as a whole."),
    Column("schema_id", Scalar("int"), doc="The writer schema's registry id; null where the value names none."),
    Column("batch_id", Scalar("string"), doc="The batch that read it."),
    Column("read_at", Scalar("timestamptz"), doc="When it was read."),
    Column("table_uuid", Scalar("string"), doc="The Iceberg uuid of the table that the batch belongs to."),
)
"""Final: what reads dead letters rests on these names. They are the columns of the first release."""

MARK_COLUMNS: tuple[Column, ...] = (
    Column("replayed_at", Scalar("timestamptz"), doc="In a mark: when a replay turned the dead letter into a row."),
    Column("replayed_epoch", Scalar("long"), doc="In a mark: the epoch of that replay."),
    Column("replayed_snapshot_id", Scalar("long"), doc="In a mark: the snapshot that has the row."),
)
"""A mark is a row beside its dead letter's, with the same place and these columns. They are null in dead letters."""

ADDED_DEAD_LETTER_COLUMNS: tuple[Column, ...] = (
    Column("schema_uuid", Scalar("string"), doc="The UUID of the writer schema; null where the record names none."),
    Column("timestamp_type", Scalar("string"), doc="The timestamp's type, if the table of rows keeps it."),
    Column("leader_epoch", Scalar("int"), doc="The leader epoch, if the table of rows keeps it."),
    *MARK_COLUMNS,
)
"""Columns of later releases: a run adds them to older tables. Until then they are read as null. Additions go last."""


NO_FORMER_NAMES: Mapping[str, tuple[str, ...]] = {}


def metadata_columns(spec: TableSpec, key: Column | None) -> tuple[Column, ...]:
    """The columns about the record. `key` is of the key schema, for a spec that reads keys by their schema."""
    columns = (_metadata_column(spec, name, key) for name in spec.metadata.keep)
    return (*(column for column in columns if column is not None), *added_columns(spec))


def _metadata_column(spec: TableSpec, name: str, key: Column | None) -> Column | None:
    if name == "key":
        return _key_column(spec, key)
    return Column(spec.metadata.prefix + name, _TYPES[name])


def _key_column(spec: TableSpec, by_schema: Column | None) -> Column | None:
    name = spec.metadata.prefix + "key"
    for plain in plain_columns(spec.key, spec.key_settings):
        return replace(plain, name=name)
    return replace(by_schema, name=name) if spec.key_type is not None and by_schema is not None else None


def reads_keys_by_schema(spec: TableSpec) -> bool:
    """Return whether keys are decoded by a schema; keys without a column are not decoded."""
    return spec.key_type is not None and "key" in spec.metadata.keep


def name_clashes(record: tuple[Column, ...], spec: TableSpec) -> tuple[SchemaFinding, ...]:
    """Fields that would take the name of a metadata column, there or still to come, letter case aside."""
    taken = {name.lower(): name for name in _names_without_values(spec)}
    return tuple(
        SchemaFinding(column.name, f"the name clashes with the metadata column {taken[column.name.lower()]}")
        for column in record
        if column.name.lower() in taken
    )


def _names_without_values(spec: TableSpec) -> frozenset[str]:
    """Return the names of the columns that no value brings."""
    kept = (spec.metadata.prefix + name for name in _kept(spec))
    return frozenset((*kept, *(column.name for column in added_columns(spec))))


def newly_unreadable(
    before: tuple[Column, ...], after: tuple[Column, ...], spec: TableSpec
) -> tuple[SchemaFinding, ...]:
    """Return the columns, at any depth, that a declared reader cannot read and that were not there before.

    What a table has already is judged when `readers` changes, so that a new rule stops no existing table.
    """
    there = {path for path, _ in walk(before)}
    return tuple(each for each in refused_columns(spec.readers, after) if each.path not in there)


def impossible_columns(
    spec: TableSpec,
    columns: tuple[Column, ...],
    changes: tuple[Change, ...],
    former_names: Mapping[str, tuple[str, ...]] = NO_FORMER_NAMES,
) -> tuple[SchemaFinding, ...]:
    """Return why a field cannot have a second column, for values of another type, in a table with these columns.

    The spec may name columns by their `former_names`.
    """
    made = [change for change in changes if isinstance(change, AddColumn) and change.beside]
    first = dict(walk(columns)) if made else {}

    def present(path: str) -> str:
        found = column_at(path, columns, former_names)
        return path if found is None else found[0]

    found = (
        (change, first[change.beside], _why_impossible(spec, first[change.beside], change, present)) for change in made
    )
    return tuple(
        SchemaFinding(
            change.beside, f"is {change.type} in the writer's schema, the table has {column.type}, and {problem}"
        )
        for change, column, problem in found
        if problem is not None
    )


def _why_impossible(spec: TableSpec, first: Column, change: AddColumn, present: Callable[[str], str]) -> str | None:
    if spec.order_by is not None and _is_around(change.beside, present(spec.order_by)):
        return "the column in `order_by` gets none beside it: records of the other type would have no order"
    if any(_is_around(change.beside, present(path)) for path in spec.identity):
        return "a column of the identity gets none beside it: rows of the other type would have no identity"
    if change.beside in map(present, partition_columns(spec)):
        return "a column in `partition_by` gets none beside it: rows of the other type would be in no partition"
    if spec.policies and len(tuple(walk((first,)))) > 1:
        return "a column with fields gets none beside it in a table with policies: one inside it would not be applied"
    return None


def _is_around(column: str, path: str) -> bool:
    """Return whether a column has a path in it, or is in what has the path."""
    return f"{path}.".startswith(f"{column}.") or column.startswith(f"{path}.")


def delta_problems(spec: TableSpec, columns: tuple[Column, ...]) -> tuple[SpecError, ...]:
    """Columns, at any depth, that a Delta log beside the table cannot name or type."""
    found = inexpressible(columns) if "delta" in spec.formats else ()
    hint = f"fix the field in the topic's schema, or remove delta from `formats` in {spec.source_file}"
    return tuple(
        SpecError(f"{spec.identifier}: formats: delta: the column {each.path} {each.problem}", hint=hint)
        for each in found
    )


def _kept(spec: TableSpec) -> tuple[str, ...]:
    return tuple(name for name in spec.metadata.keep if name != "key" or spec.key != "none")


_TIMESTAMPS = {"timestamp", "timestamptz"}
_NUMBERED = {"int", "long", "decimal", "string", "binary"}
_ORDERS = {Scalar(name) for name in ("int", "long", "date", "timestamp", "timestamptz")}
_TAKES: dict[str, set[str]] = {
    "year": {"date"} | _TIMESTAMPS,
    "month": {"date"} | _TIMESTAMPS,
    "day": {"date"} | _TIMESTAMPS,
    "hour": _TIMESTAMPS,
    "truncate": _NUMBERED,
    "bucket": _NUMBERED | _TIMESTAMPS | {"date", "time", "uuid", "fixed"},
}


Z_ORDER = "maintain.z_order"


def partition_problems(spec: TableSpec, columns: tuple[Column, ...]) -> tuple[SpecError, ...]:
    """Return the errors in `partition_by` for a table with these columns (Iceberg, "Partition Transforms")."""
    found = (
        (partition_field(text).column, _for_readers(spec, text) or _partition_problem(text, columns))
        for text in spec.partition_by
    )
    return tuple(
        SpecError(f"{spec.identifier}: partition_by: {problem}", hint=_fix(spec, "partition_by", named, columns))
        for named, problem in found
        if problem is not None
    )


def _fix(spec: TableSpec, key: str, named: str, columns: tuple[Column, ...]) -> str:
    """Return the hint that a key of the spec is to be fixed, with the column that a misspelt name probably means.

    A new table has no column of the values if records bring their schemas: of a topic of many kinds, or in themselves.
    """
    names = [column.name for column in columns]
    if key in ("partition_by", "sort_by", Z_ORDER) and {*names} <= _names_without_values(spec):
        return f"the first batch brings the columns of the values: remove `{key}` until it has been read"
    return _fixed(spec, key, None if named in names else did_you_mean(named, names))


def _fixed(spec: TableSpec, key: str, likely: str | None) -> str:
    return f"{f'did you mean {likely}? ' if likely else ''}fix `{key}` in {spec.source_file}"


def identity_problems(
    spec: TableSpec, columns: tuple[Column, ...], former_names: Mapping[str, tuple[str, ...]] = NO_FORMER_NAMES
) -> tuple[SpecError, ...]:
    """Return why columns of a new table with these columns cannot be the identity of its rows."""
    unknown = [
        SpecError(f"{spec.identifier}: identity: {path} {what}", hint=_fixed(spec, "identity", likely))
        for path in spec.identity
        if column_at(path, columns, {}) is None
        for what, likely in [why_lacking(path, columns, former_names)]
    ]
    unfit = [
        SpecError(
            f"{spec.identifier}: write: {spec.write}: {finding}",
            hint=f"write: append in {spec.source_file} keeps every record",
        )
        for finding in identity_findings(spec, columns)
    ]
    return (*unknown, *unfit)


def order_problems(
    spec: TableSpec, columns: tuple[Column, ...], former_names: Mapping[str, tuple[str, ...]] = NO_FORMER_NAMES
) -> tuple[SpecError, ...]:
    """Return why a column of a new table with these columns cannot order its records."""
    if spec.order_by is None:
        return ()
    found = column_at(spec.order_by, columns, {})
    what, likely = why_lacking(spec.order_by, columns, former_names) if found is None else ("", None)
    findings = [SchemaFinding(spec.order_by, what)] if found is None else list(order_findings(spec, *found))
    hint = _fixed(spec, "order_by", likely)
    return tuple(SpecError(f"{spec.identifier}: order_by: {finding}", hint=hint) for finding in findings)


def order_findings(spec: TableSpec, path: str, column: Column) -> Iterator[SchemaFinding]:
    """Yield why the column at a path, which orders the records of an identity, cannot do so."""
    if column.type not in (UNKNOWN, *(TIMES if spec.keeps_history else _ORDERS)):
        what = "records are ordered by whole numbers, dates and timestamps"
        what = "intervals begin at dates and timestamps" if spec.keeps_history else what
        yield SchemaFinding(path, f"is {column.type}, and {what}")
    if column.mask and not column.mask.startswith("none"):
        yield SchemaFinding(path, f"orders the records of a key, and has the mask {column.mask}")


def identity_findings(
    spec: TableSpec, columns: tuple[Column, ...], former_names: Mapping[str, tuple[str, ...]] = NO_FORMER_NAMES
) -> tuple[SchemaFinding, ...]:
    """Return why values in the columns of the identity cannot identify a row, by path."""
    found = (column_at(path, columns, former_names) for path in spec.identity_paths)
    parts = [(at, column) for each in found if each is not None for at, column in [each]]
    unequal = [
        SchemaFinding(path, f"is {type_}, and cannot be a part of the identity: equal values may differ")
        for at, column in parts
        for path, type_ in without_identity(replace(column, name=at))
    ]
    hidden = [
        SchemaFinding(path, f"is a part of the identity, and has the mask {column.mask}: different keys become equal")
        for at, part in parts
        for path, column in walk((replace(part, name=at),))
        if column.mask and not column.mask.startswith(("hash", "none"))
    ]
    return (*unequal, *hidden)


def partition_columns(spec: TableSpec) -> frozenset[str]:
    """The columns that `partition_by` names."""
    return frozenset(partition_field(text).column for text in spec.partition_by)


def sort_problems(spec: TableSpec, columns: tuple[Column, ...]) -> tuple[SpecError, ...]:
    """Return the errors in `sort_by` for a table with these columns (Iceberg, "Sort Orders")."""
    return _sorting_problems(spec, "sort_by", [sort_field(text).of for text in spec.sort_by], columns)


def z_order_problems(spec: TableSpec, columns: tuple[Column, ...]) -> tuple[SpecError, ...]:
    """Return the errors in `maintain.z_order` for a table with these columns."""
    fields = [PartitionField("identity", name) for name in spec.maintain.z_order]
    return _sorting_problems(spec, Z_ORDER, fields, columns)


def _sorting_problems(
    spec: TableSpec, key: str, fields: Sequence[PartitionField], columns: tuple[Column, ...]
) -> tuple[SpecError, ...]:
    found = ((field.column, _field_problem("sort", field, columns)) for field in fields)
    return tuple(
        SpecError(f"{spec.identifier}: {key}: {problem}", hint=_fix(spec, key, named, columns))
        for named, problem in found
        if problem is not None
    )


def retention_problems(spec: TableSpec, columns: tuple[Column, ...]) -> tuple[SpecError, ...]:
    """Return why the rows of a table with these columns have no age."""
    age = age_of_rows(spec.partition_by) if spec.maintain.retain_rows is not None else None
    if age is None:
        return ()
    found = next((each.type for each in columns if each.name == age.column), None)
    if found is None or (isinstance(found, Scalar) and found.name in _TIMESTAMPS):
        return ()
    what = f"maintain.retain_rows: {age} says no age, because {age.column} is a {found} and no timestamp"
    return (SpecError(f"{spec.identifier}: {what}", hint="let partition_by begin with a time of a timestamp"),)


def sort_columns(spec: TableSpec) -> frozenset[str]:
    """The columns that `sort_by` names."""
    return frozenset(sort_field(text).of.column for text in spec.sort_by)


def _for_readers(spec: TableSpec, text: str) -> str | None:
    problem = refused_partition_source(spec.readers, partition_field(text).column)
    return None if problem is None else f"{text} {problem}"


def _partition_problem(text: str, columns: tuple[Column, ...]) -> str | None:
    field = partition_field(text)
    problem = _field_problem("partition", field, columns)
    types = {column.name: column.type for column in columns}
    if problem is None and field.transform == "identity" and isinstance(types[field.column], Fixed):
        return (
            f"{field} is of type {types[field.column]}, and Spark cannot read a table that is partitioned by its values"
        )
    if problem is None and field.name != field.column and field.name in {column.name for column in columns}:
        return f"{text} needs the name {field.name}, which a column already has"
    return problem


def _field_problem(act: str, field: PartitionField, columns: tuple[Column, ...]) -> str | None:
    types = {column.name: column.type for column in columns}
    if field.column not in types:
        return f"{field} names a column that the table does not have; its columns are {', '.join(types)}"
    found = types[field.column]
    kind = str(found).partition("(")[0].partition("<")[0]
    takes = _TAKES.get(field.transform)
    if kind in ("struct", "list", "map") or (takes is not None and kind not in takes):
        return f"{field} cannot {act} by a column of type {found}"
    return None
