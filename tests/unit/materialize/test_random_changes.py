"""`cdc: debezium`, held against a model in plain Python while processes die and other engines change the table.

Hypothesis looks for the shortest history after which the two differ, and shows what happens in it.
"""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from hypothesis import note
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.strategies import integers, randoms
from modelled_changes import Rules
from random_changes import Campaign
from state_machines import HistoryMachine, look_for_a_difference
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
    "JSON, truncates": Setting("json", 1, partition_by=("notes",)),
    "JSON, positions": Setting("json", rules=BY_SOURCE, partition_by=("truncate(1, notes)",)),
    "JSON, soft deletes": Setting("json", rules=SOFT, partition_by=("truncate(1, notes)",)),
}
SHORT = ("truncates", "positions", "JSON, soft deletes")
EVENTS = integers(0, 5)
"""How many are written before each step."""


class History(HistoryMachine):
    """What happens to the topic and its table, in any order. After each step the two are compared."""

    setting: ClassVar[Setting]
    campaign: Campaign

    @initialize(draw=randoms(use_true_random=False))
    def begin(self, draw: random.Random) -> None:
        self.campaign = Campaign.at(self.folder, self.setting, draw)

    @rule(events=EVENTS)
    def something_happens_during_a_batch(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.disturbed, events)

    @rule(events=EVENTS)
    def another_driver_runs(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.other_driver, events)

    @rule(events=EVENTS)
    def files_are_rewritten(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.rewrite, events)

    @rule(events=EVENTS)
    def another_engine_changes_the_table(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.draw.choice(self.campaign.of_others()), events)

    @rule(events=EVENTS)
    def another_engine_rolls_back(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.roll_back, events)

    @rule(events=EVENTS)
    def the_schema_changes(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.evolve, events)

    @rule(events=EVENTS)
    def the_table_is_rebuilt(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.rebuild, events)

    @rule(events=EVENTS)
    def the_table_is_rewound(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.rewind, events)

    @precondition(lambda self: self.setting.rules.by_source)
    @rule(events=EVENTS)
    def time_passes(self, events: int) -> None:
        self.campaign.carry_out(self.campaign.wait, events)

    @invariant()
    def the_table_is_that_of_the_model(self) -> None:
        self.campaign.check(whole=self.campaign.draw.random() < 0.3)

    def end(self) -> None:
        self.campaign.end()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            note("\n".join(self.campaign.log))


@pytest.mark.parametrize("name", sampled(SETTINGS, keep=SHORT.__contains__))
def test_whatever_happens_the_table_is_that_of_the_model(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)  # rewrite files between batches, however small
    machine = type("History", (History,), {"setting": SETTINGS[name]})
    look_for_a_difference(machine, histories=examples(4, 50), steps=examples(12, 25))
