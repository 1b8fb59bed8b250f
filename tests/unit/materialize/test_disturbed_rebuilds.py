"""What other processes do to a table and to its branch while it is rebuilt or rewound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog
from rebuilt_tables import KilledError, appended, check_as_new, letters, move, of_mode, rebuild, rewind

from frazil.materialize.clients import STEPS
from frazil.materialize.rebuild.perform import Rebuild, RebuildProgress
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.model.errors import RebuildError
from frazil.model.summary import carries_state
from tests.sampling import sampled

TO_3 = ToOffsets({"orders": {0: 3}})


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return appended(tmp_path)


def of_epoch(changelog: Changelog, epoch: int) -> int:
    """Return the snapshot that published an epoch."""
    found = (each for each in changelog.view.ancestry(changelog.view.head) if carries_state(each))
    return next(each.id for each in found if each.summary["frazil.epoch"] == str(epoch))


def expire(changelog: Changelog, snapshot_id: int) -> None:
    loaded = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    loaded.maintenance.expire_snapshots().by_id(snapshot_id).commit()


@pytest.mark.parametrize("at", ["discard", "begin_at"])
def test_a_rewind_whose_snapshot_expires_while_it_begins_names_it(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """It expires before the table is loaded that gets the branch, or after."""
    base, act = of_epoch(changelog, 1), rewind(changelog, TO_3)
    of_class = Rebuild if at == "discard" else type(act.built)
    original = getattr(of_class, at)

    def expiring(*given: object, **more: object) -> object:
        expire(changelog, base)
        return original(*given, **more)

    monkeypatch.setattr(of_class, at, expiring)
    with pytest.raises(RebuildError, match=f"snapshot {base} .* has expired meanwhile; nothing was changed"):
        act.perform()

    monkeypatch.undo()
    rewind(changelog, ToOffsets({"orders": {0: 6}})).perform()
    check_as_new(changelog)


def test_a_rewind_whose_snapshot_has_expired_is_not_continued_as_a_rebuild(tmp_path: Path) -> None:
    """It has only the dead letters from its snapshot on."""
    log = Changelog.at(tmp_path)
    of_mode("upsert", log)
    log.send((None, 1), ("a", 1), ("b", 1), (None, 2), ("c", 1), ("c", 2))
    log.catch_up()

    def die(progress: RebuildProgress) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        rewind(log, TO_3, report=die).perform()
    expire(log, of_epoch(log, 1))
    rebuild(log).perform()

    assert letters(log) == [0, 3]
    check_as_new(log)


def test_a_rebuild_whose_dead_letters_have_expired_loses_none(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    of_mode("upsert", log)
    log.send((None, 1), ("a", 1), ("b", 1), (None, 2), ("c", 1), ("c", 2))
    log.catch_up()

    def expire_first(progress: RebuildProgress) -> None:
        if progress.read == progress.total:
            table = log.world.lake.catalog.load_table(log.spec.dead_letters_identifier)
            head = table.snapshot_by_name("frazil_rebuild_main")
            table.maintenance.expire_snapshots().by_id(head.parent_snapshot_id).commit()

    with pytest.raises(RebuildError, match="2 dead letters of what was built are counted, but its snapshots show 1"):
        rebuild(log, report=expire_first).perform()
    assert letters(log) == [0, 3]
    rebuild(log).discard()
    rebuild(log).perform()

    assert letters(log) == [0, 3]
    check_as_new(log)


BATCH = sampled(STEPS[STEPS.index("plan") :], keep=("ingest", "stage", "publish", "reveal").__contains__)


@pytest.mark.parametrize("step", BATCH)
@pytest.mark.parametrize("is_rewind", [False, True], ids=["rebuild", "rewind"])
def test_a_rebuild_whose_branch_is_dropped_says_so(changelog: Changelog, step: str, *, is_rewind: bool) -> None:
    done: list[str] = []

    def drop(when: str, now: str) -> None:
        if (when, now) == ("before", step) and not done:
            done.append(now)
            assert rebuild(changelog).discard()

    act = rewind(changelog, TO_3) if is_rewind else rebuild(changelog)
    act.clients = replace(act.clients, observe=drop)
    with pytest.raises(RebuildError, match="what was built of the table is gone"):
        act.perform()

    assert not rebuild(changelog).discard()
    rebuild(changelog).perform()
    check_as_new(changelog)


def test_a_rebuild_begins_again_if_the_table_was_rolled_back_behind_it(changelog: Changelog) -> None:
    of_mode("upsert", changelog)
    progress: list[RebuildProgress] = []

    def die(now: RebuildProgress) -> None:
        progress.append(now)
        if len(progress) == 2:
            raise KilledError

    with pytest.raises(KilledError):
        rebuild(changelog, report=die).perform()
    move(changelog, of_epoch(changelog, 1))

    (receipt,) = rebuild(changelog).perform()

    assert progress[-1].read == 6
    assert [(each.start, each.end) for each in receipt.ranges] == [(0, 3)]
    changelog.catch_up()
    check_as_new(changelog)


def test_a_rebuild_says_that_the_table_was_rolled_back_meanwhile(changelog: Changelog) -> None:
    def roll_back(now: RebuildProgress) -> None:
        if now.read == 8:
            move(changelog, of_epoch(changelog, 1))

    with pytest.raises(RebuildError, match="was rolled back to epoch 1 meanwhile"):
        rebuild(changelog, report=roll_back).perform()

    rebuild(changelog).perform()
    changelog.catch_up()
    check_as_new(changelog)
