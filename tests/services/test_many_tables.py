"""Many tables in one process, where tables begin, and tables that others made."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from breadth import Place, Table, catch_up, encode, record_of
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import (
    BadRecordLimitError,
    ForeignTableError,
    IncompatibleSchemaError,
    SpecError,
    TopicMissingError,
)
from frazil.model.progress import ForeignChanges

SCHEMA = record_of(("n", "long"))
BY_N = "identity: [n]\norder_by: kafka_timestamp\non_tombstone: skip"


def numbers(place: Place, topic: str, *given: int) -> list[bytes]:
    return encode(SCHEMA, place.register(f"{topic}-value", SCHEMA), *({"n": n} for n in given))


def test_a_table_that_fails_holds_up_no_other(place: Place) -> None:
    good, poisoned, unsafe = (place.topic(suffix) for suffix in ("a", "b", "c"))
    for topic in (good, poisoned, unsafe):
        place.send(topic, *numbers(place, topic, *range(10)), key=b"k")
    place.send(good, *numbers(place, good, 0, 1), key=b"k")
    place.send(poisoned, *[b"bad"] * 10)
    place.register(f"{unsafe}-value", record_of(("n", "string")))
    tables = [
        f"topic: {good}",
        f"topic: {place.name}nowhere\nsubject: {{name: {good}-value}}",
        f"topic: {poisoned}\nbad_record_limit: {{share: 1%, at_least: 1}}",
        f"topic: {unsafe}",
        f"topic: {good}\ntable: again\ntrigger: {{rows: 3}}",
        f"topic: {good}\ntable: newest\ntrigger: {{rows: 6}}\nwrite: upsert\n{BY_N}",
        f"topic: {good}\ntable: first\ntrigger: {{rows: 6}}\nwrite: deduplicate\nidentity: [n]",
        f"topic: {good}\ntable: versions\ntrigger: {{rows: 6}}\nwrite: history",
    ]
    runs = place.runs(*tables)

    reports = run_once(runs, _Impatient())

    assert [type(report.failure) for report in reports] == [
        type(None), TopicMissingError, BadRecordLimitError, IncompatibleSchemaError, *[type(None)] * 4,
    ]  # fmt: skip
    assert [(report.batches, report.rows) for report in reports] == [
        (1, 12), (0, 0), (0, 0), (0, 0), (4, 12), (2, 12), (2, 10), (2, 12),
    ]  # fmt: skip
    assert [row["n"] for row in Table(runs[4]).rows()] == [*range(10), 0, 1]
    for keyed in runs[5:7]:
        assert sorted(row["n"] for row in Table(keyed).rows()) == list(range(10))
    assert [(row["n"], row["is_current"]) for row in Table(runs[7]).rows()] == [(n, False) for n in (*range(10), 0)] + [
        (1, True)
    ]


class _Impatient(Stopping):
    """Does not wait between attempts."""

    def sleep(self, seconds: float) -> bool:
        del seconds
        return False


def test_a_run_stops_after_the_batch_that_is_on_its_way(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *numbers(place, topic, *range(9)))
    stopping = Stopping()
    (run,) = place.runs(f"topic: {topic}\ntrigger: {{rows: 3}}", on_receipt=lambda _: stopping.stop())

    (report,) = run_once([run], stopping)

    assert (report.batches, report.rows, report.failure) == (1, 3, None)


# --- where a table begins -------------------------------------------------------------------------------------------


def test_a_table_may_begin_at_the_end_and_reads_what_comes_after(place: Place) -> None:
    topic = place.topic(partitions=2)
    place.send(topic, *numbers(place, topic, 1, 2))
    run = place.run(f"topic: {topic}\nstart: latest")
    assert catch_up(run) == []
    place.send(topic, *numbers(place, topic, 3), partition=1)
    place.send(topic, *numbers(place, topic, 4))

    table = place.materialize(f"topic: {topic}\nstart: latest")

    assert table.rows("n") == [{"n": 4}, {"n": 3}]
    assert table.state.sources[0].partitions[0].origin == 2


def test_a_table_may_begin_at_a_time(place: Place) -> None:
    topic = place.topic(partitions=2)
    day = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    for n in range(4):
        place.send(topic, *numbers(place, topic, n), timestamp=day + n)
    place.send(topic, *numbers(place, topic, 9), partition=1, timestamp=day - 1)

    table = place.materialize(f"topic: {topic}\nstart: {{timestamp: 2026-01-01T00:00:00.002Z}}")

    assert table.rows("n") == [{"n": 2}, {"n": 3}]
    assert table.state.sources[0].partitions[1].origin == 1


def test_a_table_may_begin_at_offsets_and_other_partitions_at_their_earliest(place: Place) -> None:
    topic = place.topic(partitions=2)
    place.send(topic, *numbers(place, topic, 0, 1, 2))
    place.send(topic, *numbers(place, topic, 7), partition=1)

    table = place.materialize(f"topic: {topic}\nstart: {{offsets: {{0: 2}}}}")

    assert table.rows("n") == [{"n": 2}, {"n": 7}]


def test_an_offset_that_the_topic_does_not_have_is_refused_and_no_table_is_made(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *numbers(place, topic, 0))
    run = place.run(f"topic: {topic}\nstart: {{offsets: {{0: 5}}}}")

    with pytest.raises(SpecError, match=f"names offset 5 of {topic}-0, which has the offsets 0 to 1"):
        run.batch()

    assert run.clients.lake.load(run.spec.identifier) is None


# --- tables of somebody else ----------------------------------------------------------------------------------------


def foreign(place: Place, spec: str, *fields: NestedField) -> None:
    settings = place.settings(spec)
    catalog = IcebergLake(settings.catalog).catalog
    catalog.create_namespace(place.name)
    catalog.create_table(settings.tables[0].identifier, Schema(*fields))


def test_a_table_of_somebody_else_is_adopted_with_its_rows(place: Place) -> None:
    topic = place.topic()
    spec = f"topic: {topic}"
    place.send(topic, *numbers(place, topic, 1, 2))
    foreign(place, spec, NestedField(1, "theirs", StringType()), NestedField(2, "n", LongType()))
    with pytest.raises(ForeignTableError):
        place.run(spec).batch()
    view = place.run(spec).clients.lake.load(place.settings(spec).tables[0].identifier)
    assert view is not None
    view.current.append(pa.table({"theirs": pa.array(["old"], pa.string()), "n": pa.array([0], pa.int64())}))

    table = place.materialize(spec, adopt=True)

    found = sorted(table.arrow().to_pylist(), key=lambda row: row["n"])
    assert [(row["n"], row["theirs"], row["kafka_offset"]) for row in found] == [
        (0, "old", None),
        (1, None, 0),
        (2, None, 1),
    ]
    assert table.state.foreign == ForeignChanges(1, 1, 0, table.state.foreign.names, unsourced_added=1)
    place.send(topic, *numbers(place, topic, 3))
    assert len(place.materialize(spec).arrow()) == 4


def test_a_table_of_somebody_else_that_does_not_fit_stays_untouched(place: Place) -> None:
    topic = place.topic()
    spec = f"topic: {topic}"
    place.send(topic, *numbers(place, topic, 1))
    foreign(place, spec, NestedField(1, "n", StringType()))
    run = place.run(spec, adopt=True)

    with pytest.raises(IncompatibleSchemaError, match="n: is long in the writer's schema, the table has string"):
        run.batch()

    view = run.clients.lake.load(run.spec.identifier)
    assert view is not None
    assert (view.head, run.clients.lake.load(run.spec.dead_letters_identifier)) == (None, None)
