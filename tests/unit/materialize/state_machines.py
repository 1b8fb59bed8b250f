"""Histories of tables that Hypothesis makes, and what each search must have had."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from hypothesis.strategies import integers, randoms, sampled_from
from random_histories import Act, Campaign

from tests.sampling import LONG, examples

Begin = Callable[[Path, random.Random], Campaign]


class History(RuleBasedStateMachine):
    """What happens to a topic and its table, in any order. After each step the two are compared.

    A short run deals its acts like cards, so that about as many steps as there are acts carry out each of them.
    """

    begin: ClassVar[Begin]
    done: ClassVar[Counter[str]]
    """What happened in all histories."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self._acts: list[Act] = []

    @initialize(draw=randoms(use_true_random=False))
    def the_table_begins(self, draw: random.Random) -> None:
        self.campaign = type(self).begin(Path(self._folder.name), draw)

    @rule(number=integers(0, 99), events=sampled_from((2, 0, 1, 3, 4, 5)))
    def something_happens(self, number: int, events: int) -> None:
        self._acts = self._acts or [*self.campaign.acts()]
        act, before = self._acts[number % len(self._acts)], self.campaign.done.copy()
        self.campaign.carry_out(act, events)
        if not LONG and self.campaign.done[act.__name__] > before[act.__name__]:
            self._acts.remove(act)

    @invariant()
    def the_table_is_that_of_the_model(self) -> None:
        self.campaign.check(whole=self.campaign.chance(30))

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # nothing has failed so far
                self.campaign.end()
                self.done.update(self.campaign.done)
        finally:
            note("\n".join(self.campaign.log))
            self._folder.cleanup()


def look_for_a_difference(begin: Begin, *, short: int, long: int, steps: int) -> None:
    """Fail with the shortest history that fails, or if something that may happen did not in any of them.

    These are `short` histories, or `long` ones in a long run.
    """
    machine = type("History", (History,), {"begin": staticmethod(begin), "done": Counter()})
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    given = settings(max_examples=examples(short, long), stateful_step_count=steps, suppress_health_check=slow)
    run_state_machine_as_test(machine, settings=given)
    with TemporaryDirectory() as folder:
        wanted = begin(Path(folder), random.Random(0)).happens()
    missing = sorted(wanted - machine.done.keys())
    assert not missing, f"no history had {', '.join(missing)}; there were {dict(machine.done)}"
