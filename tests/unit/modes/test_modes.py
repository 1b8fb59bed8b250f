"""A table spec may name the modes that exist, and append takes nothing out."""

from __future__ import annotations

from typing import get_args

from frazil.model.ingested import WrittenFile
from frazil.model.spec import WriteMode
from frazil.modes.mode import BatchChange, Written, find_none
from frazil.modes.open import MODES


def test_every_word_that_a_spec_may_have_is_a_mode_of_that_name() -> None:
    assert set(MODES) == set(get_args(WriteMode))
    assert all(mode.name == word for word, mode in MODES.items())


def test_append_adds_every_file_and_as_many_rows_as_were_counted() -> None:
    files = [WrittenFile(f"f{n}", rows=n, size=1, partition=(), spec_id=0) for n in (2, 3)]

    change = MODES["append"].change(Written(files, rows=5), find_none)

    assert change == BatchChange(files, {"added-records": 5, "deleted-records": 0})
