"""Which columns a table has besides the record's own, and the columns of its dead letters."""

from __future__ import annotations

from jobs.model.columns import Column, ColumnType, ListOf, Scalar, Struct
from jobs.model.schemas import Finding
from jobs.model.spec import TableSpec

HEADERS = ListOf(Struct((Column("key", Scalar("string")), Column("value", Scalar("binary")))))

_TYPES: dict[str, ColumnType] = {
    "topic": Scalar("string"),
    "partition": Scalar("int"),
    "offset": Scalar("long"),
    "timestamp": Scalar("timestamptz"),
    "timestamp_type": Scalar("string"),
    "headers": HEADERS,
    "schema_id": Scalar("int"),
    "leader_epoch": Scalar("int"),
    "value": Scalar("binary"),
}
_KEY_TYPES: dict[str, ColumnType] = {"bytes": Scalar("binary"), "string": Scalar("string")}

DEAD_LETTER_COLUMNS: tuple[Column, ...] = (
    Column("topic", Scalar("string"), doc="The topic of the record."),
    Column("topic_id", Scalar("string"), doc="The topic's id; null where the broker has none."),
    Column("generation", Scalar("int"), doc="Which topic of this name, counted from 0."),
    Column("partition", Scalar("int"), doc="The partition of the record."),
    Column("offset", Scalar("long"), doc="The offset of the record."),
    Column("timestamp", Scalar("timestamptz"), doc="The record's timestamp."),
    Column("key", Scalar("binary"), doc="The key, byte for byte."),
    Column("value", Scalar("binary"), doc="The value, byte for byte."),
    Column("headers", HEADERS, doc="The headers in order, byte for byte."),
    Column("reason", Scalar("string"), doc="Why it could not become a row: one of the reasons in docs/operate.md."),
    Column("detail", Scalar("string"), doc="What was wrong."),
    Column("path", Scalar("string"), doc="Where in the record it was wrong; empty for the record as a whole."),
    Column("schema_id", Scalar("int"), doc="The writer schema's registry id; null where the value names none."),
    Column("batch_id", Scalar("string"), doc="The batch that read it."),
    Column("read_at", Scalar("timestamptz"), doc="When it was read."),
)
"""Final: what reads dead letters rests on these names. Additions go at the end."""


def metadata_columns(spec: TableSpec, key_type: ColumnType | None) -> tuple[Column, ...]:
    """The columns about the record. `key_type` is the key schema's where keys are Avro and one is known."""
    columns = (_metadata_column(spec, name, key_type) for name in spec.metadata.keep)
    return tuple(column for column in columns if column is not None)


def _metadata_column(spec: TableSpec, name: str, key_type: ColumnType | None) -> Column | None:
    column_type = _TYPES.get(name) if name != "key" else _KEY_TYPES.get(spec.key, key_type)
    return None if column_type is None else Column(spec.metadata.prefix + name, column_type)


def name_clashes(record: tuple[Column, ...], metadata: tuple[Column, ...]) -> tuple[Finding, ...]:
    """A record's field that would take the name of a metadata column, letter case aside."""
    taken = {column.name.lower(): column.name for column in metadata}
    return tuple(
        Finding(column.name, f"the name clashes with the metadata column {taken[column.name.lower()]}")
        for column in record
        if column.name.lower() in taken
    )
