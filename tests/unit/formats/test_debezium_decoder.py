"""Payloads of change events as changes, with the indexes of the payloads, and the columns of their schemas."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from avro_samples import REPEATABLE
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import EmbeddedSchema, read_schema
from frazil.formats.debezium.decoder import avro_changes, json_changes, map_avro, map_json
from frazil.formats.decoder import Decoded
from frazil.model.change_events import ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.schemas import SchemaFinding
from frazil.records import binary
from tests.fakes.connect_samples import Schema, avro_payload, avro_schema, json_record, json_value
from tests.fakes.debezium_samples import (
    FLATTENED,
    HEARTBEAT,
    MYSQL,
    POSTGRES,
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
    by_format = (map_avro(parse_schema(avro_schema(MYSQL)), asked), map_json(embedded(MYSQL), asked))

    for mapped in by_format:
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
        }
        assert (mapped.findings, mapped.record) == ((), "crm.crm.customers.Envelope")


def test_heartbeats_and_flattened_rows_have_no_columns() -> None:
    heartbeat = map_avro(parse_schema(avro_schema(HEARTBEAT)), ChangeEvents())
    flattened = map_avro(parse_schema(avro_schema(FLATTENED)), ChangeEvents())

    assert (heartbeat.columns, heartbeat.findings) == ((), ())
    assert (flattened.columns, flattened.findings) == ((), ())


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
