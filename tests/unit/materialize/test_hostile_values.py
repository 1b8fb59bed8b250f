"""Each of many hostile values has one outcome: `python -m bench.hostile` runs millions of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import hostile
from bench.hostile_formats import AVRO, HOSTILE_FORMATS
from bench.hostile_payloads import BOMBS, HostileFormat, hostile_values
from frazil.formats.native import native_available
from frazil.model.ingested import IngestTask, TaskResult

VALUES, VALUES_IN_PYTHON = 100_000, 2_000
FEW_REASONS = {"JSON as text": 3, "Text": 2, "Bytes": 1}
"""How many reasons there are at least. Other formats have more than eight."""


@pytest.mark.parametrize("given", HOSTILE_FORMATS, ids=lambda given: given.name)
def test_each_hostile_value_is_a_row_a_change_or_a_dead_letter(given: HostileFormat, tmp_path: Path) -> None:
    count = VALUES if native_available() else VALUES_IN_PYTHON

    found = hostile.run_round(given, count, 1, tmp_path)

    dead = sum(found.dead_letters.values())
    assert (found.values, found.rows + found.deletes + found.skipped + dead) == (count, count)
    assert found.rows > count // 40
    assert len(found.dead_letters) >= FEW_REASONS.get(given.name, 9)


def test_a_value_that_is_lost_or_double_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = hostile.ingest

    for change in (lambda files: files[1:], lambda files: (*files, *files)):

        def ingest(task: IngestTask, *, change: object = change, **how: object) -> TaskResult:
            result = real(task, **how)  # type: ignore[arg-type]
            return hostile.replace(result, row_files=change(result.row_files))  # type: ignore[operator]

        monkeypatch.setattr(hostile, "ingest", ingest)
        with pytest.raises(hostile.UnaccountedError, match="Avro, seed 1: 2000 values"):
            hostile.run_round(AVRO, VALUES_IN_PYTHON, 1, tmp_path)


def test_the_same_seed_gives_the_same_values_and_compression_bombs_are_among_them() -> None:
    (glue, *_) = (each for each in HOSTILE_FORMATS if each.wire_format == "glue")

    first, again, other = (hostile_values(glue, 5_000, seed) for seed in (1, 1, 2))

    assert (first == again, first == other) == (True, False)
    assert any(value is not None and len(value) * 500 < max(BOMBS) for value in first[::100])
