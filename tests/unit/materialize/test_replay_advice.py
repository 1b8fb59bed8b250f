"""What `frazil dead-letters replay` advises for dead letters that it leaves."""

from __future__ import annotations

import pytest

from frazil.materialize.replay.advice import advice
from frazil.materialize.replay.request import ReplayResult


@pytest.mark.parametrize("reason", ["order_unknown", "values_unknown", "no_row_to_keep", "truncate"])
def test_letters_whose_place_is_unknown_need_a_rebuild(reason: str) -> None:
    todo = advice(ReplayResult(stayed={"truncated": 1, reason: 2}), "lake.customers")

    assert todo == f"a replay cannot apply {reason}: `frazil rebuild lake.customers` reads all records again"


def test_letters_that_cannot_be_decoded_need_none() -> None:
    assert advice(ReplayResult(stayed={"truncated": 1, "wrong_type": 2}), "lake.customers") is None


def test_letters_of_an_excluded_schema_need_its_inclusion() -> None:
    todo = advice(ReplayResult(stayed={"refused_schema": 2, "truncate": 1}), "lake.customers")

    assert todo == (
        "a replay cannot apply truncate: `frazil rebuild lake.customers` reads all records again; an excluded schema"
        " that the table can hold now stays excluded until"
        " `frazil resume lake.customers --no-dead-letter-schema ID`: run it,"
        " then replay again"
    )
