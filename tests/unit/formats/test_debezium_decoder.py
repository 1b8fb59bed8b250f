"""Payloads of change events as changes, with the indexes of the payloads, and the columns of their schemas."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from avro_samples import REPEATABLE
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import EmbeddedSchema, read_schema
from frazil.formats.debezium.decoder import avro_changes, json_changes, map_avro, map_json
from frazil.formats.debezium.json_schema import json_schema_changes, map_json_schema
from frazil.formats.decoder import Decoded
from frazil.formats.json_schema.schema import expand
from frazil.model.change_events import ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.schemas import SchemaFinding
from frazil.records import binary
from tests.fakes.connect_samples import (
    BYTES,
    INT,
    STRING,
    Schema,
    avro_payload,
    avro_schema,
    json_record,
    json_schema,
    json_schema_payload,
    json_value,
    named,
    optional,
    struct,
)
from tests.fakes.debezium_samples import (
    FLATTENED,
    HEARTBEAT,
    MYSQL,
    POSTGRES,
    POSTGRES_SOURCE,
    envelope,
    mysql,
    order,
    postgres,
)
from tests.sampling import examples

ROW = {"id": 1, "email": ""}
BAD_ALARM = {**ROW, "alarm": -1}
GIVEN = [mysql("t"), mysql("c", after=BAD_ALARM), mysql("x"), mysql("c", after=ROW)]


def test_indexes_are_those_of_the_payloads(engine: Any) -> None:
    decoder = avro_changes(parse_schema(avro_schema(MYSQL)), ChangeEvents(), engine)
    payloads = [avro_payload(MYSQL, each) for each in GIVEN]

    decoded = decoder.decode(binary([b"12345\xff", *(b"12345" + each for each in payloads)]), skip=5)

    assert [(each.index, each.reason) for each in decoded.rejects] == [
        (0, Reason.TRUNCATED),
        (2, Reason.OUT_OF_RANGE),
        (3, Reason.UNKNOWN_OPERATION),
    ]
    assert (places(decoded), decoded.taken) == (([1], [4]), 5)
    assert decoded.rows.schema == decoder.schema


def test_fields_that_changes_are_not_made_of_are_judged_too(engine: Any) -> None:
    decoder = avro_changes(parse_schema(avro_schema(MYSQL)), ChangeEvents(), engine)
    payload = avro_payload(MYSQL, mysql("d", before={"id": 1, "email": "\u20ac"}))

    (reject,) = decoder.decode(binary([payload.replace("\u20ac".encode(), b"\xff\xff\xff")])).rejects

    assert (reject.reason, reject.path) == (Reason.BAD_UTF8, "before.email")


def test_every_setting_reads_the_fields_that_it_needs(engine: Any) -> None:
    for asked in (
        ChangeEvents(soft_deletes=True),
        ChangeEvents(connector="mysql"),
        ChangeEvents(kept=("transaction.id", "source.snapshot", "ts_ms")),
    ):
        decoder = avro_changes(parse_schema(avro_schema(MYSQL)), asked, engine)
        given = [mysql("d", before=ROW), mysql("c", after=ROW)]

        found = decoder.decode(binary([avro_payload(MYSQL, each) for each in given]))

        assert (found.rejects, found.rows.schema) == ((), decoder.schema)
        if asked.soft_deletes:
            assert found.rows.column("id").to_pylist() == [1, 1]
        if asked.kept:
            assert found.rows.column("__source_snapshot").to_pylist() == ["false"]


def test_json_payloads_are_decoded_the_same(engine: Any) -> None:
    decoder = json_changes(embedded(MYSQL), ChangeEvents(), engine)

    found = decoder.decode(binary([b"{]", *(dumped(MYSQL, each) for each in GIVEN)]))

    assert [(each.index, each.reason) for each in found.rejects] == [
        (0, Reason.BAD_JSON),
        (2, Reason.OUT_OF_RANGE),
        (3, Reason.UNKNOWN_OPERATION),
    ]
    assert places(found) == ([1], [4])


def test_payloads_of_a_json_schema_are_decoded_the_same(engine: Any) -> None:
    decoder = json_schema_changes(expand(json_schema(MYSQL)), ChangeEvents(), engine)
    payloads = [b"12345" + json_schema_payload(MYSQL, each) for each in GIVEN]

    found = decoder.decode(binary([b"12345{]", *payloads]), skip=5)

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [
        (0, Reason.BAD_JSON, ""),
        (2, Reason.OUT_OF_RANGE, "after.alarm"),
        (3, Reason.UNKNOWN_OPERATION, "op"),
    ]
    assert places(found) == ([1], [4])


@pytest.mark.parametrize("written", ["NaN", "-Infinity"])
def test_numbers_that_json_does_not_have_are_texts_and_so_dead_letters(engine: Any, written: str) -> None:
    row = struct("shop.public.orders.Value", id=INT, weight=optional({"type": "double"}))
    schema = envelope("shop.public.orders", row, POSTGRES_SOURCE)
    payloads = binary([json_schema_payload(schema, postgres("u", after={"id": 1, "weight": written}))])
    in_records = json_changes(read_schema(json.dumps(schema)), ChangeEvents(), engine)
    registered = json_schema_changes(expand(json_schema(schema)), ChangeEvents(), engine)

    for decoder in (in_records, registered):
        (reject,) = decoder.decode(payloads).rejects
        assert (reject.reason, reject.path) == (Reason.WRONG_TYPE, "after.weight")


def test_columns_that_a_json_schema_lacks_are_kept(engine: Any) -> None:
    decoder = json_schema_changes(expand(json_schema(MYSQL)), ChangeEvents(), engine)
    event = {**mysql("c"), "after": {**ROW, "phone": "1"}, "note": "not of the row"}

    found = decoder.decode(binary([json.dumps(event).encode()]))

    assert (found.rows.column("_extra").to_pylist(), found.undeclared) == (['{"phone":"1"}'], 1)


def test_columns_that_no_table_can_have_are_findings_of_a_json_schema() -> None:
    decimal = named("org.apache.kafka.connect.data.Decimal", BYTES, scale="2", **{"connect.decimal.precision": "39"})
    row = struct("shop.public.orders.Value", id=INT, _extra=STRING, total=optional(decimal))

    mapped = map_json_schema(expand(json_schema(envelope("shop.public.orders", row, POSTGRES_SOURCE))), ChangeEvents())

    assert mapped.findings == (
        SchemaFinding("after._extra", "takes the name of the column of undeclared fields, _extra"),
        SchemaFinding("after.total", "a decimal of 39 digits, 2 of them after the point"),
    )


def test_nothing_is_decoded_from_no_payloads(engine: Any) -> None:
    decoder = avro_changes(parse_schema(avro_schema(POSTGRES)), ChangeEvents(soft_deletes=True), engine)

    decoded = decoder.decode(binary([]))

    assert (decoded.taken, decoded.rows.num_rows, decoded.rejects) == (0, 0, ())


def test_payloads_of_a_dictionary_are_decoded(engine: Any) -> None:
    decoder = avro_changes(parse_schema(avro_schema(POSTGRES)), ChangeEvents(), engine)
    payloads = binary([avro_payload(POSTGRES, postgres("c", after=order(each))) for each in range(3)])

    found = decoder.decode(pa.DictionaryArray.from_arrays(pa.array([2, 0]), payloads))

    assert found.rows.column("id").to_pylist() == [2, 0]


@st.composite
def mixtures(draw: st.DrawFn) -> list[bytes]:
    """Envelopes with and without either image, valid ones and broken ones."""
    images = st.none() | st.builds(order, st.integers(0, 9))
    events = st.builds(postgres, st.sampled_from("rcudtmx"), before=images, after=images)
    payloads = [avro_payload(POSTGRES, each) for each in draw(st.lists(events, max_size=12))]
    cut = draw(st.sets(st.sampled_from(range(len(payloads))))) if payloads else set()
    return [each[:-3] if index in cut else each for index, each in enumerate(payloads)]


@settings(REPEATABLE, max_examples=examples(100, 3000))
@given(
    mixtures(), st.sampled_from([ChangeEvents(), ChangeEvents(soft_deletes=True), ChangeEvents(connector="postgresql")])
)
def test_the_native_decoder_and_the_fallback_find_the_same_changes(payloads: list[bytes], asked: ChangeEvents) -> None:
    schema = parse_schema(avro_schema(POSTGRES))
    by_default, slowly = (avro_changes(schema, asked, each).decode(binary(payloads)) for each in (None, "fallback"))

    assert by_default.rows.equals(slowly.rows)
    assert by_default.rejects == slowly.rejects
    assert repr(by_default.without_row) == repr(slowly.without_row)
    assert repr(by_default.incomplete) == repr(slowly.incomplete)


def test_the_columns_are_those_of_the_row_and_about_the_change() -> None:
    asked = ChangeEvents(soft_deletes=True, kept=("source.pos",))
    by_format = (
        (map_avro(parse_schema(avro_schema(MYSQL)), asked), {}),
        (map_json(embedded(MYSQL), asked), {}),
        (map_json_schema(expand(json_schema(MYSQL)), asked), {"_extra": "string"}),
    )

    for mapped, more in by_format:
        assert {each.name: str(each.type) for each in mapped.columns} == {
            "id": "int",
            "email": "string",
            "kind": "string",
            "seen": "timestamptz",
            "alarm": "time",
            "__op": "string",
            "__source_ts": "timestamptz",
            "__deleted": "boolean",
            "__source_pos": "long",
            **more,
        }
        assert (mapped.findings, mapped.record) == ((), "crm.crm.customers.Envelope")


def test_heartbeats_and_flattened_rows_have_no_columns() -> None:
    heartbeat = map_avro(parse_schema(avro_schema(HEARTBEAT)), ChangeEvents())
    flattened = map_avro(parse_schema(avro_schema(FLATTENED)), ChangeEvents())
    in_json_schema = [map_json_schema(expand(json_schema(each)), ChangeEvents()) for each in (HEARTBEAT, FLATTENED)]

    for mapped in (heartbeat, flattened, *in_json_schema):
        assert (mapped.columns, mapped.findings) == ((), ())
    assert [each.is_of_rows for each in in_json_schema] == [heartbeat.is_of_rows, flattened.is_of_rows]


def test_nothing_is_found_of_a_heartbeat_that_no_column_could_hold() -> None:
    """It is never read, so it may not pause the table."""
    twice = [{"name": name, "type": "long"} for name in ("ts_ms", "TS_MS")]
    odd = json.dumps({"type": "record", "name": "io.debezium.connector.common.Heartbeat", "fields": twice})
    as_row = json.dumps({"type": "record", "name": "Other", "fields": twice})

    assert map_avro(parse_schema(as_row), ChangeEvents()).findings
    assert map_avro(parse_schema(odd), ChangeEvents()).findings == ()


def test_what_the_settings_ask_for_and_the_schema_lacks_is_a_finding() -> None:
    mapped = map_avro(parse_schema(avro_schema(MYSQL)), ChangeEvents(kept=("source.lsn",)))

    assert mapped.findings == (SchemaFinding("", "the change events have no field source.lsn"),)


def places(decoded: Decoded) -> tuple[list[int], list[int]]:
    """Return the indexes of the truncates, and of the rows."""
    return decoded.without_row.truncates.tolist(), np.delete(np.arange(decoded.taken), decoded.rowless).tolist()


def embedded(schema: Schema) -> EmbeddedSchema:
    (same,) = by_schema(binary([json_record(schema, None)]))
    assert same.schema is not None
    return read_schema(same.schema)


def dumped(schema: Schema, value: Any) -> bytes:

    return json.dumps(json_value(schema, value)).encode()
