"""A table is read again from its topic, by another spec, while readers see it as it was."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from changelogs import NAMES, SENT, Changelog, Sent
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException
from rebuilt_tables import (
    FIELDS,
    RECORDS,
    SMALL,
    SPECS,
    KilledError,
    appended,
    check_as_new,
    killed_at,
    letters,
    move,
    of_mode,
    rebuild,
    rows,
    seen_by_readers,
    stands,
)
from values_of_tables import SPEC
from whole_batches import LONG as LONG_RECORD
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Again, Published
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY
from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rebuilt_state import BegunRebuild
from frazil.model.errors import (
    ContendedError,
    RebuildError,
    RecordsLostError,
    SpecChangeError,
    StateLostError,
)
from frazil.model.ingested import DeletedRows
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, StartOffsets
from frazil.monitoring.remarks import remarks
from frazil.status import TableStatus, table_statuses
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory
from tests.sampling import LONG, examples, sampled


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return appended(tmp_path)


@pytest.mark.parametrize("mode", SPECS)
def test_a_table_of_one_mode_becomes_one_of_another(changelog: Changelog, mode: str) -> None:
    before = changelog.view
    of_mode(mode, changelog)
    if mode != "append":
        with pytest.raises(SpecChangeError) as refused:
            changelog.catch_up()
        assert f"run `frazil rebuild {changelog.spec.identifier}`" in refused.value.hint

    (receipt,) = rebuild(changelog).perform()

    check_as_new(changelog)
    assert changelog.view.uuid == before.uuid
    assert (receipt.epoch, receipt.counts) == (stands(changelog).state.epoch, stands(changelog).state.total())
    assert stands(changelog).state.generation == 1
    changelog.send(("a", 7), ("e", 8), ("b", None))
    changelog.catch_up()
    check_as_new(changelog)


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
            number += 1 if LONG else 7
        if not stands(log).state.generation:
            rebuild(log).perform()
        log.send(("z", 9), (None, 1))
        log.catch_up()
        check_as_new(log)
    assert number > 10


@pytest.mark.parametrize("lost", [ConnectionError, CommitFailedException])
def test_a_rebuild_that_replaced_the_table_says_so_if_answers_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    """The catalog's client may send a commit again whose answer was lost, and then gets a refusal."""
    log = appended(tmp_path)
    catalog: Any = log.world.lake.catalog
    commit = catalog.commit_table

    def committing(table: Any, *given: Any) -> Any:
        answer = commit(table, *given)
        if stands(log).state.generation:
            raise lost("no answer")
        return answer

    monkeypatch.setattr(catalog, "commit_table", committing)
    (receipt,) = rebuild(log).perform()
    monkeypatch.undo()

    assert receipt.batch_id == stands(log).state.batch_id
    check_as_new(log)


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
        rebuild(changelog, report=publish, moves=2).perform()

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


def test_what_an_operator_accepts_during_a_rebuild_stays_accepted(changelog: Changelog) -> None:
    lake, table = changelog.world.lake, changelog.spec.identifier
    lake.set_properties(table, put={ACCEPTED_PROPERTY: '{"orders": {"0": 2}}'})

    def accept(progress: RebuildProgress) -> None:
        lake.set_properties(table, put={ACCEPTED_PROPERTY: '{"orders": {"0": 9}}'})

    rebuild(changelog, report=accept).perform()

    assert changelog.view.properties[ACCEPTED_PROPERTY] == '{"orders": {"0": 9}}'


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
    max_examples=examples(2, 100),
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


def test_dead_letters_of_a_table_that_follows_keys_become_rows_once_they_can_be_decoded(tmp_path: Path) -> None:
    changelog = Changelog.at(tmp_path)
    of_mode("upsert", changelog)
    changelog.spec = replace(changelog.spec, value_settings=FIELDS)
    changelog.send(("a", 1), ("a", cast(int, 2.5)), ("b", 3))
    changelog.catch_up()
    assert letters(changelog) == [1]

    changelog.spec = replace(changelog.spec, value_settings=replace(FIELDS, fields=json.dumps({"n": "double"})))
    rebuild(changelog).perform()

    check_as_new(changelog)
    assert [(row["kafka_key"], row["n"]) for row in rows(changelog, changelog.spec)] == [("a", 2.5), ("b", 3.0)]
    assert letters(changelog) == []


def test_the_status_says_how_far_a_rebuild_is(changelog: Changelog) -> None:
    of_mode("upsert", changelog)
    found: list[TableStatus] = []

    rebuild(changelog, report=lambda progress: found.append(status_of(changelog))).perform()

    assert [each.rebuild for each in found] == [BegunRebuild(3, 8), BegunRebuild(6, 8), BegunRebuild(8, 8)]
    name = changelog.spec.identifier
    assert list(remarks(found[:1])) == [
        f"{name}: a rebuild or a rewind has read 3 of 8 offsets; the same command continues it, and"
        f" `frazil rebuild {name} --discard` drops it"
    ]
    assert found[0].to_json()["rebuild"] == {"read": 3, "total": 8}
    assert status_of(changelog).rebuild is None


def status_of(changelog: Changelog) -> TableStatus:
    world, now = changelog.world, datetime(2026, 3, 1, tzinfo=UTC)
    (found,) = table_statuses(world.lake, world.topics, [changelog.spec], delta_logs=DeltaLogsInMemory, now=now)
    return found
