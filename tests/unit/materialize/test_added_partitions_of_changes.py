"""`cdc: debezium`: the topic of change events gets more partitions (docs/decisions/0036)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc
import pytest
from change_streams import ChangeStream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import Partitions
from rebuilt_tables import TopicsNow, rebuild, rewind
from test_change_events import EVENTS, sent

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.added_partitions import note_on_order
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.materialize.state import standing
from frazil.model.change_events import ChangeEvents
from frazil.model.errors import RebuildError, SourceChangedError, UnsupportedChangeError
from frazil.model.progress import Counts
from frazil.proof.verification import FindingKind
from tests.fakes.connect_samples import Schema, avro_payload
from tests.fakes.debezium_samples import POSTGRES, UNAVAILABLE, Event, order, postgres
from tests.sampling import examples


@dataclass
class GrowingStream(ChangeStream):
    """Changes in one partition, and in a second one that is added later. `send` writes each at a later time."""

    partition: int = 0
    time: int = 1_000

    @classmethod
    def of(cls, folder: Path, events: ChangeEvents | None = None, **changes: Any) -> GrowingStream:
        made = cls.at(folder, events, **changes)
        assert isinstance(made, cls)
        made.world = Partitions(made.world.lake, made.world.registry)
        made.register("value", POSTGRES)
        del made.partitions.records[1]
        return made

    @property
    def partitions(self) -> Partitions:
        assert isinstance(self.world, Partitions)
        return self.world

    def grow(self) -> None:
        self.partitions.records[1] = []

    def send(self, key: Any, event: Event | None, schema: Schema = POSTGRES) -> None:
        self.time += 1
        self.send_at(self.time, key, event, schema=schema)

    def send_at(self, time: int, key: Any, event: Event | None, *, schema: Schema = POSTGRES) -> None:
        value = None if event is None else self._in_avro("value", schema, event)
        framed = None if key is None else self._in_avro("key", self.keys, {"id": key})
        self.partitions.records[self.partition].append((framed, value, time))

    def _in_avro(self, part: str, schema: Schema, value: Any) -> bytes:
        return struct.pack(">bI", 0, self.register(part, schema)) + avro_payload(schema, value)


@pytest.fixture
def stream(tmp_path: Path) -> GrowingStream:
    return GrowingStream.of(tmp_path)


def test_a_change_in_an_added_partition_takes_values_from_the_row_of_the_former_one(stream: GrowingStream) -> None:
    stream.send(1, postgres("c", after=order(1, notes="x", photo=b"y", tags=["z"], counts=[4])))
    stream.send(2, postgres("c", after=order(2)))
    stream.catch_up()
    stream.grow()
    stream.send(1, postgres("u", after=order(1, notes="new", photo=b"y", tags=["z"], counts=[4])))
    stream.partition = 1
    stream.send(1, postgres("u", after=order(1, **UNAVAILABLE)))
    stream.send(2, postgres("d", before=order(2)))
    stream.send(2, None)
    stream.catch_up()

    assert stream.rows("id", "notes", "tags", "kafka_partition") == [(1, "new", ["z"], 1)]
    assert stream.verified().counts == Counts(read=6, rows=4, deletes=2)
    here = standing(stream.view, pipeline=stream.spec.pipeline)
    assert note_on_order(stream.spec, here) == (
        "since partitions were added, kafka_timestamp orders the records of a key"
    )


def test_a_change_that_comes_late_changes_nothing(stream: GrowingStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    stream.grow()
    stream.catch_up()
    stream.partition = 1
    stream.send_at(5_000, 1, postgres("u", after=order(1, notes="newest")))
    stream.send_at(5_000, 2, postgres("d", before=order(2)))
    stream.catch_up()
    stream.partition = 0
    stream.send_at(4_999, 1, postgres("u", after=order(1, notes="late")))
    stream.send_at(4_998, 2, postgres("c", after=order(2)))
    stream.catch_up()

    assert stream.rows("id", "notes") == [(1, "newest")]
    assert stream.verified().counts == Counts(read=5, rows=2, deletes=1, duplicates=2)


def test_soft_deletes_go_on_in_an_added_partition(tmp_path: Path) -> None:
    stream = GrowingStream.of(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.send(1, postgres("c", after=order(1, notes="stored")))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(1, postgres("d", before=order(1)))
    stream.send(1, None)
    stream.catch_up()

    assert stream.rows("id", "notes", "__deleted", "kafka_partition") == [(1, "stored", True, 1)]
    assert stream.verified().counts == Counts(read=3, rows=2, skipped=1)


@pytest.mark.parametrize("seen", [False, True], ids=["before it is seen", "after it is read"])
def test_a_truncate_pauses_the_table_once_a_partition_is_added(stream: GrowingStream, seen: bool) -> None:
    """The key that the truncate has deleted, in the added partition, would be a row."""
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(2, postgres("c", after=order(2)))
    if seen:
        stream.catch_up()
    stream.partition = 0
    stream.send(None, postgres("t"))

    with pytest.raises(UnsupportedChangeError, match="with 2 partitions, this release cannot apply it"):
        stream.catch_up()


def test_a_truncate_that_was_applied_before_a_partition_was_added_is_applied_again(stream: GrowingStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.send(None, postgres("t"))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(2, postgres("c", after=order(2)))
    stream.catch_up()
    before = stream.rows("id", "kafka_partition")

    rebuild(cast(Any, stream)).perform()

    assert stream.rows("id", "kafka_partition") == before == [(2, 1)]
    stream.verified()


def test_a_rewind_before_such_a_truncate_says_that_a_rebuild_applies_it(stream: GrowingStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.send(None, postgres("t"))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(2, postgres("c", after=order(2)))
    stream.catch_up()

    with pytest.raises(RebuildError, match="`frazil rebuild` applies it again"):
        rewind(cast(Any, stream), ToOffsets({"orders": {0: 0}})).perform()


def test_a_key_of_an_added_partition_that_is_lost_after_a_truncate_is_named(stream: GrowingStream) -> None:
    """Its record has a smaller offset than the truncate, in another partition."""
    stream.send(1, postgres("c", after=order(1)))
    stream.send(None, postgres("t"))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(2, postgres("c", after=order(2)))
    stream.catch_up()
    stream.verified()
    loaded = stream.world.lake.catalog.load_table(stream.spec.identifier)
    loaded.overwrite(loaded.scan().to_arrow().filter(pc.scalar(False)))

    notes = stream.verified().notes

    assert any(note.startswith("orders-1: missing: the row of 1 key") for note in notes), notes


def test_a_rebuild_has_the_same_order(stream: GrowingStream) -> None:
    stream.send_at(9_000, 1, postgres("c", after=order(1, notes="first")))
    stream.send_at(8_000, 1, postgres("u", after=order(1, notes="second, by its offset")))
    stream.send(2, postgres("c", after=order(2, notes="x", photo=b"y", tags=["z"], counts=[4])))
    stream.catch_up()
    stream.grow()
    stream.partition = 1
    stream.send(2, postgres("u", after=order(2, **UNAVAILABLE)))
    stream.send_at(7_000, 1, postgres("u", after=order(1, notes="late")))
    stream.catch_up()
    before = stream.rows("id", "notes")
    assert before == [(1, "second, by its offset"), (2, "x")]

    world, spec = stream.world, stream.spec
    clients = replace(world.table(spec).clients, topics=TopicsNow(world))  # type: ignore[arg-type]
    built = RebuildLake(world.lake, (spec.identifier, spec.dead_letters_identifier))
    Rebuild(spec, clients, built, "r1", wait=lambda _: None, clock=lambda: 0.0, report=lambda _: None).perform()

    assert stream.rows("id", "notes") == before
    stream.verified()


def test_a_table_without_timestamps_says_that_they_would_order_its_records(tmp_path: Path) -> None:
    stream = GrowingStream.of(tmp_path)
    kept = stream.spec.metadata
    without = replace(kept, keep=tuple(name for name in kept.keep if name != "timestamp"))
    stream.spec = replace(stream.spec, metadata=without)
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    stream.grow()

    with pytest.raises(SourceChangedError, match=r"1 partition more(.|\n)*add timestamp to metadata\.keep"):
        stream.catch_up()
    stream.spec = replace(stream.spec, metadata=kept)
    stream.partition = 1
    stream.send(1, postgres("u", after=order(1, notes="moved")))
    stream.catch_up()
    assert stream.rows("notes") == [("moved",)]


def test_kafka_names_a_stale_row_of_the_former_partition(stream: GrowingStream) -> None:
    stream.send(1, postgres("c", after=order(1)))
    stream.catch_up()
    before = stream.world.lake.catalog.load_table(stream.spec.identifier).scan().to_arrow()
    stream.grow()
    stream.partition = 1
    stream.send(1, postgres("u", after=order(1, notes="moved")))
    stream.catch_up()
    stream.world.lake.catalog.load_table(stream.spec.identifier).overwrite(before)

    kinds = [each.kind for each in stream.against_kafka().findings]

    assert FindingKind.STALE_ROW in kinds


@settings(max_examples=examples(3, 200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.lists(EVENTS, min_size=1, max_size=5), max_size=2),
    unread=st.lists(EVENTS, max_size=4),
    after=st.lists(st.lists(st.tuples(EVENTS, st.integers(0, 1)), min_size=1, max_size=5), max_size=3),
)
def test_any_changes_in_any_batches_are_the_model(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[list[tuple[int, str, int]]],
    unread: list[tuple[int, str, int]],
    after: list[list[tuple[tuple[int, str, int], int]]],
) -> None:
    stream = GrowingStream.of(tmp_path_factory.mktemp("lake"))
    rows, counts = dict[int, tuple[str | None, list[str] | None]](), Counts()
    for batch in before:
        for key, kind, number in batch:
            counts += sent(stream, rows, key, kind, str(number))
        stream.catch_up()
    for key, kind, number in unread:
        counts += sent(stream, rows, key, kind, str(number))
    if before:
        stream.grow()
    for round_, records in enumerate(after if before else ()):
        for (key, kind, number), partition in records:
            # what the former partition still gets before the new one is read would go before it, whatever its time
            stream.partition = 1 if round_ == 0 else partition
            if kind != "truncate":
                counts += sent(stream, rows, key, kind, str(number))
        stream.catch_up()
    stream.catch_up()

    assert stream.rows("id", "notes", "tags") == [(key, *rows[key]) for key in sorted(rows)]
    assert stream.verified().counts == counts
