"""Run checks with a time limit, and turn their errors into findings."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from frazil.doctor.finding import NO_ANSWER, Finding, Part, failed
from frazil.model.errors import DefectError, FrazilError, ServiceError

SECONDS = 5.0
"""The time limit of a check, which also bounds the wait for an address that does not answer."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asking:
    """Runs the checks of one part."""

    part: Part
    seconds: float = SECONDS
    if_silent: str = "check whether a firewall, a security group or a missing route drops the packets"
    """The hint for a check that takes longer."""

    def ask(self, what: str, act: Callable[[], str], *, hint: str = "") -> Finding:
        """Run `act` with a time limit and return a finding with its result or error; `hint` is added on success."""
        try:
            return Finding(self.part, what, "ok", self.within(act), hint)
        except FrazilError as problem:
            return failed(self.part, what, problem)

    def within(self, act: Callable[[], Answer]) -> Answer:
        """Run `act` with a time limit. Raises ServiceError if it takes longer, DefectError if it fails unexpectedly.

        Libraries have their own time limits of up to minutes, so a late call is abandoned in its thread.
        """
        done: queue.Queue[Answer | FrazilError] = queue.Queue()
        threading.Thread(target=lambda: done.put(_outcome(act)), name=f"doctor-{self.part}", daemon=True).start()
        try:
            outcome = done.get(timeout=self.seconds)
        except queue.Empty:
            raise ServiceError(f"{NO_ANSWER} {self.seconds:g} s", hint=self.if_silent) from None
        if isinstance(outcome, FrazilError):
            raise outcome
        return outcome


def _outcome(act: Callable[[], Answer]) -> Answer | FrazilError:
    try:
        return act()
    except FrazilError as problem:
        return problem
    except BaseException as problem:  # noqa: BLE001 - a panic in a native library is not an Exception
        return DefectError(
            f"{type(problem).__name__}: {problem}", hint="report this as a defect, with the whole output"
        )
