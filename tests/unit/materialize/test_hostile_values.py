"""Each of many hostile values is a row or a dead letter: `python -m bench.hostile` runs millions of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import hostile
from bench.hostile_payloads import BOMBS, HOSTILE_FORMATS, HostileFormat, hostile_values
from frazil.formats.native import native_available
from frazil.model.ingested import IngestTask, TaskResult
from tests.sampling import examples

VALUES, VALUES_IN_PYTHON = examples(25_000, 100_000), 2_000


@pytest.mark.parametrize("given", HOSTILE_FORMATS, ids=lambda given: given.name)
def test_each_hostile_value_is_a_row_or_a_dead_letter(given: HostileFormat, tmp_path: Path) -> None:
    count = VALUES if given.is_native and native_available() else VALUES_IN_PYTHON

    found = hostile.run_round(given, count, 1, tmp_path)

    dead = sum(found.dead_letters.values())
    assert (found.values, found.rows + dead) == (count, count)
    assert count // 20 < found.rows < count // 2
    assert len(found.dead_letters) > 8


def test_a_value_that_is_lost_or_double_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (given, *_) = HOSTILE_FORMATS
    real = hostile.ingest

    for change in (lambda files: files[1:], lambda files: (*files, *files)):

        def ingest(task: IngestTask, *, change: object = change, **how: object) -> TaskResult:
            result = real(task, **how)  # type: ignore[arg-type]
            return hostile.replace(result, row_files=change(result.row_files))  # type: ignore[operator]

        monkeypatch.setattr(hostile, "ingest", ingest)
        with pytest.raises(hostile.UnaccountedError, match="Avro, seed 1: 2000 values"):
            hostile.run_round(given, VALUES_IN_PYTHON, 1, tmp_path)


def test_the_same_seed_gives_the_same_values_and_compression_bombs_are_among_them() -> None:
    glue = HOSTILE_FORMATS[-1]

    first, again, other = (hostile_values(glue, 5_000, seed) for seed in (1, 1, 2))

    assert (first == again, first == other) == (True, False)
    assert any(value is not None and len(value) * 500 < max(BOMBS) for value in first[::100])
