"""`cdc: debezium`: whole batches of change events become the present state of a database's table."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from change_streams import ChangeStream
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from whole_batches import World, drained

from frazil.formats.connect_json import embedded
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import standing
from frazil.model.change_events import ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError, PausedError, SpecError, UnsupportedChangeError
from frazil.model.ingested import IngestTask, TaskResult
from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.progress import Counts
from tests.fakes.connect_samples import STRING, Schema, optional, struct
from tests.fakes.debezium_samples import (
    FLATTENED,
    HEARTBEAT,
    MONGODB,
    ORDER,
    POSTGRES,
    POSTGRES_SOURCE,
    SCHEMA_CHANGE,
    TRANSACTION_END,
    UNAVAILABLE,
    Event,
    envelope,
    mongodb,
    mysql,
    order,
    postgres,
)
from tests.sampling import examples


@pytest.fixture(params=["avro", "json", "json_schema"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stream(tmp_path: Path, form: str) -> ChangeStream:
    return ChangeStream.at(tmp_path, form=form)


def test_a_snapshot_and_what_follows_it_are_the_present_state(stream: ChangeStream) -> None:
    for key in (1, 2, 3):
        stream.send(key, postgres("r", after=order(key, notes="snapshot")))
    stream.send(1, postgres("r", after=order(1, notes="snapshot again")))
    stream.catch_up()
    stream.send(2, postgres("u", after=order(2, notes="changed")))
    stream.send(3, postgres("d", before=order(3)))
    stream.send(3, None)
    stream.send(4, postgres("c", after=order(4)))
    stream.catch_up()

    assert stream.rows("id", "notes", "__op") == [
        (1, "snapshot again", "r"),
        (2, "changed", "u"),
        (4, None, "c"),
    ]
    assert stream.verified().counts == Counts(read=8, rows=6, deletes=2)


def test_the_columns_are_those_of_the_row_with_the_types_of_the_database(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1, day=19_675)))
    stream.catch_up()

    ((placed, day, at),) = stream.rows("placed", "day", "__source_ts")
    assert placed == dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
    assert (day, at) == (dt.date(2023, 11, 14), placed.replace(tzinfo=dt.UTC))
    names = [column.name for column in stream.view.columns if column.name in {*ORDER, "__op", "__source_ts"}]
    assert names == [*ORDER, "__op", "__source_ts"]


def test_a_changed_primary_key_is_a_delete_and_a_row(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    stream.send(1, postgres("d", before=order(1)))
    stream.send(1, None)
    stream.send(9, postgres("c", after=order(9)))
    stream.catch_up()

    assert stream.rows("id") == [(9,)]
    stream.verified()


def test_other_records_of_a_connector_are_skipped_and_counted(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.send(None, {"ts_ms": 1}, HEARTBEAT)
    stream.send(None, {"status": "END", "id": "1", "ts_ms": 1}, TRANSACTION_END)
    source = mysql("m")["source"]
    stream.send(None, {"source": source, "ts_ms": 1, "tableChanges": []}, SCHEMA_CHANGE)
    stream.send(None, postgres("m"))
    stream.catch_up()

    assert stream.rows("id") == [(1,)]
    verification = stream.verified()
    assert verification.counts == Counts(read=5, rows=1, skipped=4)
    reasons = standing(stream.view, pipeline=stream.spec.pipeline).state.skipped_by_reason
    assert dict(reasons) == {"heartbeat": 1, "message": 1, "schema_change": 1, "transaction": 1}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("name", "key", "value", "schema"),
    [
        ("common.ServerNameKey", "serverName", {"ts_ms": 1}, HEARTBEAT),
        ("common.TransactionMetadataKey", "id", {"status": "END", "id": "1", "ts_ms": 1}, TRANSACTION_END),
        ("mysql.SchemaChangeKey", "databaseName", {"ts_ms": 1, "tableChanges": []}, SCHEMA_CHANGE),
    ],
)
def test_other_records_are_skipped_with_the_keys_that_connectors_give_them(
    stream: ChangeStream, name: str, key: str, value: Event, schema: Schema, *, is_first: bool
) -> None:
    if not is_first:
        stream.send(2, postgres("c", after=order(2)))
    if schema is SCHEMA_CHANGE:
        value = {**value, "source": mysql("m")["source"]}
    own, stream.keys = stream.keys, struct(f"io.debezium.connector.{name}", **{key: STRING})
    stream.send({key: "crm"}, value, schema)
    stream.send({key: "crm"}, postgres("c", after=order(9)))
    stream.keys = own
    stream.register("value", POSTGRES)
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()

    assert stream.rows("id") == [(1,)] if is_first else [(1,), (2,)]
    assert [reason for _, reason in stream.letters()] == [Reason.BAD_KEY.value]
    assert stream.verified().counts.skipped == 1


def test_what_is_no_change_is_a_dead_letter(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.send(1, postgres("x", after=order(1)))
    stream.send(1, postgres("c"))
    stream.send(1, order(1), FLATTENED)
    stream.send(None, postgres("c", after=order(2)))
    stream.send(None, postgres("d", before=order(2)))
    stream.send(1, postgres("u", after=order(1, ref="no uuid")))
    stream.catch_up()

    assert stream.letters() == [
        (1, Reason.UNKNOWN_OPERATION.value),
        (2, Reason.MISSING_AFTER.value),
        (3, Reason.NOT_AN_ENVELOPE.value),
        (4, Reason.NULL_IDENTITY.value),
        (5, Reason.NULL_IDENTITY.value),
        (6, Reason.BAD_FORMAT.value),
    ]
    assert stream.rows("id", "kafka_offset") == [(1, 0)]
    stream.verified()


def test_a_new_column_of_the_database_becomes_one_of_the_table(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    wider = envelope(
        "shop.public.orders", struct("shop.public.orders.Value", **ORDER, phone=optional(STRING)), POSTGRES_SOURCE
    )
    stream.send(2, postgres("c", after=order(2, phone="1")), wider)
    stream.send(1, postgres("u", after=order(1)), POSTGRES)
    changes = stream.catch_up()

    assert [each for each in changes if "phone" in each] == changes
    assert stream.rows("id", "phone") == [(1, None), (2, "1")]
    stream.verified()


def test_no_table_is_made_for_records_that_are_no_change_events(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path)
    stream.register("value", FLATTENED)

    with pytest.raises(IncompatibleSchemaError, match="not a change event of Debezium"):
        stream.catch_up()
    (problem,) = stream.world.check(stream.spec)
    assert "lacks the fields op and after" in problem.what


def test_a_schema_in_a_record_that_utf_8_cannot_hold_pauses_the_table(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, form="json")
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    stream.send(2, postgres("c", after=order(2)))
    stream.world.values[-1] = stream.world.values[-1].replace(b'"field":"notes"', b'"field":"\\ud800"')

    with pytest.raises(IncompatibleSchemaError, match="surrogates not allowed"):
        stream.catch_up()


def test_a_source_time_of_another_type_is_none(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, form="json")
    stream.send(1, postgres("c", after=order(1)))
    event = json.loads(stream.world.values[-1])
    (source,) = (each for each in event["schema"]["fields"] if each["field"] == "source")
    source["fields"] = [{"field": "ts_ms", "type": "string"}]
    event["payload"]["source"] = {"ts_ms": "soon"}
    stream.world.values[-1] = json.dumps(event, separators=(",", ":")).encode()

    stream.catch_up()

    assert stream.rows("id", "__source_ts") == [(1, None)]
    assert stream.verified().counts == Counts(read=1, rows=1)


def test_a_table_is_made_while_the_newest_schema_is_that_of_a_heartbeat(tmp_path: Path) -> None:
    """The first batch brings the columns of the rows."""
    stream = ChangeStream.at(tmp_path)
    stream.send(1, postgres("c", after=order(1)))
    stream.register("value", HEARTBEAT)
    assert stream.world.check(stream.spec) == []

    stream.catch_up()

    assert stream.rows("id", "__op") == [(1, "c")]
    stream.verified()


def test_the_first_batch_brings_the_columns_that_partitions_and_orders_name(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, form="json")
    stream.send(1, postgres("r", after=order(1, notes="a")))
    named = replace(stream.spec, partition_by=("notes",), sort_by=("placed",))

    with pytest.raises(SpecError) as refused:
        drained(stream.world, named)

    assert refused.value.hint == (
        "the first batch brings the columns of the values: remove `partition_by` until it has been read"
    )
    stream.catch_up()
    stream.send(2, postgres("r", after=order(2, notes="b")))
    drained(stream.world, named)
    assert stream.rows("id", "notes") == [(1, "a"), (2, "b")]
    assert sorted(task.file.partition[0] for task in stream.view.current.scan().plan_files() if task.file.spec_id) == [
        "b"
    ]


def test_policies_name_the_columns_of_the_row(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path)
    policies = Policies(columns=(("notes", Policy("redact")),))
    stream.spec = policed(stream.spec, policies, hash_key=None, dead_letter_key=None)
    stream.send(1, postgres("c", after=order(1, notes="x")))
    stream.send(2, postgres("u", before=order(2, notes="y"), after=order(2, notes="z")))
    stream.catch_up()

    assert stream.rows("notes") == [("[redacted]",), ("[redacted]",)]


@pytest.mark.parametrize("form", ["avro", "json_schema"])
def test_mongodb_has_a_column_of_documents(tmp_path: Path, form: str) -> None:
    stream = ChangeStream.at(tmp_path, form=form)
    stream.register("value", MONGODB)
    stream.send(1, mongodb("c", after='{"a": 1}'), MONGODB)
    stream.send(2, mongodb("r", after='{"b": 2}'), MONGODB)
    stream.send(2, mongodb("d"), MONGODB)
    stream.catch_up()

    assert stream.rows("document", "__op") == [('{"a": 1}', "c")]
    stream.verified()


def test_schemas_in_records_reach_the_driver_and_processes_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ChangeStream.at(tmp_path, form="json")
    run = World.run

    def in_another_process(world: World, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        results = run(world, tasks, name=name)
        embedded._met.clear()
        return results

    monkeypatch.setattr(World, "run", in_another_process)
    for key, notes in ((1, "x"), (2, "y"), (1, "z")):
        stream.send(key, postgres("c", after=order(key, notes=notes)))
        stream.catch_up()

    assert stream.rows("id", "notes") == [(1, "z"), (2, "y")]
    stream.verified()


def test_records_without_a_schema_are_dead_letters(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, form="json")
    stream.send(1, postgres("c", after=order(1)))
    stream.send(1, postgres("c", after=order(1)))
    stream.world.values[1] = b'{"op": "c"}'
    stream.send(2, postgres("c", after=order(2)))
    stream.world.keys[2] = b"2"
    stream.catch_up()

    assert stream.letters() == [(1, Reason.NOT_FRAMED.value), (2, Reason.BAD_KEY.value)]
    assert stream.rows("id", "kafka_offset") == [(1, 0)]
    stream.verified()


@pytest.mark.parametrize("records", [0, 1])
def test_a_table_that_has_no_row_yet_is_compared_with_kafka(tmp_path: Path, records: int) -> None:
    """Its columns come with the first row: those of the positions, too."""
    stream = ChangeStream.at(tmp_path, ChangeEvents(connector="postgresql"), form="json", on_tombstone="skip")
    stream.world.values = [b'{"op": "c"}'] * records
    stream.world.keys = dict.fromkeys(range(records), b"1")
    stream.catch_up()

    assert len(stream.letters()) == records
    stream.verified()


def test_further_fields_of_the_envelope_are_kept(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(kept=("source.lsn",)))
    stream.send(1, postgres("c", after=order(1), lsn=7))
    stream.catch_up()

    assert stream.rows("__source_lsn") == [(7,)]


def test_a_truncate_takes_out_all_earlier_rows(stream: ChangeStream) -> None:
    for key in (1, 2, 3):
        stream.send(key, postgres("c", after=order(key, notes="x")))
    stream.catch_up()
    stream.send(1, postgres("u", after=order(1)))
    stream.catch_up()
    stream.send(4, postgres("c", after=order(4)))
    stream.send(None, postgres("t"))
    stream.send(2, postgres("u"))
    stream.send(3, postgres("c", after=order(3, notes="again")))
    stream.catch_up()

    assert stream.rows("id", "notes") == [(3, "again")]
    assert stream.verified().counts == Counts(read=8, rows=6, deletes=1, skipped=1)
    stream.send(3, postgres("u", after=order(3, **UNAVAILABLE)))
    stream.catch_up()
    assert stream.rows("id", "notes") == [(3, "again")]
    stream.verified()


@pytest.mark.parametrize("act", ["delete", "insert", "copy"])
def test_a_truncate_takes_out_what_others_have_left(stream: ChangeStream, act: str) -> None:
    for key in (1, 2):
        stream.send(key, postgres("c", after=order(key)))
    stream.catch_up()
    loaded = stream.world.lake.catalog.load_table(stream.spec.identifier)
    match act:
        case "delete":
            loaded.delete(EqualTo("id", 1))
        case "insert":
            loaded.append(pa.table({"id": pa.array([7], pa.int32())}))
        case _:
            loaded.append(loaded.scan().to_arrow())
    stream.send(3, postgres("c", after=order(3)))
    stream.send(None, postgres("t"))
    stream.send(4, postgres("c", after=order(4)))
    stream.catch_up()

    assert stream.rows("id") == [(4,)]
    assert stream.verified().counts == Counts(read=5, rows=4, deletes=1)


def test_a_truncate_of_soft_deletes_pauses_the_table_and_loses_nothing(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.send(1, postgres("c", after=order(1, notes="x")))
    stream.catch_up()
    stream.send(None, postgres("t"))

    with pytest.raises(UnsupportedChangeError, match="at offset 1 is a truncate"):
        stream.catch_up()
    with pytest.raises(PausedError):
        stream.catch_up()

    assert pause_of(stream.view.properties) is not None
    assert stream.rows("id", "notes") == [(1, "x")]


def test_values_that_are_unavailable_stay_as_they_are_stored(stream: ChangeStream) -> None:
    first = order(1, notes="x", photo=b"y", tags=["z"], counts=[4], day=1)
    stream.send(1, postgres("c", after=first))
    stream.catch_up()
    stream.send(1, postgres("u", after=order(1, **UNAVAILABLE, day=2)))
    stream.catch_up()

    assert stream.rows("notes", "photo", "tags", "counts", "day", "kafka_offset", "__op") == [
        ("x", b"y", ["z"], [4], dt.date(1970, 1, 3), 1, "u")
    ]
    assert stream.verified().counts == Counts(read=2, rows=2)


def test_values_that_no_row_has_are_null_and_the_log_says_so(
    stream: ChangeStream, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed primary key is a delete and a create, which lacks what the update did not change."""
    stream.send(1, postgres("c", after=order(1, notes="x", tags=["z"])))
    stream.catch_up()
    assert "values_not_known" not in caplog.text
    stream.send(1, postgres("d", before=order(1)))
    stream.send(1, None)
    stream.send(2, postgres("c", after=order(2, **UNAVAILABLE)))
    stream.catch_up()

    assert stream.rows("id", "notes", "tags") == [(2, None, None)]
    (warned,) = [each for each in caplog.records if each.msg == "values_not_known"]
    assert warned.about == "1 event lacks values that no row had: they are null"  # type: ignore[attr-defined]


def test_an_update_without_the_row_keeps_it(stream: ChangeStream) -> None:
    stream.send(1, postgres("c", after=order(1, notes="a")))
    stream.catch_up()
    stream.send(1, postgres("u"))
    stream.send(2, postgres("u"))
    stream.catch_up()

    assert stream.rows("notes", "__op", "kafka_offset") == [("a", "u", 1)]
    assert stream.verified().counts == Counts(read=3, rows=2, skipped=1)


def test_soft_deletes_keep_the_row_and_mark_it(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    for key in (1, 2):
        stream.send(key, postgres("c", after=order(key, notes="stored", day=1)))
    stream.catch_up()
    stream.send(1, postgres("d", before=order(1)))
    stream.send(1, None)
    stream.send(2, postgres("d", before=order(2)))
    stream.send(2, postgres("c", after=order(2, notes="again")))
    stream.send(3, postgres("d", before=order(3, notes="only before")))
    stream.catch_up()

    assert stream.rows("id", "notes", "__op", "__deleted") == [
        (1, "stored", "d", True),
        (2, "again", "c", False),
        (3, "only before", "d", True),
    ]
    assert stream.verified().counts == Counts(read=7, rows=6, skipped=1)


def test_an_update_without_the_row_is_skipped_where_there_is_none_to_keep_with_soft_deletes_too(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.send(1, postgres("u"))
    stream.send(2, postgres("u"))
    stream.send(2, postgres("d", before=order(2, notes="x")))
    stream.send(2, postgres("u"))
    stream.catch_up()

    assert stream.rows("id", "notes", "__op", "__deleted") == [(2, "x", "u", False)]
    assert stream.verified().counts == Counts(read=4, rows=2, skipped=2)


EVENTS = st.tuples(
    st.integers(1, 2),
    st.sampled_from(["whole", "notes", "tags", "both", "keeps", "delete", "tombstone", "truncate"]),
    st.integers(0, 9),
)


@settings(max_examples=examples(5, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([[(1, "whole", 0), (1, "truncate", 0), (1, "keeps", 0), (1, "truncate", 0)]])
@given(st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=4))
def test_any_changes_in_any_batches_are_the_model(tmp_path: Path, batches: list[list[tuple[int, str, int]]]) -> None:
    stream, rows, counts = ChangeStream.at(tmp_path), dict[int, tuple[str | None, list[str] | None]](), Counts()
    for batch in batches:
        for key, kind, number in batch:
            counts += sent(stream, rows, key, kind, str(number))
        stream.catch_up()

        assert stream.rows("id", "notes", "tags") == [(key, *rows[key]) for key in sorted(rows)]
        assert stream.verified().counts == counts


def sent(
    stream: ChangeStream, rows: dict[int, tuple[str | None, list[str] | None]], key: int, kind: str, value: str
) -> Counts:
    """Send an event, and change the model: the notes and tags by key. Returns how the event is counted."""
    notes, tags = rows.get(key, (None, None))
    if kind in ("delete", "tombstone"):
        stream.send(key, postgres("d", before=order(key)) if kind == "delete" else None)
        rows.pop(key, None)
        return Counts(read=1, deletes=1)
    if kind == "truncate":
        stream.send(None, postgres("t"))
        rows.clear()
        return Counts(read=1, deletes=1)
    if kind == "keeps":
        stream.send(key, postgres("u"))
        return Counts(read=1, rows=1) if key in rows else Counts(read=1, skipped=1)
    given = {"notes": value, "tags": [value]} | {each: UNAVAILABLE[each] for each in LACKING[kind]}
    stream.send(key, postgres("u", after=order(key, **given)))
    rows[key] = (notes if "notes" in LACKING[kind] else value, tags if "tags" in LACKING[kind] else [value])
    return Counts(read=1, rows=1)


LACKING = {"whole": [], "notes": ["notes"], "tags": ["tags"], "both": ["notes", "tags"]}


def test_a_soft_delete_without_a_row_has_no_placeholder(tmp_path: Path) -> None:
    """Nothing is kept: the deleted row is what the event says."""
    stream = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.send(1, postgres("d", before=order(1, **UNAVAILABLE)))

    stream.catch_up()

    assert stream.rows("id", "notes", "photo", "tags", "__deleted") == [(1, None, None, None, True)]
    stream.verified()
