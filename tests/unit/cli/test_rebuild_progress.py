"""What `frazil rebuild` says of its progress after each batch."""

from __future__ import annotations

import pytest

from frazil.cli.rebuild import progress_words
from frazil.materialize.rebuild.perform import RebuildProgress


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (RebuildProgress(300_000, 1_200_000, 300_000, 20.0), "300,000 of 1,200,000 offsets, 15,000/s, 60 s left"),
        (RebuildProgress(960_000, 1_200_000, 100_000, 50.0), "960,000 of 1,200,000 offsets, 2,000/s, 2 min left"),
        (RebuildProgress(1_200_000, 1_200_000, 100, 2.0), "1,200,000 of 1,200,000 offsets, 50/s"),
        (RebuildProgress(600, 1_200, 0, 5.0), "600 of 1,200 offsets"),
        (RebuildProgress(600, 1_200, 600, 0.0), "600 of 1,200 offsets"),
    ],
    ids=["from the start", "after an earlier process", "done", "nothing yet", "no time yet"],
)
def test_progress_has_the_rate_of_this_process_and_the_time_left(progress: RebuildProgress, words: str) -> None:
    assert progress_words(progress) == words
