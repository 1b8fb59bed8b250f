"""`cdc: debezium`, held against a model in plain Python while processes die and other engines change the table.

Hypothesis looks for the shortest history after which the two differ, and shows what happens in it.
"""

from __future__ import annotations

from functools import partial

import pytest
from modelled_changes import Rules
from random_changes import ChangesCampaign
from state_machines import look_for_a_difference
from written_changes import Setting

from frazil.maintain import rewriting
from tests.sampling import examples, sampled

BY_SOURCE, SOFT = Rules(by_source=True), Rules(soft=True)
SETTINGS = {
    "truncates": Setting("avro", 1),
    "offsets": Setting("avro"),
    "soft deletes": Setting("avro", rules=SOFT),
    "positions": Setting("avro", rules=BY_SOURCE),
    "positions, soft deletes": Setting("avro", rules=Rules(by_source=True, soft=True)),
    "positions, masked": Setting("avro", rules=BY_SOURCE, masked=True, partition_by=("notes",)),
    "schemas in JSON, truncates": Setting("connect_json", 1),
    "schemas in JSON, positions": Setting("connect_json", rules=BY_SOURCE),
    "JSON Schema, truncates": Setting("json_schema", 1),
    "JSON Schema, positions": Setting("json_schema", rules=BY_SOURCE),
    "JSON Schema, soft deletes": Setting("json_schema", rules=SOFT),
    "JSON, truncates": Setting("json", 1, partition_by=("notes",)),
    "JSON, positions": Setting("json", rules=BY_SOURCE, partition_by=("truncate(1, notes)",)),
    "JSON, soft deletes": Setting("json", rules=SOFT, partition_by=("truncate(1, notes)",)),
}
SHORT = ("truncates", "positions", "JSON, soft deletes")


@pytest.mark.parametrize("name", sampled(SETTINGS, keep=SHORT.__contains__))
def test_whatever_happens_the_table_is_that_of_the_model(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)  # rewrite files between batches, however small
    begin = partial(ChangesCampaign.of, SETTINGS[name])
    look_for_a_difference(begin, short=4, long=50, steps=examples(18, 25))
