"""What histories that Hypothesis makes have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


class HistoryMachine(RuleBasedStateMachine):
    """Its rules are what may happen to a table in `folder`. A subclass says in `end` what is compared at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def end(self) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # nothing has failed so far
                self.end()
        finally:
            self._folder.cleanup()


def look_for_a_difference(machine: type[HistoryMachine], *, histories: int, steps: int) -> None:
    """Fail with the shortest history that fails, of so many of at most so many steps."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=histories, stateful_step_count=steps, suppress_health_check=slow)
    )
