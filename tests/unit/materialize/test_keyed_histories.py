"""Tables of plain records, held against a model in plain Python while processes die and other engines change them.

Hypothesis looks for the shortest history after which the two differ, and shows what happens in it.
"""

from __future__ import annotations

from functools import partial

import pytest
from modelled_keys import Rules
from random_keys import KeysCampaign
from state_machines import look_for_a_difference

from frazil.maintain import rewriting
from tests.sampling import examples

RULES = {
    "append": Rules("append"),
    "upsert": Rules("upsert"),
    "upsert, in order of time": Rules("upsert", by_time=True),
    "deduplicate": Rules("deduplicate"),
    "history": Rules("history"),
    "history, in order of time": Rules("history", by_time=True),
}


@pytest.mark.parametrize("name", RULES)
def test_whatever_happens_the_table_is_that_of_the_model(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)  # rewrite files between batches, however small
    begin = partial(KeysCampaign.of, RULES[name])
    look_for_a_difference(begin, short=3, long=500, steps=examples(20, 16))
