"""Some records of a topic, decoded as a table would decode them, before there is a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa

from frazil.formats.decoder import Decoded, Decoder
from frazil.formats.framing import Group, Grouping, group_by_schema_id
from frazil.formats.glue_framing import group_by_version_id
from frazil.formats.header_framing import VALUE_HEADER
from frazil.formats.open import (
    are_few,
    embedded_schema,
    grouping_by_schema,
    grouping_of,
    guessed_plain_format,
    is_known,
    message_names,
    open_decoder,
    open_plain,
)
from frazil.formats.python_values import python_values
from frazil.formats.unpacking import decode_group
from frazil.materialize.ingest.decoders import is_too_large
from frazil.model.dead_letter import HIDDEN_DETAIL, Reason, Reject
from frazil.model.plan import OffsetRange, PartitionFacts, TopicFacts
from frazil.model.schemas import RegisteredSchema, SchemaId
from frazil.model.spec import CONFLUENT, EMBEDDED, FormatSettings, TableSpec, WireFormat
from frazil.ports import RecordReader, SchemaRegistry
from frazil.records import Headers, OptionalFields, Records, binary

FIRST_WINDOW, LAST_WINDOW = 20, 20_000
"""Offsets before a partition's end that are read first, and at most: compaction and transactions leave gaps."""

_PLAIN = OptionalFields(timestamp_type=False, leader_epoch=False)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record as the broker returns it; `at` is None where it has no timestamp that Python can hold."""

    topic: str
    partition: int
    offset: int
    at: datetime | None
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=lambda: Headers.of([None]))


@dataclass(frozen=True, slots=True)
class PeekedRecord:
    """A record and its columns, or the reason why it would be a dead letter. `schema_id` is of the value.

    `key` is the decoded key where the registry's wire format and a schema give one, else None. `message` and
    `key_message` are the full names of the messages that a value and a key of Protobuf name.
    """

    raw: RawRecord
    schema_id: SchemaId | None
    columns: Mapping[str, Any] = field(default_factory=dict)
    reject: Reject | None = None
    key: Mapping[str, Any] | None = None
    message: str | None = None
    key_message: str | None = None


def newest_records(reader: RecordReader, facts: TopicFacts, count: int) -> list[RawRecord]:
    """Read about the newest `count` records of a topic, spread over its partitions, oldest first."""
    filled = {number: each for number, each in facts.partitions.items() if each.end > each.earliest}
    chosen = sorted(filled)[:count]
    found: list[RawRecord] = []
    for place, number in enumerate(chosen):
        share = -(-(count - len(found)) // (len(chosen) - place))
        found += _last_of(reader, facts.topic, number, filled[number], share)
    return sorted(found, key=lambda record: (record.at or _EPOCH, record.partition, record.offset))


def _last_of(reader: RecordReader, topic: str, number: int, partition: PartitionFacts, count: int) -> list[RawRecord]:
    """The last records of one partition; the window before its end grows while it holds too few."""
    window = max(FIRST_WINDOW, count)
    while True:
        start = max(partition.earliest, partition.end - window)
        wanted = OffsetRange(topic, number, start, partition.end, partition.end, max_bytes=1 << 30)
        chunks = chain.from_iterable(reader.read([wanted], _PLAIN))
        read = [record for chunk in chunks for record in _rows_of(topic, number, chunk)]
        if len(read) >= count or start == partition.earliest or window >= LAST_WINDOW:
            return read[-count:]
        window = min(window * 10, LAST_WINDOW)


def _rows_of(topic: str, partition: int, chunk: Records) -> Iterator[RawRecord]:
    columns = (chunk.offsets, chunk.timestamps_ms, chunk.keys, chunk.values)
    for index, record in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
        offset, milliseconds, key, value = record
        yield RawRecord(topic, partition, offset, _moment(milliseconds), key, value, chunk.headers.slice(index, 1))


def _moment(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


@dataclass(slots=True)
class Peeker:
    """Decodes single records: keys and values with the schemas that the registry has for them.

    `plain` decodes the values if they have no registered schema; the settings are those of a spec for the others.
    Settings are None without a spec: then each record is decoded as the Protobuf message that it names. The formats are
    the spec's words, of which only that of records with their schemas in them counts.
    """

    registry: SchemaRegistry | None
    plain: Decoder | None = None
    value_settings: FormatSettings | None = None
    key_settings: FormatSettings | None = None
    wire_format: WireFormat = CONFLUENT
    value_format: str | None = None
    key_format: str | None = None
    schemas: dict[SchemaId, RegisteredSchema | Reject] = field(default_factory=dict)
    names: dict[SchemaId, Decoder | None] = field(default_factory=dict)
    decoders: dict[tuple[SchemaId, FormatSettings], Decoder] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: SchemaRegistry | None, spec: TableSpec) -> Peeker:
        """Return a peeker that decodes records as a table would."""
        plain = open_plain(spec.value, spec.value_settings)
        return cls(
            registry, plain, spec.value_settings, spec.key_settings, spec.wire_format, spec.value, key_format=spec.key
        )

    def decode(self, raw: RawRecord) -> PeekedRecord:
        """Decode a record. A null value has no columns and is no dead letter: by default, it becomes a row of nulls.

        Raises RegistryError, and IncompatibleSchemaError where no table can hold a schema.
        """
        keyed = self._payload(raw, of_key=True)
        plain = self.plain
        decoded = self._payload(raw, of_key=False) if plain is None else _plain(raw, plain)
        decoded = replace(decoded, key_message=keyed.message)
        return decoded if keyed.reject is not None else replace(decoded, key=keyed.columns or None)

    def _payload(self, raw: RawRecord, *, of_key: bool) -> PeekedRecord:
        payload, settings = (raw.key, self.key_settings) if of_key else (raw.value, self.value_settings)
        framed = self._grouping(of_key=of_key)(binary([payload]), raw.headers)
        if payload is None:
            return PeekedRecord(raw, None)
        if framed.unframed:
            return PeekedRecord(raw, None, reject=framed.unframed[0])
        group = framed.groups[0]
        assert group.schema_id is not None  # noqa: S101 - every group of framed payloads has one
        schema = self._schema(group.schema_id)
        if isinstance(schema, Reject):
            return PeekedRecord(raw, group.schema_id, reject=schema)
        message = self._message(schema, payload, group)
        decoder = self._decoder(schema, FormatSettings(message=message) if settings is None else settings)
        decoded = decode_group(decoder, binary([payload]), group)
        if decoded.rejects:
            return PeekedRecord(raw, group.schema_id, reject=decoded.rejects[0], message=message)
        return PeekedRecord(raw, group.schema_id, columns=_columns(decoded), message=message)

    def _grouping(self, *, of_key: bool) -> Grouping:
        if (self.key_format if of_key else self.value_format) == EMBEDDED:
            return grouping_of(EMBEDDED)
        return grouping_by_schema(None, self.wire_format, of_key=of_key)

    def _schema(self, schema_id: SchemaId) -> RegisteredSchema | Reject:
        if schema_id not in self.schemas:
            self.schemas[schema_id] = self._look_up(schema_id)
        return self.schemas[schema_id]

    def _look_up(self, schema_id: SchemaId) -> RegisteredSchema | Reject:
        embedded = embedded_schema(schema_id)
        if embedded is not None:
            return embedded
        if self.registry is None:
            detail = f"names the schema {schema_id}, and no schema registry is configured"
            return Reject(0, Reason.UNKNOWN_SCHEMA_ID, detail)
        schema = None if is_too_large(schema_id) else self.registry.by_id(schema_id)
        if schema is None:
            return Reject(0, Reason.UNKNOWN_SCHEMA_ID, f"the registry has no schema with the id {schema_id}")
        if not is_known(schema):
            detail = f"schema {schema_id} is {schema.format}, which this release does not decode"
            return Reject(0, Reason.WRONG_SCHEMA_TYPE, detail)
        return schema

    def _message(self, schema: RegisteredSchema, payload: bytes, group: Group) -> str | None:
        if schema.id not in self.names:
            self.names[schema.id] = message_names(schema, self.wire_format)
        names = self.names[schema.id]
        named = None if names is None else decode_group(names, binary([payload]), group).rows.column(0).to_pylist()
        return named[0] if named else None  # none if the payload is not the compressed data that it says

    def _decoder(self, schema: RegisteredSchema, settings: FormatSettings) -> Decoder:
        if (schema.id, settings) not in self.decoders:
            self.decoders[schema.id, settings] = open_decoder(schema, settings, self.wire_format)
        return self.decoders[schema.id, settings]


def _plain(raw: RawRecord, decoder: Decoder) -> PeekedRecord:
    if raw.value is None:
        return PeekedRecord(raw, None)
    decoded = decoder.decode(binary([raw.value]))
    if decoded.rejects:
        return PeekedRecord(raw, None, reject=decoded.rejects[0])
    return PeekedRecord(raw, None, columns=_columns(decoded))


def _columns(decoded: Decoded) -> dict[str, Any]:
    """Return what one payload became: its columns, or what a change event without a row does."""
    if len(decoded.rows):
        return values_of(decoded.rows)
    events = decoded.without_row
    found = {"delete": events.deletes, "truncate": events.truncates, **events.skipped}
    return {"(change)": next(kind for kind, indexes in found.items() if len(indexes))}


def values_of(row: pa.RecordBatch) -> dict[str, Any]:
    """The columns of a batch of one row as Python values, or as text where Python cannot hold the value."""
    return {name: _value(column) for name, column in zip(row.schema.names, row.columns, strict=True)}


def _value(column: pa.Array) -> Any:
    try:
        return python_values(column)[0]
    except (ValueError, OverflowError):  # a date beyond the year 9999
        return str(column[0].cast(pa.string()).as_py()) if pa.types.is_temporal(column.type) else str(column)


def peek(
    reader: RecordReader,
    registry: SchemaRegistry | None,
    facts: TopicFacts,
    count: int,
    *,
    spec: TableSpec | None = None,
) -> Sequence[PeekedRecord]:
    """Read and decode about the newest `count` records of a topic. Nothing is written, and no offset is committed.

    Without a table spec, values are read by their schemas, or by the format that fits them if they do not
    begin with the header of the registry's wire format.
    """
    found = newest_records(reader, facts, count)
    if spec is None:
        word = plain_format_of(found)
        plain = None if word is None else open_plain(word)
        peeker = Peeker(registry, plain, wire_format=wire_format_of(found))
    else:
        peeker = Peeker.of(registry, spec)
    shown = [peeker.decode(raw) for raw in found]
    return [_covered(each) for each in shown] if spec is not None and spec.masked else shown


HIDDEN = b"[hidden]"


def _covered(each: PeekedRecord) -> PeekedRecord:
    """Hide what no policy has masked: the key, and the value of a record that cannot be decoded.

    An id that the registry does not know may be bytes of a value without a frame.
    """
    key, reject = each.raw.key, each.reject
    value = each.raw.value if each.raw.value is None else HIDDEN
    is_unknown = reject is not None and reject.reason is Reason.UNKNOWN_SCHEMA_ID
    return replace(
        each,
        schema_id=None if is_unknown else each.schema_id,
        raw=replace(each.raw, key=None if key is None else HIDDEN, value=value),
        reject=None if reject is None else reject._replace(detail=HIDDEN_DETAIL),
        key=None,
    )


def plain_format_of(records: Sequence[RawRecord]) -> str | None:
    """Return the format without registered schemas that fits these values; None if they may have schemas.

    A few of many values may be garbage, also such that begins as if it named a schema.
    """
    values = binary([record.value for record in records if record.value])
    framed = len(values) - len(group_by_schema_id(values).unframed)
    has_schemas = wire_format_of(records) != CONFLUENT or not are_few(framed, of=len(values))
    return guessed_plain_format(values) if len(values) and not has_schemas else None


def wire_format_of(records: Sequence[RawRecord]) -> WireFormat:
    """Return where these records name their schemas: in headers if any has one, as in AWS Glue if all but a few do."""
    values = binary([raw.value for raw in records if raw.value])
    if len(values) and are_few(len(group_by_version_id(values).unframed), of=len(values)):
        return "glue"
    in_headers = any(raw.headers.last(VALUE_HEADER.encode()).null_count == 0 for raw in records)
    return "confluent_headers" if in_headers else CONFLUENT
