"""Dead letters become rows once each, whatever else happens to the table meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from policed_tables import REDACT, masked
from values_of_tables import NOW, spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.dead_letter_replay import _by_driver, _print_text
from frazil.dead_letters import Chosen, DeadLetterList, list_dead_letters
from frazil.materialize.clients import REPLAY_STEPS, Observer
from frazil.materialize.outcome import Published
from frazil.materialize.replay import perform
from frazil.materialize.replay.answer import answer_to, ask, withdraw
from frazil.materialize.replay.request import REQUEST_PREFIX, ReplayRequest, ReplayResult, requests_in
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.errors import CatalogError, ContendedError, CountMismatchError, FrazilError
from frazil.model.secret import NamedKey
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, MetadataColumns, TableSpec
from frazil.proof.verification import FindingKind
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import sampled

SPEC = spec(bad_record_limit=BadRecordLimit.off())
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
LONG_CHANNEL = record(a_field("n"), a_field("channel", "long"))
REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table with one row and three dead letters: one is not framed, and two have a schema that is registered late."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values += [framed(1, LONG, {"n": 0}), b"bad", wider(2), wider(3)]
    assert isinstance(driver(made).batch(), Published)
    register(made, WIDER)
    return made


def register(world: World, schema: str) -> None:
    """Register a schema for no topic of the table. The registry forgets that its id was unknown."""
    world.registry.register(f"other{len(world.registry.schemas)}-value", schema)
    world.registry.missing.clear()


def wider(n: int) -> bytes:
    return framed(2, WIDER, {"n": n, "channel": "web"})


def driver(world: World, observe: Observer = lambda when, step: None, table: TableSpec = SPEC) -> TableRun:
    run = world.table(table)
    run.clients = replace(run.clients, observe=observe, new_id=lambda: uuid.uuid4().hex)
    return run


def replayed(world: World, observe: Observer = lambda when, step: None) -> ReplayResult:
    return driver(world, observe).replay(REQUEST)


class DiedError(Exception):
    """The process ends here: nothing cleans up."""


def dies_before(step: str) -> Observer:
    def die(when: str, now: str) -> None:
        if (when, now) == ("before", step):
            raise DiedError

    return die


def publish_and_die(world: World) -> None:
    """Publish a batch with a row and a dead letter, and die before the dead letter is revealed."""
    world.values += [framed(1, LONG, {"n": len(world.values)}), b"bad"]
    with pytest.raises(DiedError):
        driver(world, dies_before("reveal")).batch()


def offsets(world: World) -> tuple[list[int], list[int]]:
    """The offsets of the rows, and of the dead letters that are no rows."""
    rows = world.lake.catalog.load_table(SPEC.identifier).scan(selected_fields=("kafka_offset",)).to_arrow()
    return sorted(rows["kafka_offset"].to_pylist()), sorted(letter.offset for letter in listed(world).newest)


def listed(world: World, **more: Any) -> DeadLetterList:
    return list_dead_letters(world.lake, SPEC, limit=99, **more)


def findings(world: World, table: TableSpec = SPEC) -> list[str]:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return [str(finding) for finding in verify_table(world.lake, table, kafka=kafka).findings]


def roll_back(world: World) -> None:
    here = standing(view_of(world), pipeline=SPEC.pipeline)
    assert here.carrier.parent_id is not None
    table = world.lake.catalog.load_table(SPEC.identifier)
    table.manage_snapshots().rollback_to_snapshot(here.carrier.parent_id).commit()


def view_of(world: World) -> Any:
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    return view


def test_dead_letters_become_rows_with_a_schema_that_the_table_first_learns(world: World) -> None:
    result = replayed(world)

    assert (result.replayed, dict(result.stayed)) == (2, {"not_framed": 1})
    assert offsets(world) == ([0, 2, 3], [1])
    assert findings(world) == []
    assert (listed(world).total, listed(world).replayed) == (1, 2)
    (shown,) = listed(world, chosen=Chosen(record=("orders", 0, 2)), replayed=True).newest
    assert shown.replayed is not None
    assert (shown.replayed.at, shown.replayed.snapshot_id) == (NOW, result.snapshots[0])
    assert replayed(world).replayed == 0
    assert standing(view_of(world), pipeline=SPEC.pipeline).state.epoch == 2


FIRST = [("before", "evolve"), ("before", "replay_decode")]
MOMENTS = sampled(
    [(when, step, time) for time in (1, 2) for step in ("evolve", *REPLAY_STEPS) for when in ("before", "after")],
    keep=lambda moment: (
        moment == (*FIRST[0], 1)
        or moment == (*FIRST[1], 2)
        or (moment[2] == 1 and moment[0] == "before" and moment[1] in ("replay_stage", "replay_publish"))
    ),
)
"""Of the first pass, which learns a schema, and of the second, which replays; later steps come in the second only."""


def at(moment: tuple[str, str, int], act: Callable[[], object]) -> tuple[Observer, list[object]]:
    left, done = [moment[2]], []

    def observe(when: str, step: str) -> None:
        if (when, step) == moment[:2]:
            left[0] -= 1
            if left[0] == 0:
                done.append(act())

    return observe, done


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_two_replays_at_once_make_one_row_of_each_letter(world: World, moment: tuple[str, str, int]) -> None:
    observe, done = at(moment, lambda: replayed(world).replayed)

    replayed(world, observe)

    assert offsets(world) == ([0, 2, 3], [1])
    assert findings(world) == []
    assert standing(view_of(world), pipeline=SPEC.pipeline).state.total().dead_letters == 1
    assert done in ([], [0], [2])


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_batch_that_dies_beside_a_replay_loses_no_dead_letter(world: World, moment: tuple[str, str, int]) -> None:
    observe, done = at(moment, lambda: publish_and_die(world))
    run = driver(world, observe)

    assert run.replay(REQUEST).replayed == 2

    driver(world).batch()
    assert offsets(world) == (([0, 2, 3, 4], [1, 5]) if done else ([0, 2, 3], [1]))
    assert findings(world) == []


def test_a_replay_that_a_busy_driver_overtakes_each_time_says_to_leave_it_to_the_driver(world: World) -> None:
    def publish(when: str, step: str) -> None:
        if (when, step) == ("before", "replay_publish"):
            world.values.append(framed(1, LONG, {"n": len(world.values)}))
            driver(world).batch()

    with pytest.raises(ContendedError, match="could not replay dead letters") as given_up:
        replayed(world, publish)

    assert given_up.value.hint.startswith("if a driver runs, ask again without `--wait 0`")
    assert replayed(world).replayed == 2


def test_a_batch_that_a_replay_overtakes_keeps_its_dead_letters(world: World) -> None:
    world.values += [framed(1, LONG, {"n": 4}), b"bad"]
    observe, _ = at(("after", "ingest", 1), lambda: replayed(world))
    slow = driver(world, observe)

    outcomes = [slow.batch(), slow.batch()]

    assert [type(outcome).__name__ for outcome in outcomes] == ["Again", "Published"]
    assert offsets(world) == ([0, 2, 3, 4], [1, 5])
    assert findings(world) == []


@pytest.mark.parametrize("failure", [CatalogError("storage is down", hint="wait"), ValueError("a defect")])
def test_a_request_that_fails_is_answered_and_stops_no_driver(
    world: World, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise failure

    ask(world.lake, SPEC.identifier, REQUEST)
    monkeypatch.setattr(perform.Replay, "_portion", fail)
    world.values.append(framed(1, LONG, {"n": 4}))

    assert isinstance(driver(world).batch(), Published)

    result = answer_to(world.lake, SPEC.identifier, REQUEST)
    assert result is not None
    assert str(getattr(failure, "what", failure)) in str(result.error)


def test_a_replay_that_fails_in_its_second_snapshot_reports_the_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perform, "LETTERS_AT_ONCE", 2)
    ask(world.lake, SPEC.identifier, REQUEST)
    left = [1]

    def fail(when: str, step: str) -> None:
        if (when, step) == ("after", "replay_reveal"):
            left.append(1)
        if (when, step) == ("before", "replay_choose") and len(left) == 2:
            raise CatalogError("storage is down", hint="wait")

    driver(world, fail).batch()

    result = answer_to(world.lake, SPEC.identifier, REQUEST)
    assert result is not None
    assert (result.replayed, len(result.snapshots), result.error) == (1, 1, "storage is down")
    assert replayed(world).replayed == 1
    assert findings(world) == []


def test_letters_are_listed_once_however_many_snapshots_a_replay_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = counted_listings(monkeypatch)

    result = replayed(world)

    assert (result.replayed, len(result.snapshots), dict(result.stayed)) == (2, 2, {"not_framed": 1})
    assert listings == [3]
    assert findings(world) == []


@pytest.mark.parametrize("other", ["a replay", "a batch", "a compaction"])
def test_letters_are_listed_again_if_others_came_between_two_snapshots(
    world: World, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    listings = counted_listings(monkeypatch)

    def compact() -> None:
        dead = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
        dead.overwrite(dead.scan().to_arrow())

    acts = {"a replay": lambda: replayed(world), "a batch": lambda: publish_and_die(world), "a compaction": compact}
    observe, done = at(("after", "replay_reveal", 1), acts[other])

    replayed(world, observe)

    assert done
    assert len(listings) > 1
    driver(world).batch()
    assert offsets(world) == (([0, 2, 3, 4], [1, 5]) if other == "a batch" else ([0, 2, 3], [1]))
    assert findings(world) == []


def counted_listings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make each snapshot of a replay take one letter; return how many letters each listing has."""
    listings: list[int] = []
    real = perform.chosen_letters

    def counting(*given: Any) -> Any:
        found = real(*given)
        listings.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(perform, "LETTERS_AT_ONCE", 1)
    monkeypatch.setattr(perform, "chosen_letters", counting)
    return listings


def test_a_request_that_is_gone_can_be_withdrawn(world: World) -> None:
    ask(world.lake, SPEC.identifier, REQUEST)

    for _ in range(2):
        withdraw(world.lake, SPEC.identifier, REQUEST)

    assert requests_in(view_of(world).properties) == ()


def test_a_command_that_is_interrupted_withdraws_its_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        assert requests_in(view_of(world).properties)
        raise KeyboardInterrupt

    monkeypatch.setattr("frazil.materialize.replay.answer.answer_to", interrupt)

    with pytest.raises(KeyboardInterrupt):
        _by_driver(world.lake, SPEC, REQUEST, 60.0)

    assert not [name for name in view_of(world).properties if name.startswith(REQUEST_PREFIX)]


def test_a_schema_that_the_table_cannot_hold_stays_and_pauses_nothing(world: World) -> None:
    replayed(world)
    world.values.append(framed(3, LONG_CHANNEL, {"n": 4, "channel": 4}))
    driver(world).batch()
    register(world, LONG_CHANNEL)

    result = replayed(world)

    assert (result.replayed, dict(result.stayed)) == (0, {"not_framed": 1, "refused_schema": 1})
    driver(world).batch()
    assert "frazil.paused" not in view_of(world).properties
    assert findings(world) == []


@pytest.mark.parametrize("expired", ["no", "expired", "expired below a rewrite"])
@pytest.mark.parametrize("dies", [False, True])
def test_a_rollback_behind_a_replay_takes_the_marks_back(world: World, expired: str, *, dies: bool) -> None:
    replayed(world)
    dead = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
    if expired == "expired below a rewrite":
        dead.overwrite(dead.scan().to_arrow())
    if expired != "no":
        heads = {ref.snapshot_id for ref in dead.metadata.refs.values()}
        expiring = dead.refresh().maintenance.expire_snapshots()
        for snapshot in dead.metadata.snapshots:
            if snapshot.snapshot_id not in heads:
                expiring = expiring.by_id(snapshot.snapshot_id)
        expiring.commit()
    roll_back(world)
    assert (listed(world).total, listed(world).replayed) == (3, 0)
    assert [each for each in findings(world) if FindingKind.REPLAYED_WITHOUT_ROW in each] == []
    if dies:
        publish_and_die(world)
        assert (listed(world).total, listed(world).replayed) == (3, 0), "the new batch has the epoch of the replay"
    world.values.append(framed(1, LONG, {"n": 9}))
    driver(world).batch()
    assert findings(world) == []
    dead.refresh()
    assert len(dead.scan("replayed_epoch IS NOT NULL").to_arrow()) == 0

    assert replayed(world).replayed == 2

    assert findings(world) == []
    assert offsets(world)[0][:3] == [0, 2, 3]


def test_a_letter_that_others_copied_becomes_one_row(world: World) -> None:
    dead = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
    letters = dead.scan().to_arrow()

    dead.append(letters)
    assert replayed(world).replayed == 2
    dead.refresh().append(letters)
    assert replayed(world).replayed == 0

    assert offsets(world)[0] == [0, 2, 3]


def test_no_letter_is_replayed_whose_mark_others_removed(world: World) -> None:
    replayed(world)
    world.lake.catalog.load_table(SPEC.dead_letters_identifier).delete("replayed_epoch IS NOT NULL")

    with pytest.raises(CountMismatchError, match="3 dead letters without the mark of a replay, counted: 1"):
        driver(world).replay(replace(REQUEST, record=("orders", 0, 2)))

    assert offsets(world)[0] == [0, 2, 3]


def test_no_letter_is_replayed_whose_mark_others_removed_with_as_many_letters(world: World) -> None:
    driver(world).replay(replace(REQUEST, record=("orders", 0, 2)))
    dead = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
    dead.delete("replayed_epoch IS NOT NULL OR offset = 1")

    with pytest.raises(CountMismatchError, match="orders-0@2 is a dead letter without the mark of a replay, and a row"):
        replayed(world)

    assert offsets(world)[0] == [0, 2]


@pytest.mark.parametrize("by", ["command", "driver"])
def test_rows_of_a_replay_name_their_topic_if_the_spec_lost_one(tmp_path: Path, by: str) -> None:
    both = spec(topics=("orders", "others"), bad_record_limit=BadRecordLimit.off())
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))), names=both.topics)
    for topic in both.topics:
        world.registry.register(f"{topic}-value", LONG)
    world.values += [framed(1, LONG, {"n": 0}), wider(1)]
    driver(world, table=both).batch()
    register(world, WIDER)
    one = replace(both, topics=("others",))

    if by == "command":
        driver(world, table=one).replay(REQUEST)
    else:
        ask(world.lake, one.identifier, REQUEST)
        driver(world, table=one).batch()

    table = world.lake.catalog.load_table(one.identifier).scan().to_arrow()
    assert table["kafka_topic"].null_count == 0
    assert findings(world, one) == []


def test_letters_under_another_key_stay(tmp_path: Path) -> None:
    table = masked({"n": REDACT}, bad_record_limit=BadRecordLimit.off())
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", LONG)
    world.values += [wider(0)]
    driver(world, table=table).batch()
    lost = replace(table, dead_letter_key=NamedKey("d2", cast(NamedKey, table.dead_letter_key).secret))
    world.values += [wider(1)]
    driver(world, table=lost).batch()
    register(world, WIDER)

    result = driver(world, table=table).replay(REQUEST)

    assert (result.replayed, dict(result.stayed)) == (1, {"not_decrypted": 1})
    assert "is encrypted with the key d2" in result.examples["not_decrypted"]


@pytest.mark.parametrize("spoiled", [{"detail": "abc"}, {"detail": ""}, {"headers": []}], ids=str)
def test_a_spoiled_encrypted_letter_stays(tmp_path: Path, spoiled: dict[str, Any]) -> None:
    table = masked({"n": REDACT}, bad_record_limit=BadRecordLimit.off())
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", LONG)
    world.values += [wider(0)]
    driver(world, table=table).batch()
    register(world, WIDER)
    dead = world.lake.catalog.load_table(table.dead_letters_identifier)
    (letter,) = dead.scan().to_arrow().to_pylist()
    if "detail" in spoiled:
        spoiled = {"detail": letter["detail"].rpartition(":")[0] + ":" + spoiled["detail"]}
    dead.overwrite(pa.Table.from_pylist([{**letter, **spoiled}], schema=dead.schema().as_arrow()))

    result = driver(world, table=table).replay(REQUEST)

    assert (result.replayed, dict(result.stayed)) == (0, {"not_decrypted": 1})
    assert "another key has this id now, or the dead letter was changed" in result.examples["not_decrypted"]


def test_letters_without_a_field_that_the_table_keeps_stay(world: World) -> None:
    keeps = replace(SPEC, metadata=MetadataColumns(keep=(*SPEC.metadata.keep, "timestamp_type")))

    result = driver(world, table=keeps).replay(REQUEST)

    assert (result.replayed, dict(result.stayed)) == (0, {"not_kept": 3})


def test_a_table_of_an_earlier_release_gets_the_columns_of_marks(world: World) -> None:
    dead = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
    with dead.update_schema(allow_incompatible_changes=True) as update:
        for name in ("replayed_at", "replayed_epoch", "replayed_snapshot_id", "timestamp_type", "leader_epoch"):
            update.delete_column(name)
    assert findings(world) == []
    assert listed(world).total == 3

    assert replayed(world).replayed == 2

    assert findings(world) == []


def test_a_paused_table_is_not_replayed(world: World) -> None:
    world.lake.set_properties(SPEC.identifier, put={"frazil.paused": "{}"})

    with pytest.raises(FrazilError, match="is paused"):
        replayed(world)


def test_a_replay_of_none_says_where_dead_letters_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _print_text(SPEC, ReplayResult())

    said = capsys.readouterr().err
    assert "has no such dead letter: nothing was replayed" in said
    assert f"hint: `frazil dead-letters list {SPEC.table}` shows those that there are" in said
