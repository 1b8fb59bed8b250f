"""An erasure whose process dies at a commit, or whose commits are lost or unanswered: the next run completes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count

import pytest

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.sought_value import sought_in
from frazil.forget.perform import Erased, Erasure
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import standing
from frazil.model.errors import FrazilError
from frazil.model.settings import CatalogSettings
from frazil.verify.table import verify_table
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import sampled
from tests.table.small_lake import Read, SmallLake

NOW = datetime(2026, 2, 1, tzinfo=UTC)
COMMITS = 10
"""The pause, an expiry, two commits of the dead letters, two of the rows, two expiries, the note, the resumption."""
_IDS = count()


def cases() -> Iterator[tuple[str, int]]:
    return ((act, number) for number in range(1, COMMITS + 1) for act in ACTS)


def erasure(lake: SmallLake, through: IcebergLake) -> Erasure:
    sought = sought_in(lake.view, "kafka_key", "21")
    return Erasure(through, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_IDS)}")


def proven(lake: SmallLake) -> bool:
    lake.restart()
    return verify_table(lake.lake, lake.spec).clean


SAMPLE = [("die after", 2), ("die after", 4), ("lose the answer", 4), ("lose the answer", 6), ("lose the commit", 6)]


@pytest.mark.parametrize(("act", "number"), sampled(cases(), keep=SAMPLE.__contains__))
def test_each_commit_may_fail_and_the_next_run_completes_the_erasure(lake: SmallLake, act: str, number: int) -> None:
    settings = CatalogSettings("jdbc", str(lake.folder))
    disturbed_lake = WatchedLake(settings, around=disturbed(act, number))

    with suppress(DiedError, FrazilError):
        erasure(lake, disturbed_lake).perform()
    assert proven(lake)
    done: Erased = erasure(lake, lake.lake).perform()

    assert done.is_complete
    assert proven(lake)
    assert pause_of(lake.view.properties) is None
    (source,) = standing(lake.view, pipeline=lake.spec.pipeline).state.sources
    assert {number: each.forgotten for number, each in source.partitions.items()} == {0: 0, 1: 1}
    lake.state = standing(lake.view, pipeline=lake.spec.pipeline).state
    lake.batch(Read("orders", 0, 100, 110))
    assert proven(lake)
