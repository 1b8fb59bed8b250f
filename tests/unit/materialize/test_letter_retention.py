"""Dead letters are deleted by age and counted: the proof holds, also beside replays, other drivers and crashes."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from values_of_tables import NOW, spec
from whole_batches import LONG, World, framed, once

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize import batch_age, letter_retention
from frazil.materialize.clients import Observer
from frazil.materialize.dead_letters import PREPARED_PREFIX
from frazil.materialize.letter_retention import RETENTION_PREFIX, delete_old_letters
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.errors import StateLostError
from frazil.model.expired_letters import expired_letters
from frazil.model.progress import OffsetSums
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, KeepSnapshots, Maintain
from frazil.proof.verification import FindingKind, Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import combined

KEEP = timedelta(days=10)
SPEC = spec(bad_record_limit=BadRecordLimit.off(), maintain=Maintain(512 << 20, KeepSnapshots(), KEEP))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
OF_A_BATCH = combined(["before", "after"], ["prepare", "stage", "publish", "reveal", "announce"])
OF_A_REPLAY = combined(
    ["before", "after"], ["replay_choose", "replay_decode", "replay_stage", "replay_prepare", "replay_publish"]
)
REPLAY = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")


class Clock:
    """The time of the driver and of its tasks."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def passes(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("frazil.materialize.ingest.decode.now_utc", made)
    return made


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> World:
    """A table with a row, and three dead letters, two of which a replay can decode; five days later, one more."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    batch(made, clock, framed(1, LONG, {"n": 0}), b"bad", wider(2), wider(3))
    clock.passes(5)
    batch(made, clock, framed(1, LONG, {"n": 4}), b"bad")
    return made


def wider(n: int) -> bytes:
    return framed(2, WIDER, {"n": n, "channel": "web"})


def driver(world: World, clock: Clock, observe: Observer = lambda when, step: None) -> TableRun:
    run = world.table(SPEC)
    run.clients = replace(run.clients, observe=observe, now=clock, new_id=lambda: uuid.uuid4().hex)
    return run


def batch(world: World, clock: Clock, *values: bytes, observe: Observer = lambda when, step: None) -> None:
    world.values += values
    assert isinstance(driver(world, clock, observe).batch(), Published)


def replay(world: World, clock: Clock, observe: Observer = lambda when, step: None) -> int:
    world.registry.register("other-value", WIDER)
    world.registry.missing.clear()
    return driver(world, clock, observe).replay(REPLAY).replayed


def expire(world: World, clock: Clock) -> int:
    return delete_old_letters(world.lake, SPEC, writer="w2", now=clock())


def letters(world: World) -> TableView:
    view = world.lake.load(SPEC.dead_letters_identifier)
    assert view is not None
    return view


def offsets(world: World) -> tuple[list[int], int]:
    """The offsets of the dead letters, and how many have marks."""
    found = list_dead_letters(world.lake, SPEC, limit=99)
    return sorted(letter.offset for letter in found.newest), found.replayed


def verified(world: World) -> Verification:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return verify_table(world.lake, SPEC, kafka=kafka)


def is_proven(world: World) -> str:
    verification = verified(world)
    assert [str(finding) for finding in verification.findings] == []
    return next(check.says for check in verification.checks if check.name == "dead letters")


def roll_back(world: World) -> None:
    """To the batch before the last one."""
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    parent = standing(view, pipeline=SPEC.pipeline).carrier.parent_id
    assert parent is not None
    world.lake.catalog.load_table(SPEC.identifier).manage_snapshots().rollback_to_snapshot(parent).commit()


class DiedError(Exception):
    """The process ends here: nothing cleans up."""


def die() -> None:
    raise DiedError


def test_old_letters_are_deleted_and_counted_and_young_ones_stay(world: World, clock: Clock) -> None:
    assert expire(world, clock) == 0
    clock.passes(6)

    assert expire(world, clock) == 3

    assert offsets(world) == ([5], 0)
    assert "4 dead letters" in is_proven(world)
    assert "deleted 3 of them" in is_proven(world)
    head = letters(world).head
    assert expire(world, clock) == 0
    assert letters(world).head == head, "nothing is left to do"


def test_letters_stay_if_it_took_a_day_to_write_the_others(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A clean-up of orphans may have deleted the files of those that are kept."""
    clock.passes(6)
    monkeypatch.setattr(batch_age, "OLDEST", timedelta(0))

    with caplog.at_level(logging.INFO):
        assert expire(world, clock) == 0

    assert offsets(world) == ([1, 2, 3, 5], 0)
    assert "dead_letters_expired" not in caplog.messages


def test_the_count_goes_on_through_later_batches_compaction_and_expiry_by_others(world: World, clock: Clock) -> None:
    clock.passes(6)
    expire(world, clock)
    batch(world, clock, b"bad")
    clock.passes(5)
    assert expire(world, clock) == 1
    table = world.lake.catalog.load_table(SPEC.dead_letters_identifier)
    table.overwrite(table.scan().to_arrow())
    view = letters(world)
    expiring = table.maintenance.expire_snapshots()
    for snapshot_id in view.snapshots.keys() - {*view.branches.values(), *view.tags.values()}:
        expiring = expiring.by_id(snapshot_id)
    expiring.commit()
    world.lake = IcebergLake(CatalogSettings("jdbc", world.lake._settings.warehouse))

    assert "deleted 4 of them" in is_proven(world)
    batch(world, clock, b"bad", framed(1, LONG, {"n": 8}))

    assert offsets(world) == ([6, 7], 0)
    assert "deleted 4 of them" in is_proven(world)


def test_a_driver_deletes_between_its_batches(world: World, clock: Clock) -> None:
    run = driver(world, clock)
    run.batch()
    assert offsets(world) == ([1, 2, 3, 5], 0), "the first batch of a process looks"
    clock.passes(6)
    batch(world, clock, framed(1, LONG, {"n": 6}))

    later = driver(world, clock)
    world.values.append(framed(1, LONG, {"n": 7}))
    later.batch()

    assert offsets(world) == ([5], 0)
    assert "deleted 3 of them" in is_proven(world)


def test_marks_go_with_their_letters_and_letters_stay_as_long_as_their_marks(world: World, clock: Clock) -> None:
    clock.passes(1)
    assert replay(world, clock) == 2
    clock.passes(5)

    assert expire(world, clock) == 1, "the letter that cannot be replayed"
    assert offsets(world) == ([5], 2)
    assert values(world) == {2: wider(2), 3: wider(3), 5: b"bad"}
    is_proven(world)
    clock.passes(6)

    assert expire(world, clock) == 1

    assert (offsets(world), values(world)) == (([], 0), {})
    assert "2 dead letters" in is_proven(world)
    assert replay(world, clock) == 0


def values(world: World) -> dict[int, bytes | None]:
    """The values of all dead letters by offset, of rows as well."""
    found = list_dead_letters(world.lake, SPEC, limit=99, replayed=True)
    return {letter.offset: letter.value for letter in found.newest}


def test_letters_whose_replay_is_rolled_back_are_counted_again_when_they_are_deleted(
    world: World, clock: Clock
) -> None:
    clock.passes(1)
    replay(world, clock)
    clock.passes(5)
    expire(world, clock)
    roll_back(world)
    assert "4 dead letters" in is_proven(world)

    batch(world, clock, framed(1, LONG, {"n": 6}))

    assert offsets(world) == ([5], 0)
    assert "deleted 3 of them" in is_proven(world)


def test_a_letter_of_a_batch_that_is_not_revealed_is_never_deleted(world: World, clock: Clock) -> None:
    with pytest.raises(DiedError):
        batch(world, clock, b"bad", observe=once(("before", "reveal"), die))
    clock.passes(20)

    assert expire(world, clock) == 0
    is_proven(world)
    batch(world, clock, framed(1, LONG, {"n": 7}))

    assert offsets(world) == ([], 0), "the batch revealed them, and then they were old"
    assert "deleted 5 of them" in is_proven(world)


@pytest.mark.parametrize(("when", "step"), OF_A_BATCH)
def test_another_driver_deletes_at_any_moment_of_a_batch(world: World, clock: Clock, when: str, step: str) -> None:
    clock.passes(6)

    batch(world, clock, b"bad", framed(1, LONG, {"n": 7}), observe=once((when, step), lambda: expire(world, clock)))

    is_proven(world)
    expire(world, clock)
    assert offsets(world) == ([5, 6], 0)
    assert "deleted 3 of them" in is_proven(world)


@pytest.mark.parametrize(("when", "step"), OF_A_REPLAY)
def test_another_driver_deletes_at_any_moment_of_a_replay(world: World, clock: Clock, when: str, step: str) -> None:
    clock.passes(6)
    deleted: list[int] = []

    became = replay(world, clock, once((when, step), lambda: deleted.append(expire(world, clock))))

    assert (became, deleted) in [(0, [3]), (2, [0])], "each letter is deleted or a row"
    is_proven(world)
    expire(world, clock)
    is_proven(world)


@pytest.mark.parametrize("commit", ["stage", "publish"])
@pytest.mark.parametrize("landed", [False, True])
def test_a_process_that_dies_between_its_commits_leaves_a_proven_table(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch, commit: str, *, landed: bool
) -> None:
    clock.passes(6)
    real = getattr(world.lake, commit)

    def dies(*args: Any, **more: Any) -> None:
        if landed:
            real(*args, **more)
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(world.lake, commit, dies)
        with pytest.raises(DiedError):
            expire(world, clock)

    is_proven(world)
    batch(world, clock, framed(1, LONG, {"n": 6}), b"bad")
    assert offsets(world) == ([5, 7], 0)
    assert "deleted 3 of them" in is_proven(world)
    assert not [name for name in letters(world).branches if name.startswith((RETENTION_PREFIX, PREPARED_PREFIX))]


def test_a_batch_that_is_prepared_between_the_look_and_the_commit_comes_first(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.passes(6)
    real = world.lake.publish

    def late(view: TableView, **more: Any) -> None:
        monkeypatch.setattr(world.lake, "publish", real)
        world.values.append(b"bad")
        with pytest.raises(DiedError):
            driver(world, clock, once(("before", "publish"), die)).batch()
        real(view, **more)

    monkeypatch.setattr(world.lake, "publish", late)

    assert expire(world, clock) == 0, "the commit is refused"
    is_proven(world)
    batch(world, clock, framed(1, LONG, {"n": 7}))
    assert "deleted 3 of them" in is_proven(world)


def test_a_rollback_brings_letters_back_with_their_count(world: World, clock: Clock) -> None:
    clock.passes(6)
    expire(world, clock)
    roll_back(world)
    is_proven(world)
    assert expire(world, clock) == 0, "the letters of the batch that was rolled back are still there"

    world.values[4:] = [b"bad", framed(1, LONG, {"n": 5})]
    batch(world, clock)

    is_proven(world)
    expire(world, clock)
    assert "deleted 3 of them" in is_proven(world)
    assert offsets(world) == ([4], 0)


def test_marks_that_others_removed_keep_their_letters(
    world: World, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    replay(world, clock)
    world.lake.catalog.load_table(SPEC.dead_letters_identifier).delete("reason = 'replayed'")
    clock.passes(11)

    assert expire(world, clock) == 0

    assert "dead_letters_not_expired" in caplog.messages


def test_a_letter_that_others_delete_is_found_beside_those_that_were_deleted_by_age(world: World, clock: Clock) -> None:
    clock.passes(6)
    expire(world, clock)
    world.lake.catalog.load_table(SPEC.dead_letters_identifier).delete("offset = 5")

    found = {finding.kind for finding in verified(world).findings}

    assert found == {FindingKind.DEAD_LETTER_COUNT, FindingKind.MISSING_RECORD}


def test_records_without_a_dead_letter_have_the_sums_of_the_deleted_ones(world: World, clock: Clock) -> None:
    clock.passes(6)
    real = letter_retention._figures
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(letter_retention, "_figures", lambda offsets: replace(real(offsets), sums=OffsetSums(1, 1)))
        expire(world, clock)

    assert [finding.kind for finding in verified(world).findings] == [FindingKind.MISSING_RECORD]


def test_damaged_figures_are_an_error_of_the_state(world: World, clock: Clock) -> None:
    clock.passes(6)
    expire(world, clock)
    view = letters(world)
    damaged = {each: replace(view.snapshots[each], read_document=lambda: b"x") for each in view.snapshots}

    with pytest.raises(StateLostError, match=r"the figures of deleted dead letters in snapshot .* are damaged"):
        expired_letters(replace(view, snapshots=damaged), view.head, ())


def test_without_the_setting_nothing_is_deleted(world: World, clock: Clock) -> None:
    clock.passes(1000)

    assert delete_old_letters(world.lake, spec(), writer="w", now=clock()) == 0
    assert offsets(world) == ([1, 2, 3, 5], 0)
