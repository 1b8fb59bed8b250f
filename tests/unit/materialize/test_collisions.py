"""Keys whose identities have an equal first half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from changelogs import Changelog
from deduplicated import Duplicates
from test_whole_histories import History

from frazil.modes import identified, identity
from frazil.modes.identity import FIRST, identities


def colliding(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return identities that differ in their second half only."""
    first, second = identities(rows).columns
    sevens = pa.array(np.full(len(first), 7), mask=first.is_null().to_numpy(zero_copy_only=False))
    return pa.RecordBatch.from_arrays([sevens, second], schema=identities(rows).schema)


@pytest.fixture(autouse=True)
def collisions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (identified, identity):
        monkeypatch.setattr(module, "identities", colliding)


def assert_collided(changelog: Changelog) -> None:
    halves = changelog.world.lake.read(changelog.view, columns=[FIRST], equal={})
    assert {half for batch in halves for half in batch.column(0).to_pylist()} == {7}
    assert changelog.against_kafka().findings == ()


def test_keys_whose_first_halves_collide_keep_rows_of_their_own(tmp_path: Path) -> None:
    changelog = Changelog.at(tmp_path)
    for value in range(3):
        changelog.send(*((key, value) for key in "abcdcba"), ("b", None))
        changelog.catch_up()

        changelog.check()
    assert_collided(changelog)


def test_versions_of_keys_whose_first_halves_collide_end_with_their_own_key(tmp_path: Path) -> None:
    history = History.at(tmp_path)
    for batch in range(3):
        history.sent_at(*((key, batch, 10 * batch + n) for n, key in enumerate("abcba")), ("b", None, 10 * batch + 9))
        history.catch_up()

        history.check()
    assert_collided(history)


def test_ids_whose_first_halves_collide_are_no_duplicates(tmp_path: Path) -> None:
    events = Duplicates.at(tmp_path)
    for batch in (["a", "b", "a"], ["b", "c"], ["a", "d"]):
        events.send_events(*((event, 1, 0) for event in batch))
        events.catch_up()

        events.check()
    assert_collided(events)
