"""`cdc: debezium`, held against a model in plain Python while processes die and other engines change the table.

Hypothesis looks for the shortest history after which the two differ, and shows what happens in it.
"""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from modelled_changes import Event, Rules
from random_changes import ChangesCampaign
from state_machines import look_for_a_difference
from written_changes import Setting

from frazil.maintain import rewriting
from frazil.materialize.rebuild.rewind import ToOffsets
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


def test_a_delete_that_a_rewind_found_remembered_outlasts_its_own_time(tmp_path: Path) -> None:
    """A search finds this in one of some hundred histories: rewind late, read another delete, then an old event."""
    table = ChangesCampaign.of(Setting("avro", 1, rules=BY_SOURCE), tmp_path, random.Random(1))
    for event in (Event("c", 1, 10, "a"), Event("d", 1, 20), Event("c", 2, 5, "b"), Event("u", 2, 6, "c")):
        table.write(0, event, later=False)
        table.catch_up()
    table.check(whole=True)
    table.now += table.spec.delete_memory + timedelta(hours=1)
    table._rebuild(table.driver(), ToOffsets({"orders": {0: 3}}))

    for event in (Event("d", 3, 1), Event("u", 1, 15, "late")):
        table.write(0, event, later=False)
        table.catch_up()

    table.check(whole=True)
    assert [key for key, _ in table.rows()] == [2]
