"""Change events in JSON whose schemas a registry has, as Confluent's JsonSchemaConverter writes them.

Its `JsonSchemaData.rawSchemaFromConnectSchema` writes the name of a Connect schema as `title`, its parameters as
`connect.parameters`, the place of a field as `connect.index`, and a type that may be null as `oneOf` null and the type.
A number has `connect.type` (int8, int16, int32, int64, float32, float64). Bytes are strings in base64 with
`connect.type: bytes`, and a Decimal is a number with the same one, although its value is base64 too unless
`decimal.format` is NUMERIC. `fromConnectData` writes each field of a struct, also if it is null. Both are in
confluentinc/schema-registry, `json-schema-converter/src/main/java/io/confluent/connect/json/JsonSchemaData.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from frazil.formats.debezium.apart import Event, EventDecoder
from frazil.formats.debezium.changes import Envelopes
from frazil.formats.debezium.columns import LogicalColumns
from frazil.formats.debezium.decoder import IMAGES, ChangeDecoder, OtherEvents, mapped_envelopes
from frazil.formats.debezium.envelope import fields_read, is_key_of_row, kind_of
from frazil.formats.debezium.keys import KeyDecoder, OtherKeys
from frazil.formats.decoder import Decoder
from frazil.formats.json_schema.schema import Expanded, refuse
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import EXTRA, JSON_TEXT, Member, Members, Row, columns_of
from frazil.formats.limits import MAX_DIGITS
from frazil.formats.mapped import Mapped
from frazil.formats.native import Engine
from frazil.model.change_events import ChangeEvents
from frazil.model.columns import Decimal, walk
from frazil.model.schemas import SchemaFinding

_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def json_schema_changes(schema: Expanded, settings: ChangeEvents, engine: Engine | None = None) -> Decoder:
    """Return the decoder of a schema of change events.

    Raises IncompatibleSchemaError as `Envelopes` does, and if a table cannot have columns of the schema.
    """
    event = _event(schema, settings)
    kind = kind_of(event.columns, schema.title)
    if kind != "envelope":
        return OtherEvents(kind)
    findings = (*schema.findings, *_findings(schema, event))
    if findings:
        raise refuse(findings)
    return ChangeDecoder(EventDecoder(event, engine), Envelopes(event.columns, schema.types, settings))


def map_json_schema(schema: Expanded, settings: ChangeEvents) -> Mapped:
    """Return the columns of the rows in change events of a schema, and why there are none."""
    event = _event(schema, settings)
    findings = (*schema.findings, *_findings(schema, event))
    stored = Mapped(event.columns, findings, schema.notes, schema.title or "")
    return mapped_envelopes(stored, schema.types, settings)


def _event(schema: Expanded, settings: ChangeEvents) -> Event:
    """Return the shapes of an event: of the envelope, only the fields that changes are made of."""
    read = {path.partition(".")[0] for path in fields_read(settings)}
    members = [each for each in schema.row.members.fields if each.name in read]
    images = [each for each in members if each.name in IMAGES and isinstance(each.shape, Members)]
    envelope = Members(tuple(replace(each, shape=JSON_TEXT) if each in images else each for each in members))
    return Event(
        Row(envelope, is_object=True, keeps_extra=False),
        Row(_row_of(images), is_object=True, keeps_extra=True),
        tuple(each.name for each in images),
    )


def _row_of(images: list[Member]) -> Members:
    """Return the shape of the row. `before` has the same one as `after`."""
    shapes = [each.shape for each in images if each.name == "after" and isinstance(each.shape, Members)]
    return shapes[0] if shapes else Members(())


def _findings(schema: Expanded, event: Event) -> Iterator[SchemaFinding]:
    """Yield why a table cannot have the columns of the row: a name that is taken, and decimals of too many digits."""
    for member in event.image.members.with_data():
        if member.name.lower() == EXTRA:
            yield SchemaFinding(f"after.{member.name}", f"takes the name of the column of undeclared fields, {EXTRA}")
    types = {path: column.type for path, column in walk(event.columns)}
    for path, named in schema.types.items():
        if named.name == _DECIMAL and path in types and not isinstance(types[path], Decimal):
            precision, scale = (named.parameter(each) for each in ("connect.decimal.precision", "scale"))
            digits = f"{precision or MAX_DIGITS} digits, {scale} of them after the point"
            yield SchemaFinding(path, f"a decimal of {digits}")


def json_schema_keys(schema: Expanded, engine: Engine | None = None) -> Decoder:
    """Return the decoder of keys of a schema. Raises IncompatibleSchemaError if a table cannot have their columns."""
    if not is_key_of_row(schema.title):
        return OtherKeys()
    if schema.findings:
        raise refuse(schema.findings)
    columns = LogicalColumns(columns_of(schema.row), schema.types)
    return KeyDecoder(json_decoders.open_decoder(schema.row, engine), columns)
