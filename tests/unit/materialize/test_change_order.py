"""`cdc_order: source`: the position in the database's log says which change of a key is the newest."""

from __future__ import annotations

import struct as binary
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from change_streams import ChangeStream
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ordered_changelogs import Partitions

from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.remember import note_on_deletes
from frazil.materialize.state import standing
from frazil.model.change_events import POSITIONS, ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError, UnsupportedChangeError
from frazil.model.progress import Counts
from tests.fakes.connect_samples import INT, LONG, STRING, Schema, avro_payload, optional, struct
from tests.fakes.debezium_samples import (
    MONGODB,
    MYSQL,
    POSTGRES,
    UNAVAILABLE,
    Event,
    envelope,
    mongodb,
    mysql,
    order,
    postgres,
)
from tests.sampling import examples


@dataclass
class SourceOrdered(ChangeStream):
    """Changes in two partitions, or more, that the source's position orders."""

    @classmethod
    def of(
        cls, folder: Path, connector: str = "postgresql", *, schema: Schema = POSTGRES, soft: bool = False
    ) -> SourceOrdered:
        made = cls.at(folder, ChangeEvents(connector=connector, soft_deletes=soft), on_tombstone="skip")
        assert isinstance(made, cls)
        made.world = Partitions(made.world.lake, made.world.registry)
        made.register("value", schema)
        return made

    @property
    def partitions(self) -> Partitions:
        assert isinstance(self.world, Partitions)
        return self.world

    def put(self, key: int, event: Event | None, *, partition: int = 0, schema: Schema = POSTGRES) -> None:
        value = None if event is None else self._in_avro("value", schema, event)
        self.partitions.records[partition].append((self._in_avro("key", self.keys, {"id": key}), value, 1_000))

    def _in_avro(self, part: str, schema: Schema, value: Any) -> bytes:
        return binary.pack(">bI", 0, self.register(part, schema)) + avro_payload(schema, value)


def test_schemas_in_records_order_by_the_position_too(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(connector="postgresql"), form="json", on_tombstone="skip")
    for lsn in (2, 1):
        stream.send(1, postgres("u", after=order(1), lsn=lsn))
        stream.catch_up()

    assert stream.rows("__position_lsn", "kafka_offset") == [(2, 0)]
    assert stream.verified().counts == Counts(read=2, rows=1, duplicates=1)


@pytest.fixture
def stream(tmp_path: Path) -> SourceOrdered:
    return SourceOrdered.of(tmp_path)


def test_the_greatest_position_is_the_row_whenever_it_comes(stream: SourceOrdered) -> None:
    stream.put(1, postgres("u", after=order(1, notes="newest"), lsn=30))
    stream.put(1, postgres("u", after=order(1, notes="same batch"), lsn=20), partition=1)
    stream.put(2, postgres("c", after=order(2, notes="old"), lsn=5))
    stream.catch_up()
    stream.put(1, postgres("c", after=order(1, notes="late"), lsn=10), partition=1)
    stream.put(2, postgres("u", after=order(2, notes="new"), lsn=6), partition=1)
    stream.catch_up()

    assert stream.rows("id", "notes", "__position_lsn") == [(1, "newest", 30), (2, "new", 6)]
    assert stream.verified().counts == Counts(read=5, rows=4, duplicates=1)


def test_changes_that_a_connector_writes_again_change_nothing_of_what_followed_them(stream: SourceOrdered) -> None:
    for _ in range(2):
        stream.put(1, postgres("c", after=order(1, notes="first"), lsn=1))
        stream.put(1, postgres("u", after=order(1, notes="second"), lsn=2))
        stream.catch_up()

    assert stream.rows("notes", "kafka_offset") == [("second", 3)]
    assert stream.verified().counts == Counts(read=4, rows=3, duplicates=1)


def test_a_change_that_is_older_than_a_delete_does_not_bring_its_key_back(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1), lsn=1))
    stream.put(1, postgres("d", before=order(1), lsn=7))
    stream.put(1, None)
    stream.catch_up()
    stream.put(1, postgres("u", after=order(1), lsn=6), partition=1)
    stream.put(1, postgres("d", before=order(1), lsn=5), partition=1)
    stream.catch_up()

    assert stream.rows("id") == []
    assert stream.verified().counts == Counts(read=5, rows=1, deletes=1, duplicates=2, skipped=1)
    remembered = standing(stream.view, pipeline=stream.spec.pipeline).state.remembered
    assert remembered is not None and remembered.count == 1
    assert "deletes are remembered for 7 days" in (note_on_deletes(stream.spec) or "")
    stream.put(1, postgres("c", after=order(1, notes="again"), lsn=8), partition=1)
    stream.catch_up()
    assert stream.rows("notes") == [("again",)]
    stream.verified()


def test_a_delete_is_remembered_though_an_update_that_has_no_row_to_keep_follows_it(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1), lsn=1))
    stream.put(1, postgres("d", before=order(1), lsn=5))
    stream.put(1, postgres("u", lsn=7))
    stream.catch_up()
    stream.put(1, postgres("u", after=order(1), lsn=4), partition=1)
    stream.catch_up()

    assert stream.rows("id") == []
    assert stream.verified().counts == Counts(read=4, rows=1, deletes=1, duplicates=1, skipped=1)


def test_partitions_may_be_added(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1, notes="before"), lsn=1))
    stream.catch_up()
    stream.partitions.records[2] = []
    stream.put(1, postgres("u", after=order(1, notes="moved"), lsn=2), partition=2)
    stream.catch_up()

    assert stream.rows("notes", "kafka_partition") == [("moved", 2)]
    stream.verified()


@pytest.mark.parametrize(
    ("connector", "schema", "events"),
    [
        ("mysql", MYSQL, [mysql(op, after={"id": 1, "email": op}, pos=pos) for op, pos in (("u", 900), ("c", 4))]),
        ("mongodb", MONGODB, [mongodb("u", after="{}"), mongodb("c", after="[]")]),
    ],
)
def test_connectors_have_positions_of_their_own(
    tmp_path: Path, connector: str, schema: Schema, events: list[Event]
) -> None:
    stream = SourceOrdered.of(tmp_path, connector, schema=schema)
    newest, late = events
    newest["source"] |= {"file": "bin.000010", "ord": 9}
    late["source"] |= {"file": "bin.000009", "ord": 8, "pos": 999}
    for each in (newest, late):
        given = {**each, "source": {k: v for k, v in each["source"].items() if k in _fields(schema)}}
        stream.put(1, given, schema=schema)
        stream.catch_up()

    assert stream.rows("__op", "kafka_offset") == [("u", 0)]
    ((*position,),) = stream.rows(*POSITIONS[connector])
    assert position == ([10, 900, 0] if connector == "mysql" else [newest["source"]["ts_ms"], 9])
    assert stream.verified().counts == Counts(read=2, rows=1, duplicates=1)


LSNS = {"commit_lsn": optional(STRING), "change_lsn": optional(STRING), "event_serial_no": optional(LONG)}


def test_positions_of_sql_server_are_five_columns(tmp_path: Path) -> None:
    source = struct("io.debezium.connector.sqlserver.Source", connector=STRING, ts_ms=LONG, **LSNS)
    schema = envelope("s.dbo.orders", struct("s.dbo.orders.Value", id=INT, notes=optional(STRING)), source)
    stream = SourceOrdered.of(tmp_path, "sqlserver", schema=schema)
    for serial, change, notes in ((2, "00000027:00000758:0003", "x"), (1, "00000027:00000758:0004", "newest")):
        lsn = {"commit_lsn": "00000027:00000758:0005", "change_lsn": change, "event_serial_no": serial}
        about = {"source": {"connector": "sqlserver", "ts_ms": 1, **lsn}, "transaction": None}
        stream.put(1, {"op": "u", "before": None, "after": {"id": 1, "notes": notes}, **about}, schema=schema)
        stream.catch_up()

    commit, first = 0x0758_0005, 0x27
    assert stream.rows("notes", *POSITIONS["sqlserver"]) == [("newest", first, commit, first, 0x0758_0004, 1)]
    stream.verified()


def test_a_change_without_a_position_is_a_dead_letter(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1, notes="x"), lsn=3))
    stream.put(1, postgres("u", after=order(1), lsn=cast(int, None)))
    stream.put(1, postgres("d", before=order(1), lsn=cast(int, None)))
    other = postgres("u", after=order(1), lsn=9)
    stream.put(1, {**other, "source": {**other["source"], "connector": "yugabytedb"}})
    stream.put(1, postgres("r", after=order(1, notes="of a snapshot"), lsn=cast(int, None)))
    stream.catch_up()

    reasons = [Reason.NULL_ORDER, Reason.NULL_ORDER, Reason.BAD_FORMAT]
    assert stream.letters() == [(n, reason.value) for n, reason in enumerate(reasons, start=1)]
    assert stream.rows("notes") == [("x",)]
    assert stream.verified().counts == Counts(read=5, rows=2, dead_letters=3)


def test_a_truncate_pauses_the_table(stream: SourceOrdered) -> None:
    del stream.partitions.records[1]
    stream.put(1, postgres("c", after=order(1), lsn=3))
    stream.catch_up()
    stream.put(1, postgres("t", lsn=4))

    with pytest.raises(UnsupportedChangeError, match="with cdc_order: source"):
        stream.catch_up()

    assert pause_of(stream.view.properties) is not None
    assert stream.rows("id") == [(1,)]


def test_a_topic_of_another_connector_is_refused(tmp_path: Path) -> None:
    stream = SourceOrdered.of(tmp_path, "mysql")
    stream.put(1, postgres("c", after=order(1)))

    with pytest.raises(IncompatibleSchemaError, match=r"no field source\.file"):
        stream.catch_up()


def test_soft_deletes_are_ordered_too(tmp_path: Path) -> None:
    stream = SourceOrdered.of(tmp_path, soft=True)
    stream.put(1, postgres("c", after=order(1, notes="x"), lsn=1))
    stream.put(1, postgres("d", before=order(1), lsn=3))
    stream.catch_up()
    stream.put(1, postgres("u", after=order(1, notes="late"), lsn=2), partition=1)
    stream.catch_up()

    assert stream.rows("notes", "__deleted", "__position_lsn") == [("x", True, 3)]
    assert stream.verified().counts == Counts(read=3, rows=2, duplicates=1)
    assert note_on_deletes(stream.spec) is None


def test_unavailable_values_are_those_of_the_position_before(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1, notes="stored"), lsn=1))
    stream.catch_up()
    stream.put(1, postgres("u", after=order(1, **UNAVAILABLE), lsn=9))
    stream.put(1, postgres("u", after=order(1, notes="between"), lsn=5), partition=1)
    stream.catch_up()

    assert stream.rows("notes", "__position_lsn") == [("between", 9)]
    stream.verified()


def test_a_column_of_the_position_that_another_tool_dropped_pauses_the_table(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1), lsn=1))
    stream.catch_up()
    with stream.view.current.update_schema() as update:
        update.delete_column("__position_lsn")
    stream.put(1, postgres("u", after=order(1), lsn=2))

    with pytest.raises(IncompatibleSchemaError, match="__position_lsn: was dropped by another tool"):
        stream.catch_up()


EVENTS = st.tuples(st.integers(1, 2), st.sampled_from("cud"), st.integers(1, 6), st.integers(0, 1), st.integers(0, 9))
"""A key, an operation, a position, a partition and a value."""
Sent = tuple[int, str, int, int, int]


@settings(max_examples=examples(4, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([[(1, "d", 5, 0, 0)], [(1, "u", 4, 1, 1)], [(1, "c", 6, 1, 2)]])
@given(st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=4))
def test_any_changes_in_any_order_are_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Sent]]
) -> None:
    stream = SourceOrdered.of(tmp_path_factory.mktemp("lake"))
    newest, counts = dict[int, tuple[tuple[int, int, int], str | None]](), Counts()
    for batch in batches:
        before = dict(newest)
        for key, op, lsn, partition, value in batch:
            at = (lsn, partition, len(stream.partitions.records[partition]))
            image = {"before": order(key)} if op == "d" else {"after": order(key, notes=str(value))}
            stream.put(key, postgres(op, lsn=lsn, **image), partition=partition)
            late = key in before and at < before[key][0]
            one = Counts(duplicates=1) if late else Counts(deletes=1) if op == "d" else Counts(rows=1)
            counts += Counts(read=1) + one
            if key not in newest or at > newest[key][0]:
                newest[key] = (at, None if op == "d" else str(value))
        stream.catch_up()

        live = {key: notes for key, (_, notes) in newest.items() if notes is not None}
        assert stream.rows("id", "notes") == sorted(live.items())
        assert stream.verified().counts == counts


def _fields(schema: Schema) -> set[str]:
    fields: list[dict[str, Any]] = schema["fields"]
    (source,) = (each for each in fields if each["field"] == "source")
    return {each["field"] for each in source["fields"]}


def test_the_order_and_the_connector_are_those_of_the_table(stream: SourceOrdered) -> None:
    stream.put(1, postgres("c", after=order(1)))
    stream.catch_up()
    events = ChangeEvents()
    stream.spec = replace(stream.spec, value_settings=replace(stream.spec.value_settings, change_events=events))

    found = stream.world.check(stream.spec)

    assert ["cdc_order" in each.what for each in found] == [True]
    assert all("frazil rebuild" in each.hint for each in found)
