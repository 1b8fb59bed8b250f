"""`cdc: debezium`, held against a model in plain Python while processes die and other engines change the table.

A failure names its setting and seed, and shows what has happened.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from modelled_changes import Rules
from random_changes import Campaign
from written_changes import Setting

from frazil.maintain import rewriting
from tests.sampling import LONG, sampled

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
    "JSON, truncates": Setting("json", 1, partition_by=("notes",)),
    "JSON, positions": Setting("json", rules=BY_SOURCE, partition_by=("truncate(1, notes)",)),
    "JSON, soft deletes": Setting("json", rules=SOFT, partition_by=("truncate(1, notes)",)),
}
SHORT = ("truncates", "positions", "JSON, soft deletes")
STEPS, SEEDS = (25, 20) if LONG else (12, 1)


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
@pytest.mark.parametrize("name", sampled(SETTINGS, keep=SHORT.__contains__))
def test_whatever_happens_the_table_is_that_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)  # rewrite files between batches, however small
    campaign = Campaign.at(tmp_path, SETTINGS[name], seed)

    try:
        campaign.carry_out(STEPS)
    finally:
        print("\n".join(campaign.log))
