"""What `make test-quick` leaves out is what exists and is named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import quick

TESTS = Path(__file__).parents[1]


def test_every_file_that_is_left_out_exists() -> None:
    assert [name for name in sorted(quick.LEFT_TO_MAKE_TEST) if not (TESTS / name).is_file()] == []


def test_modules_that_drive_whole_batches_exist() -> None:
    names = quick.DRIVES_WHOLE_BATCHES.pattern.partition("(")[2].partition(")")[0].split("|")

    assert [name for name in names if not (TESTS / "unit/materialize" / f"{name}.py").is_file()] == []


@pytest.mark.parametrize("is_quick", [True, False])
def test_files_are_left_out_of_a_quick_run_only(monkeypatch: pytest.MonkeyPatch, is_quick: bool) -> None:
    monkeypatch.setattr(quick, "QUICK", is_quick)
    of_batches = {
        path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if quick.drives_whole_batches(path)
    }

    found = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if quick.is_left_out(path)}

    assert "unit/materialize/test_upserts.py" in of_batches
    assert found == (quick.LEFT_TO_MAKE_TEST | of_batches if is_quick else set())
