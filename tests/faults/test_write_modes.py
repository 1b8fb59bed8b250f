"""What the tests of all write modes expect of a table, and that their topics make a difference to it."""

from __future__ import annotations

import pytest

from frazil.model.spec import WriteMode
from tests.faults.world import World, assert_exactly_once
from tests.faults.write_modes import Row, Sent, in_every_mode, rows_of

FIRST, SECOND = Sent((0, 0), "a", 1, 10), Sent((0, 1), "a", 2, 30)
GONE, BACK = Sent((0, 2), "a", None, 20), Sent((0, 3), "a", 3, 40)
RECORDS = [BACK, GONE, SECOND, FIRST]
"""Those of a key, whose timestamps are not in order."""


@pytest.mark.parametrize(
    ("mode", "records", "expected"),
    [
        ("upsert", RECORDS, [Row(BACK)]),
        ("upsert", RECORDS[1:], []),
        ("deduplicate", RECORDS, [Row(FIRST)]),
        ("history", RECORDS, [Row(FIRST, 10, 30), Row(SECOND, 30, 30), Row(BACK, 40)]),
        ("history", [GONE, BACK], [Row(BACK, 40)]),
    ],
)
def test_a_key_has_the_rows_of_its_mode(mode: WriteMode, records: list[Sent], expected: list[Row]) -> None:
    rows, _ = rows_of(mode, records)

    assert rows == expected


def test_a_replayed_letter_comes_after_the_records_behind_it() -> None:
    late = Sent((0, 0), "a", 1, 10, replayed=True)

    assert rows_of("upsert", [late, SECOND]) == ([Row(SECOND)], 1)
    assert rows_of("deduplicate", [late, SECOND]) == ([Row(SECOND)], 1)
    assert rows_of("history", [late, SECOND]) == ([Row(late, 10, 30), Row(SECOND, 30)], 0)


@in_every_mode
def test_records_change_the_rows_of_earlier_batches(local_world: World, write: WriteMode) -> None:
    local_world.produce(24)

    local_world.catch_up()

    assert_exactly_once(local_world)
    state = local_world.standing().state
    replaced = sum(each.replaced for each in state.sources[0].partitions.values())
    assert (replaced > 0) == (write == "upsert")
    assert (state.total().duplicates > 0) == (write == "deduplicate")
    assert (state.total().deletes > 0) == (write in ("upsert", "history"))
    if write == "history":
        assert (False,) in local_world.scanned(local_world.spec.identifier, "is_current")
