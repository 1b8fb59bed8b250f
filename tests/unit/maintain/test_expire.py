"""Which snapshots expire: values in, values out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from frazil.maintain.expire import AT_MOST, expiry_of, is_due
from frazil.maintain.expiring import Expiring
from frazil.model.expiry import Expiry
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import KeepSnapshots
from frazil.model.summary import REWRITTEN_BY, store

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
OURS = store(TableState("p", 1, "w", "b", ())).summary
NO_DAYS = KeepSnapshots(daily=0)


def snapshots(*hours_ago: float, first: int = 1, parent: int | None = None, ours: bool = True) -> list[Snapshot]:
    """A chain, oldest first."""
    made: list[Snapshot] = []
    for number, hours in enumerate(hours_ago, start=first):
        made.append(Snapshot(number, parent, "append", OURS if ours else {}, NOON - timedelta(hours=hours)))
        parent = number
    return made


def view(
    chain: list[Snapshot],
    *others: Snapshot,
    head: int | None = None,
    branches: Mapping[str, int] | None = None,
    tags: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableView:
    at = chain[-1].id if head is None else head
    return TableView(
        identifier="lake.orders", location="", head=at, branches={"main": at, **(branches or {})}, tags=tags or {},
        snapshots={each.id: each for each in (*chain, *others)}, properties=properties or {}, columns=(),
        format_version=2, schema_json="", partition_spec_json="", partition_fields=(), current=None,
    )  # fmt: skip


def expiry(at: TableView, keep: KeepSnapshots = NO_DAYS, *, now: datetime = NOON) -> Expiry:
    return expiry_of(at, keep, now=now, checkpoint="frazil_checkpoint")


def test_snapshots_older_than_the_age_expire_oldest_first() -> None:
    assert expiry(view(snapshots(50, 25, 24, 23, 0))).snapshots == (1, 2)


def test_of_age_and_count_whichever_keeps_fewer_decides() -> None:
    chain = snapshots(30, 4, 3, 2, 1, 0)

    assert expiry(view(chain), KeepSnapshots(timedelta(hours=24), 2, 0)).snapshots == (1, 2, 3, 4)
    assert expiry(view(chain), KeepSnapshots(timedelta(hours=2), 100, 0)).snapshots == (1, 2, 3)


@pytest.mark.parametrize("ahead", [timedelta(days=2), timedelta(days=400)])
def test_a_clock_ahead_expires_nothing_extra(ahead: timedelta) -> None:
    assert expiry(view(snapshots(50, 23, 0)), now=NOON + ahead).snapshots == (1,)


def test_a_clock_behind_expires_less() -> None:
    assert expiry(view(snapshots(50, 23, 0)), now=NOON - timedelta(hours=30)).snapshots == ()


def test_everything_from_the_head_to_the_checkpoint_and_the_state_stays() -> None:
    chain = [*snapshots(160, 155), *snapshots(100, 50, 0, first=3, parent=2, ours=False)]

    assert expiry(view(chain, tags={"frazil_checkpoint": 2})).snapshots == (1,)
    assert expiry(view(chain)).snapshots == (1,)
    assert expiry(view(chain, tags={"frazil_checkpoint": 1})).snapshots == ()


def test_the_checkpoint_that_a_rollback_left_ahead_stays() -> None:
    assert expiry(view(snapshots(200, 150, 100, 30), head=2, tags={"frazil_checkpoint": 4})).snapshots == (1, 3)


def test_tags_of_others_and_of_the_delta_log_are_pins() -> None:
    tags = {"audit": 1, "frazil_delta": 3, "frazil_daily_of_somebody": 2}

    assert expiry(view(snapshots(90, 80, 70, 60, 0), tags=tags)).snapshots == (4,)


def test_what_an_output_topic_has_not_sent_stays_for_three_days() -> None:
    chain = snapshots(110, 100, 80, 60, 40, 0)

    assert expiry(view(chain, tags={"frazil_output_clean": 2})).snapshots == (1, 3)
    assert expiry(view(chain, tags={"frazil_output_clean": 2, "frazil_output_all": 5})).snapshots == (1, 3)
    assert expiry(view(chain, tags={"frazil_output_clean": 6})).snapshots == (1, 2, 3, 4, 5)


def test_a_rewrite_stays_as_long_as_the_batch_after_it_is_to_be_sent() -> None:
    """Without it, the batch would not be known to follow what was sent."""
    chain, tags = snapshots(100, 95, 70, 0), {"frazil_output_clean": 1}
    chain[1] = replace(chain[1], operation="replace", summary={REWRITTEN_BY: "w"})

    assert expiry(view(chain, tags=tags)).snapshots == ()
    assert expiry(view([*chain[:2], replace(chain[1], id=3, parent_id=2)], tags=tags)).snapshots == ()
    chain[2] = replace(chain[2], committed_at=NOON - timedelta(hours=80))
    assert expiry(view(chain, tags=tags)).snapshots == (2, 3)


def test_a_branch_is_kept_down_to_where_it_left_main() -> None:
    main = snapshots(90, 80, 70, 0)
    branch = snapshots(75, 74, first=10, parent=2)

    assert expiry(view(main, *branch, branches={"theirs": 11})).snapshots == (1, 3)


def test_a_staging_branch_keeps_its_base() -> None:
    main, staged = snapshots(90, 80, 70, 0), snapshots(69, first=10, parent=3)

    assert expiry(view(main, *staged, branches={"frazil_stage_w_1": 10})).snapshots == (1, 2)


def test_snapshots_on_no_branch_go_by_age_alone() -> None:
    main, left_behind = snapshots(5, 0), snapshots(40, 3, first=10, parent=1)

    assert expiry(view(main, *left_behind), KeepSnapshots(count=2, daily=0)).snapshots == (10,)


def test_the_last_snapshot_of_each_day_is_tagged_for_as_many_days() -> None:
    chain = snapshots(24 * 9, 24 * 7 + 13, 24 * 7, 24 * 7 - 1, 49, 48, 13, 12.5, 11, 0)
    tags = {"frazil_daily_2026-03-02": 1, "frazil_daily_2026-03-03": 3}

    found = expiry(view(chain, tags=tags), KeepSnapshots(daily=7))

    assert found.put == {"frazil_daily_2026-03-08": 6, "frazil_daily_2026-03-09": 8}
    assert found.drop == ("frazil_daily_2026-03-02",)
    assert found.snapshots == (1, 2, 4, 5)


def test_a_day_is_tagged_at_a_snapshot_that_a_rollback_can_go_on_from() -> None:
    chain = [*snapshots(40, 39), *snapshots(38, first=3, parent=2, ours=False), *snapshots(0, first=4, parent=3)]

    assert expiry(view(chain), KeepSnapshots(daily=7)).put == {"frazil_daily_2026-03-08": 2}


def test_a_day_with_commits_of_others_only_is_tagged_as_well() -> None:
    chain = [*snapshots(90), *snapshots(38, 37, first=2, parent=1, ours=False), *snapshots(0, first=4, parent=3)]

    assert expiry(view(chain), KeepSnapshots(daily=7)).put["frazil_daily_2026-03-08"] == 3


def test_a_table_whose_files_belong_to_another_is_left_alone() -> None:
    assert not expiry(view(snapshots(90, 80, 0), properties={"gc.enabled": "false"}))


def test_one_commit_removes_no_more_than_its_share() -> None:
    chain = snapshots(*(100 + n / 100 for n in range(AT_MOST + 10, 0, -1)), 0)

    assert expiry(view(chain)).snapshots == tuple(range(1, AT_MOST + 1))


@pytest.mark.parametrize(
    ("old", "hours", "due"), [(59, 25, False), (60, 25, True), (1, 47, False), (1, 49, True), (0, 0, False)]
)
def test_a_commit_waits_until_there_is_enough(old: int, hours: float, due: bool) -> None:
    at = view(snapshots(*[hours] * old, 1, 0))

    assert is_due(expiry(at), at, NO_DAYS, now=NOON) is due


def test_a_clock_that_is_ahead_from_the_start_does_not_age_what_the_process_found() -> None:
    elapsed = [0.0]
    expiring = Expiring(NO_DAYS, "frazil_checkpoint", clock=lambda: elapsed[0])
    ahead = NOON + timedelta(days=2)
    found = view(snapshots(30, 23, 0))
    own = view([*snapshots(30, 23, 0), Snapshot(4, 3, "append", OURS, ahead)])

    expiring.look(found, now=ahead)
    assert expiring._no_later_than(own, ahead) == NOON
    elapsed[0] = 3600.0
    assert expiring._no_later_than(own, ahead) == NOON + timedelta(hours=1)
    assert expiry(own, now=expiring._no_later_than(own, ahead)).snapshots == (1,)


def test_after_an_idle_month_the_snapshots_of_a_long_run_expire_by_their_own_age() -> None:
    elapsed = [0.0]
    expiring = Expiring(NO_DAYS, "frazil_checkpoint", clock=lambda: elapsed[0])
    month = timedelta(days=30)
    expiring.look(view(snapshots(0)), now=NOON + month)

    elapsed[0] = timedelta(hours=30).total_seconds()
    now = NOON + month + timedelta(hours=30)
    own = [Snapshot(n, n - 1, "append", OURS, NOON + month + timedelta(hours=n)) for n in (2, 10, 29)]

    assert expiring._no_later_than(view([*snapshots(0), *own]), now) == now
    assert expiring._no_later_than(view([*snapshots(0), *own]), now + timedelta(days=2)) == now, "the clock jumped"


def test_time_in_suspend_counts_where_there_is_a_clock_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", {7: 90.0}.__getitem__)
    expiring = Expiring(NO_DAYS, "frazil_checkpoint")

    assert expiring.clock() == 90.0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert expiring.clock() == 5.0


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(days=10)])
def test_a_clock_ahead_keeps_the_daily_tags_that_the_process_found(ahead: timedelta) -> None:
    elapsed, keep = [0.0], KeepSnapshots(timedelta(hours=24), 1_440, 7)
    expiring = Expiring(keep, "frazil_checkpoint", clock=lambda: elapsed[0])
    found = snapshots(*range(7 * 24, 0, -24))
    tags = {f"frazil_daily_{each.committed_at.date().isoformat()}": each.id for each in found}
    expiring.look(view(found, tags=tags), now=NOON + ahead)

    def dropped(hours: int) -> tuple[str, ...]:
        elapsed[0] = hours * 3600.0
        local = NOON + ahead + timedelta(hours=hours)
        own = view([*found, Snapshot(99, found[-1].id, "append", OURS, local)], tags=tags)
        now, tag_time = expiring._no_later_than(own, local), expiring._tag_time(own, local)
        return expiry_of(own, keep, now=now, checkpoint="frazil_checkpoint", tag_time=tag_time).drop

    assert [len(dropped(hours)) for hours in (23, 24, 36, 100)] == [0, 0, 1, 3]
    assert len(dropped(8 * 24)) == 7, "all of them are too old by now"
