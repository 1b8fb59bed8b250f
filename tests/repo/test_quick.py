"""What `make test-quick` leaves out is what exists and is named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import quick

TESTS = Path(__file__).parents[1]


def test_every_file_that_is_left_out_exists() -> None:
    assert [name for name in sorted(quick.LEFT_TO_MAKE_TEST) if not (TESTS / name).is_file()] == []


@pytest.mark.parametrize(("is_quick", "left_out"), [(True, quick.LEFT_TO_MAKE_TEST), (False, frozenset())])
def test_files_are_left_out_of_a_quick_run_only(
    monkeypatch: pytest.MonkeyPatch, is_quick: bool, left_out: frozenset[str]
) -> None:
    monkeypatch.setattr(quick, "QUICK", is_quick)

    found = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if quick.is_left_out(path)}

    assert found == left_out
