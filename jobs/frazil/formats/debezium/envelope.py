"""The parts of a change event: an envelope of the row before and after the change, and where the change was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from frazil.formats.debezium.position import FIELDS, TEXT
from frazil.model.change_events import ChangeEvents, kept_name
from frazil.model.columns import Column, ColumnType, Scalar, Struct
from frazil.model.errors import IncompatibleSchemaError

Kind: TypeAlias = Literal["envelope", "heartbeat", "transaction", "schema_change", "other"]
DOCUMENT = "document"
"""The column of MongoDB's documents, which are JSON text."""
UPDATE_DESCRIPTION = "updateDescription"
"""The field in which MongoDB's connector describes what an update changed."""
OP, SOURCE_TIME, DELETED = "__op", "__source_ts", "__deleted"

_KINDS: dict[str, Kind] = {
    "io.debezium.connector.common.Heartbeat": "heartbeat",
    "io.debezium.connector.common.TransactionMetadataValue": "transaction",
}

_OTHER_KEYS = frozenset(
    {"io.debezium.connector.common.ServerNameKey", "io.debezium.connector.common.TransactionMetadataKey"}
)


def is_key_of_row(record: str | None) -> bool:
    """Return whether keys of a schema are those of rows: not of heartbeats, transactions and schema changes."""
    name = record or ""
    is_of_schema_change = name.startswith("io.debezium.connector.") and name.endswith(".SchemaChangeKey")
    return name not in _OTHER_KEYS and not is_of_schema_change


def kind_of(columns: tuple[Column, ...], record: str | None) -> Kind:
    """Return what records of a schema are: its columns and the full name of its record decide."""
    known = _KINDS.get(record or "")
    if known is not None:
        return known
    if record is not None and record.startswith("io.debezium.connector.") and record.endswith(".SchemaChangeValue"):
        return "schema_change"
    types = {column.name: column.type for column in columns}
    return "envelope" if types.get("op") == Scalar("string") and _is_image(types.get("after")) else "other"


def _is_image(type_: ColumnType | None) -> bool:
    return isinstance(type_, Struct) or type_ == Scalar("string")


def image_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of the row in an envelope, as its writer stores them."""
    (after,) = (column for column in columns if column.name == "after")
    return after.type.columns if isinstance(after.type, Struct) else (Column(DOCUMENT, Scalar("string"), is_json=True),)


def metadata_columns(columns: tuple[Column, ...], settings: ChangeEvents) -> tuple[Column, ...]:
    """Return the columns about a change, which follow those of the row.

    Raises IncompatibleSchemaError if the envelope lacks a field that is to be kept.
    """
    deleted = (Column(DELETED, Scalar("boolean")),) if settings.soft_deletes else ()
    about = (Column(OP, Scalar("string")), Column(SOURCE_TIME, Scalar("timestamptz")), *deleted)
    return (*about, *_kept(columns, settings.kept), *(Column(name, Scalar("long")) for name in settings.position))


def about_names(settings: ChangeEvents) -> tuple[str, ...]:
    """Return the names of the columns about a change."""
    deleted = [DELETED] if settings.soft_deletes else []
    return (OP, SOURCE_TIME, *deleted, *map(kept_name, settings.kept), *settings.position)


def _kept(columns: tuple[Column, ...], paths: tuple[str, ...]) -> Iterator[Column]:
    for path in paths:
        yield Column(kept_name(path), field_at(columns, path).type)


def field_at(columns: tuple[Column, ...], path: str) -> Column:
    """Return a field of the envelope. Raises IncompatibleSchemaError if there is none."""
    found = _field(columns, path)
    if found is None:
        raise IncompatibleSchemaError(
            f"the change events have no field {path}",
            hint="name fields of `source` or `transaction` that the connector writes, and the connector itself",
        )
    return found


def _field(columns: tuple[Column, ...], path: str) -> Column | None:
    first, _, rest = path.partition(".")
    found = next((column for column in columns if column.name == first), None)
    if found is None or not rest:
        return found
    return _field(found.type.columns, rest) if isinstance(found.type, Struct) else None


def fields_read(settings: ChangeEvents) -> tuple[str, ...]:
    """Return the paths of the fields of an envelope that changes are made of."""
    position = ("connector", *FIELDS[settings.connector]) if settings.connector else ()
    before = ("before",) if settings.soft_deletes else ()
    names = ("ts_us", "ts_ms", *position)
    return ("after", "op", *before, *(f"source.{name}" for name in names), *settings.kept)


def check_position(columns: tuple[Column, ...], settings: ChangeEvents) -> None:
    """Raise IncompatibleSchemaError if the envelope lacks a field of the position that orders the changes."""
    if settings.connector is None:
        return
    expected = {"connector": TEXT, **{name: field.stored for name, field in FIELDS[settings.connector].items()}}
    for name, types in expected.items():
        found = field_at(columns, f"source.{name}").type
        if found not in types:
            raise IncompatibleSchemaError(
                f"source.{name} is {found}, and of the connector {settings.connector} it is"
                f" {' or '.join(map(str, types))}",
                hint="write the connector's name as `cdc_connector`, or let the offset order: `cdc_order: offset`",
            )


def check_names(row: tuple[Column, ...], metadata: tuple[Column, ...]) -> None:
    """Raise IncompatibleSchemaError if a column of the row has the name of one about the change, ignoring case."""
    taken = {column.name.lower() for column in metadata}
    clashing = [column.name for column in row if column.name.lower() in taken]
    if clashing:
        raise IncompatibleSchemaError(
            f"the rows have columns with names of change events: {', '.join(clashing)}",
            hint="rename them in the connector, or leave out `cdc`",
        )
