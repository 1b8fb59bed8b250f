"""A driver that stops and continues where a test says: deterministic interleavings."""

from __future__ import annotations

import threading

from frazil.materialize.clients import Step
from frazil.materialize.outcome import Outcome
from frazil.materialize.run import TableRun
from tests.faults.moments import Moment
from tests.faults.world import WAIT_SECONDS, World


class Stepped:
    """One batch of one run, in a thread of its own."""

    def __init__(self, world: World, **clients: object) -> None:
        self.run: TableRun = world.run(self._observe, **clients)
        self.outcome: Outcome | BaseException | None = None
        self._target: Moment | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._carry_out, daemon=True)

    def until(self, moment: Moment) -> None:
        """Continue to the moment. Fails if the batch ends before."""
        self._advance(moment)
        assert self.outcome is None, f"ended with {self.outcome!r} before {moment}"

    def finish(self) -> Outcome | BaseException:
        """Continue to the end, and return the outcome of the batch."""
        if self.outcome is None:
            self._advance(None)
        self._thread.join(WAIT_SECONDS)
        assert self.outcome is not None
        return self.outcome

    def _advance(self, target: Moment | None) -> None:
        self._target = target
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        assert self._stopped.acquire(timeout=WAIT_SECONDS), f"did not come to {target or 'its end'}"

    def _observe(self, when: str, step: Step) -> None:
        if (when, step) == self._target:
            self._stopped.release()
            assert self._go.acquire(timeout=WAIT_SECONDS), f"was left standing {when} {step}"

    def _carry_out(self) -> None:
        try:
            self.outcome = self.run.batch()
        except BaseException as failure:
            self.outcome = failure
        self._stopped.release()
