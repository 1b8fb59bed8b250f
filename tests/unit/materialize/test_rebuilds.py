"""A table is read again from its topic, by another spec, while readers see it as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from changelogs import NAMES, SENT, Changelog, Sent
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from values_of_tables import NOW, SPEC
from whole_batches import LONG as LONG_RECORD
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.outcome import Again, Published
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.rebuild.perform import Rebuild, RebuildProgress
from frazil.materialize.rebuild.rewind import Target, ToEarliest, ToOffsets, ToTimestamp
from frazil.materialize.state import Standing, standing
from frazil.model.errors import (
    ContendedError,
    Misuse,
    RebuildError,
    RecordsLostError,
    SpecChangeError,
    StateLostError,
)
from frazil.model.ingested import DeletedRows
from frazil.model.plan import TopicFacts
from frazil.model.progress import Counts
from frazil.model.spec import BadRecordLimit, CatalogSettings, Start, StartOffsets, StartTimestamp, TableSpec, Trigger
from frazil.ports import Topics
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.duckdb_once import engine
from tests.sampling import LONG, examples, sampled

FIELDS = replace(SPEC.value_settings, fields=json.dumps({"n": "long"}))
BUCKET = "bucket(3, kafka_key)"
SPECS: dict[str, TableSpec] = {
    "append": replace(SPEC, write="append", value="json", on_tombstone="row"),
    "typed": replace(SPEC, write="append", value="json", on_tombstone="dead_letter", value_settings=FIELDS),
    "upsert": replace(SPEC, write="upsert", value="json", on_tombstone="delete", partition_by=(BUCKET,)),
    "deduplicate": replace(SPEC, write="deduplicate", value="json", on_tombstone="row", sort_by=("kafka_key",)),
    "history": replace(SPEC, write="history", value="json", on_tombstone="delete"),
}
SMALL = Trigger(SPEC.trigger.every, rows=3, bytes=1_000_000)
RECORDS: tuple[Sent, ...] = (("a", 1), ("b", 1), ("a", 2), (None, 3), ("c", 4), ("b", None), ("a", 2), ("d", 5))
NO_LIMIT = BadRecordLimit.off()


class KilledError(BaseException):
    """The process died."""


@dataclass(frozen=True)
class TopicsNow:
    """The topics of a world as they are when they are asked for (`ports.Topics`)."""

    world: World

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        """Offset 5 is the first one with a timestamp of any rewind."""
        return {0: 5} if isinstance(start, StartTimestamp) else self.world.topics.first_offsets(facts, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.topics, name)


def of_mode(name: str, changelog: Changelog) -> None:
    spec = SPECS[name]
    changelog.spec = replace(spec, table=changelog.spec.table, trigger=SMALL, bad_record_limit=NO_LIMIT)


def rebuild(changelog: Changelog, **more: Any) -> Rebuild:
    """A new process, for the changelog's present spec."""
    world, spec = changelog.world, changelog.spec
    built = RebuildLake(world.lake, (spec.identifier, spec.dead_letters_identifier))
    given = {"wait": lambda seconds: None, "clock": lambda: 0.0, "report": lambda progress: None, **more}
    clients = replace(world.table(spec).clients, topics=cast(Topics, TopicsNow(world)))
    return Rebuild(spec, clients, built, f"r{next(NAMES)}", **given)


def rewind(changelog: Changelog, target: Target, **more: Any) -> Rebuild:
    return rebuild(changelog, target=target, **more)


def stands(changelog: Changelog) -> Standing:
    return standing(changelog.view, pipeline=changelog.spec.pipeline)


def rows(changelog: Changelog, spec: TableSpec) -> list[dict[str, Any]]:
    view = changelog.world.lake.load(spec.identifier)
    assert view is not None
    names = sorted(column.name for column in view.columns)
    found = [row for each in changelog.world.lake.read(view, columns=names, equal={}) for row in each.to_pylist()]
    return sorted(found, key=lambda row: int(row["kafka_offset"]))


def letters(changelog: Changelog) -> list[int]:
    view = changelog.world.lake.load(changelog.spec.dead_letters_identifier)
    assert view is not None
    equal = {"table_uuid": changelog.view.uuid}
    batches = changelog.world.lake.read(view, columns=["offset"], equal=equal)
    return sorted(int(row["offset"]) for each in batches for row in each.to_pylist())


def check_as_new(changelog: Changelog) -> None:
    """The table is what a new one would be that was read by the same spec, and is proven."""
    spec = replace(changelog.spec, table=f"t{next(NAMES)}", trigger=SPEC.trigger)
    drained(changelog.world, spec)
    view = changelog.world.lake.load(spec.identifier)
    assert view is not None
    assert rows(changelog, changelog.spec) == rows(changelog, spec)
    new, here = standing(view, pipeline=spec.pipeline).state, stands(changelog).state
    assert here.total() == new.total()
    assert {p.next for p in here.sources[0].partitions.values()} == {p.next for p in new.sources[0].partitions.values()}
    assert len(letters(changelog)) == here.total().dead_letters
    for verification in (changelog.verify(), changelog.against_kafka()):
        assert verification.findings == ()
    refs = (*changelog.view.branches, *changelog.view.tags)
    assert not [name for name in refs if name.startswith("frazil_rebuild")]


@contextmanager
def killed_at(changelog: Changelog, number: int, *, after: bool) -> Iterator[None]:
    """Let the process die before or after its commit of this number, from 0 on."""
    catalog: Any = changelog.world.lake.catalog
    commit, done = catalog.commit_table, 0

    def committing(*given: Any) -> Any:
        nonlocal done
        done += 1
        if done - 1 == number and not after:
            raise KilledError
        answer = commit(*given)
        if done - 1 == number:
            raise KilledError
        return answer

    catalog.commit_table = committing
    try:
        yield
    finally:
        catalog.commit_table = commit


def move(changelog: Changelog, snapshot_id: int) -> None:
    """Point `main` to a snapshot, as another engine does that rolls back."""
    table = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    with table.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id)


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    log = Changelog.at(tmp_path)
    of_mode("append", log)
    log.send(*RECORDS)
    log.catch_up()
    return log


@pytest.mark.parametrize("mode", SPECS)
def test_a_table_of_one_mode_becomes_one_of_another(changelog: Changelog, mode: str) -> None:
    before = changelog.view
    of_mode(mode, changelog)
    if mode != "append":
        with pytest.raises(SpecChangeError) as refused:
            changelog.catch_up()
        assert f"run `frazil rebuild {changelog.spec.identifier}`" in refused.value.hint

    receipt = rebuild(changelog).perform()

    check_as_new(changelog)
    assert changelog.view.uuid == before.uuid
    assert (receipt.epoch, receipt.counts) == (stands(changelog).state.epoch, stands(changelog).state.total())
    assert stands(changelog).state.generation == 1
    changelog.send(("a", 7), ("e", 8), ("b", None))
    changelog.catch_up()
    check_as_new(changelog)


def seen_by_readers(changelog: Changelog, snapshot_id: int | None = None) -> tuple[list[Any], list[Any]]:
    """Return the offsets that PyIceberg and DuckDB read."""
    table = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    theirs = table.scan(snapshot_id=snapshot_id).to_arrow().column("kafka_offset").to_pylist()
    version = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
    query = f"SELECT kafka_offset FROM iceberg_scan('{table.metadata_location}'{version}) ORDER BY ALL"
    return sorted(theirs), [row[0] for row in engine().execute(query).fetchall()]


def test_readers_see_the_table_as_it_was_until_the_rebuild_is_complete(changelog: Changelog) -> None:
    before, rows_before = changelog.view, [*range(8)]
    assert before.head is not None
    seen: list[object] = []

    def look(progress: RebuildProgress) -> None:
        now = changelog.view
        properties = {name: now.properties[name] for name in before.properties}
        seen.append((now.head, now.columns, now.partition_fields, properties, seen_by_readers(changelog)))

    of_mode("upsert", changelog)
    rebuild(changelog, report=look).perform()

    of_before = (before.head, before.columns, before.partition_fields, before.properties, (rows_before, rows_before))
    assert seen == [of_before] * 3
    now = sorted(changelog.state.values())
    assert seen_by_readers(changelog) == (now, now)
    assert seen_by_readers(changelog, before.head) == (rows_before, rows_before)


def test_a_column_gets_another_type_also_where_it_partitioned_the_table(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    of_mode("typed", log)
    log.spec = replace(log.spec, partition_by=("truncate(2, n)",), sort_by=("n",))
    log.send(*RECORDS)
    log.catch_up()
    before = log.view
    log.spec = replace(log.spec, value_settings=replace(FIELDS, fields=json.dumps({"n": "double"})))
    log.spec = replace(log.spec, partition_by=("kafka_partition",), sort_by=())

    rebuild(log).perform()

    check_as_new(log)
    now, then = [0, 1, 2, 3, 4, 6, 7], [0, 1, 2, 3, 4, 6, 7]
    assert seen_by_readers(log) == (now, now)
    assert seen_by_readers(log, before.head) == (then, then)
    log.send(("a", 3))
    log.catch_up()
    check_as_new(log)


@pytest.mark.parametrize("after", sampled([False, True], bool), ids=lambda after: "after" if after else "before")
@pytest.mark.parametrize("mode", sampled(["typed", "upsert"], lambda mode: mode == "upsert"))
def test_a_rebuild_that_dies_at_any_commit_is_finished_by_the_next_one(tmp_path: Path, mode: str, after: bool) -> None:
    number = 0
    while True:
        log = Changelog.at(tmp_path)
        of_mode("append", log)
        log.send(*RECORDS[:5])
        log.catch_up()
        of_mode(mode, log)
        try:
            with killed_at(log, number, after=after):
                rebuild(log).perform()
            break
        except KilledError:
            number += 1 if LONG else 4
        if not stands(log).state.generation:
            rebuild(log).perform()
        log.send(("z", 9), (None, 1))
        log.catch_up()
        check_as_new(log)
    assert number > 10


def test_a_driver_that_publishes_meanwhile_is_followed(changelog: Changelog) -> None:
    of_before = changelog.spec
    of_mode("upsert", changelog)
    left: list[Sent] = [("e", 1), ("a", 9), ("c", None)]

    def publish(progress: RebuildProgress) -> None:
        if left:
            changelog.send(left.pop())
            drained(changelog.world, of_before)

    rebuild(changelog, report=publish).perform()

    assert not left
    check_as_new(changelog)


def test_a_driver_that_never_stops_keeps_the_table_as_it_is(changelog: Changelog) -> None:
    of_before = changelog.spec
    of_mode("upsert", changelog)

    def publish(progress: RebuildProgress) -> None:
        changelog.send(("a", 1))
        drained(changelog.world, of_before)

    with pytest.raises(ContendedError) as gave_up:
        rebuild(changelog, report=publish, moves=3).perform()

    assert "frazil pause" in gave_up.value.hint
    rebuild(changelog).perform()
    check_as_new(changelog)


@pytest.mark.parametrize("step", ["ingest", "stage", "publish"])
def test_a_batch_of_a_driver_is_planned_again_on_the_rebuilt_table(changelog: Changelog, step: str) -> None:
    changelog.send(("e", 1), (None, 2))
    driver = changelog.world.table(changelog.spec)
    left = [step]

    def observe(when: str, at: str) -> None:
        if when == "before" and left == [at]:
            left.clear()
            rebuild(changelog).perform()

    driver.clients = replace(driver.clients, observe=observe)
    assert driver.batch() == Again()
    assert isinstance(driver.batch(), Published)

    check_as_new(changelog)


def test_a_schema_that_a_driver_meets_meanwhile_is_met_by_the_rebuild_too(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    spec = replace(SPEC, trigger=SMALL, table=f"t{next(NAMES)}", partition_by=("truncate(5, n)",))
    first = world.registry.register("orders-value", LONG_RECORD)
    world.values += [framed(first.id, LONG_RECORD, {"n": n}) for n in range(5)]
    drained(world, spec)
    log = Changelog(world, spec)
    more = record(a_field("n"), a_field("x", ["null", "string"]))
    left = [more]

    def evolve(progress: RebuildProgress) -> None:
        if left:
            second = world.registry.register("orders-value", left.pop())
            world.values.append(framed(second.id, more, {"n": 7, "x": "new"}))
            drained(world, spec)

    log.spec = replace(spec, key="bytes", partition_by=(), value_settings=SPEC.value_settings)
    rebuild(log, report=evolve).perform()

    check_as_new(log)
    assert [row["x"] for row in rows(log, log.spec)] == [None] * 5 + ["new"]


def test_what_others_did_to_the_rows_is_not_undone_unless_asked(changelog: Changelog) -> None:
    (file, *_) = changelog.files()
    changelog.others(deletes=[DeletedRows(file.path, [0])])

    with pytest.raises(RebuildError, match="added 0 rows and removed 1, the last of them in overwrite"):
        rebuild(changelog).perform()

    rebuild(changelog, drop_foreign=True).perform()
    check_as_new(changelog)
    assert stands(changelog).state.foreign.snapshots == 0


def test_what_others_do_during_a_rebuild_keeps_it_from_replacing_the_table(changelog: Changelog) -> None:
    (file, *_) = changelog.files()
    left = [file]

    def delete(progress: RebuildProgress) -> None:
        if left:
            changelog.others(deletes=[DeletedRows(left.pop().path, [0])])

    with pytest.raises(RebuildError, match="removed 1"):
        rebuild(changelog, report=delete).perform()

    assert len(rows(changelog, changelog.spec)) == 7


def test_a_table_with_records_that_kafka_has_lost_is_not_rebuilt(changelog: Changelog) -> None:
    changelog.world.earliest = 2
    with pytest.raises(RecordsLostError, match="from offset 0 on, and the oldest record left in Kafka is 2"):
        rebuild(changelog).perform()

    changelog.spec = replace(changelog.spec, start=StartOffsets({0: 2}))
    rebuild(changelog).perform()
    check_as_new(changelog)
    assert [row["kafka_offset"] for row in rows(changelog, changelog.spec)] == [2, 3, 4, 5, 6, 7]


def test_a_compacted_topic_makes_a_table_that_follows_keys_and_no_other(changelog: Changelog) -> None:
    changelog.compact(tombstones=False)
    with pytest.raises(RecordsLostError, match=r"made of 8 records .* Kafka has 5 of them"):
        rebuild(changelog).perform()
    assert len(rows(changelog, changelog.spec)) == 8

    of_mode("upsert", changelog)
    rebuild(changelog).perform()
    check_as_new(changelog)


def test_records_that_cannot_be_rows_end_a_rebuild_and_pause_nothing(changelog: Changelog) -> None:
    of_mode("typed", changelog)
    changelog.spec = replace(changelog.spec, bad_record_limit=BadRecordLimit(share=0.0, at_least=0))
    changelog.spec = replace(changelog.spec, value_settings=replace(FIELDS, fields=json.dumps({"n": "boolean"})))
    with pytest.raises(RebuildError, match="could not become rows"):
        rebuild(changelog).perform()
    assert PAUSED_PROPERTY not in changelog.view.properties

    of_mode("typed", changelog)
    rebuild(changelog).perform()
    check_as_new(changelog)


def test_a_rebuild_by_another_spec_begins_again_and_one_can_be_dropped(changelog: Changelog) -> None:
    of_mode("upsert", changelog)
    with killed_at(changelog, 9, after=True), pytest.raises(KilledError):
        rebuild(changelog).perform()
    of_mode("history", changelog)
    rebuild(changelog).perform()
    check_as_new(changelog)

    with killed_at(changelog, 9, after=True), pytest.raises(KilledError):
        rebuild(changelog).perform()
    assert rebuild(changelog).discard()
    assert not rebuild(changelog).discard()
    check_as_new(changelog)


def test_a_bound_on_records_a_second_is_kept_by_waits_between_batches(changelog: Changelog) -> None:
    waits: list[float] = []
    progress: list[RebuildProgress] = []

    def clock() -> float:
        return sum(waits)

    rebuild(changelog, max_rate=2.0, wait=waits.append, clock=clock, report=progress.append).perform()

    assert waits == [1.5, 1.5, 1.0]
    assert [(each.read, each.total, each.seconds) for each in progress] == [(3, 8, 0.0), (6, 8, 1.5), (8, 8, 3.0)]


def test_a_rollback_across_a_rebuild_is_refused_until_it_is_taken_back(changelog: Changelog) -> None:
    before = changelog.view
    rebuild(changelog).perform()
    after = changelog.view
    assert before.head is not None and after.head is not None
    move(changelog, before.head)
    with pytest.raises(StateLostError, match="rolled back across a rebuild"):
        changelog.catch_up()

    move(changelog, after.head)
    check_as_new(changelog)


@settings(
    max_examples=examples(3, 100),
    deadline=None,
    phases=[Phase.generate, *([Phase.shrink] if LONG else [])],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(SENT, max_size=10), st.sampled_from([*SPECS]), st.sampled_from([*SPECS]), st.integers(0, 60))
def test_a_rebuilt_table_is_what_a_new_one_would_be(
    tmp_path: Path, records: list[Sent], one: str, other: str, number: int
) -> None:
    log = Changelog.at(tmp_path)
    of_mode(one, log)
    log.send(*records)
    log.catch_up()
    of_mode(other, log)
    with suppress(KilledError), killed_at(log, number, after=number % 2 == 0):
        rebuild(log).perform()
    rebuild(log).perform()
    log.send(*records[:3])
    log.catch_up()

    check_as_new(log)


def test_a_rewind_reads_the_topic_again_from_the_last_batch_that_ended_before(changelog: Changelog) -> None:
    before = changelog.view
    seen: list[int | None] = []
    files = {file.path for file in changelog.files()}

    def look(progress: RebuildProgress) -> None:
        seen.append(changelog.view.head)

    receipt = rewind(changelog, ToOffsets({"orders": {0: 7}}), report=look).perform()

    check_as_new(changelog)
    assert [(each.start, each.end) for each in receipt.ranges] == [(6, 8)]
    assert receipt.counts == Counts(read=2, rows=2)
    assert changelog.view.uuid == before.uuid and seen == [before.head]
    assert len(files & {file.path for file in changelog.files()}) == 2
    changelog.send(("a", 7), (None, 8))
    changelog.catch_up()
    check_as_new(changelog)


REWINDS = [
    (mode, target) for mode in SPECS for target in (ToEarliest(), ToOffsets({"orders": {0: 4}}), ToTimestamp(NOW))
]


@pytest.mark.parametrize(
    ("mode", "target"),
    sampled(REWINDS, lambda each: isinstance(each[1], ToOffsets) != (each[0] in ("append", "typed"))),
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_a_rewound_table_is_what_a_new_one_would_be(tmp_path: Path, mode: str, target: Target) -> None:
    log = Changelog.at(tmp_path)
    of_mode(mode, log)
    log.send(*RECORDS)
    log.catch_up()

    receipt = rewind(log, target).perform()

    start = {ToEarliest: 0, ToOffsets: 3, ToTimestamp: 3}[type(target)]
    assert [(each.start, each.end) for each in receipt.ranges] == [(start, 8)]
    check_as_new(log)
    log.send(("a", None), ("b", 4), (None, 5))
    log.catch_up()
    check_as_new(log)


def test_a_rewind_to_the_earliest_offset_begins_with_what_kafka_still_has(changelog: Changelog) -> None:
    changelog.world.earliest = 2
    receipt = rewind(changelog, ToEarliest()).perform()
    assert [(each.start, each.end) for each in receipt.ranges] == [(3, 8)]
    assert [row["kafka_offset"] for row in rows(changelog, changelog.spec)] == [*range(8)]
    assert changelog.verify().findings == ()

    with pytest.raises(RecordsLostError, match="from offset 0 on, and the oldest record left in Kafka is 2"):
        rewind(changelog, ToOffsets({"orders": {0: 2}})).perform()


@pytest.mark.parametrize(("offset", "says"), [(9, "has the offsets 0 to 8"), (8, "nothing to read again")])
def test_a_rewind_to_where_nothing_was_read_is_refused(changelog: Changelog, offset: int, says: str) -> None:
    with pytest.raises(Misuse, match=says):
        rewind(changelog, ToOffsets({"orders": {0: offset}})).perform()


@pytest.mark.parametrize("after", sampled([False, True], bool), ids=lambda after: "after" if after else "before")
def test_a_rewind_that_dies_at_any_commit_is_finished_by_the_next_one(tmp_path: Path, after: bool) -> None:
    number = 0
    while True:
        log = Changelog.at(tmp_path)
        of_mode("typed", log)
        log.send(*RECORDS)
        log.catch_up()
        try:
            with killed_at(log, number, after=after):
                rewind(log, ToOffsets({"orders": {0: 3}})).perform()
            break
        except KilledError:
            number += 1 if LONG else 3
        if not stands(log).state.generation:
            rewind(log, ToOffsets({"orders": {0: 3}})).perform()
        log.send(("z", 9), (None, 1))
        log.catch_up()
        check_as_new(log)
    assert number > 6


def test_a_half_finished_rewind_is_not_taken_for_a_rebuild_nor_for_another_rewind(changelog: Changelog) -> None:
    for act in (rebuild(changelog), rewind(changelog, ToOffsets({"orders": {0: 6}}))):
        with killed_at(changelog, 3, after=True), pytest.raises(KilledError):
            rewind(changelog, ToOffsets({"orders": {0: 3}})).perform()
        act.perform()
        check_as_new(changelog)


def test_a_driver_that_publishes_during_a_rewind_is_followed(changelog: Changelog) -> None:
    left: list[Sent] = [("e", 1), (None, 9), ("c", None)]

    def publish(progress: RebuildProgress) -> None:
        if left:
            changelog.send(left.pop())
            changelog.catch_up()

    rewind(changelog, ToOffsets({"orders": {0: 3}}), report=publish).perform()

    assert not left
    check_as_new(changelog)


def test_what_others_did_after_the_point_of_a_rewind_is_not_undone_unless_asked(changelog: Changelog) -> None:
    (file, *_) = changelog.files()
    changelog.others(deletes=[DeletedRows(file.path, [0])])
    changelog.send(("x", 1))
    changelog.catch_up()
    with pytest.raises(RebuildError, match="removed 1"):
        rewind(changelog, ToOffsets({"orders": {0: 3}})).perform()

    rewind(changelog, ToOffsets({"orders": {0: 3}}), drop_foreign=True).perform()
    check_as_new(changelog)
