"""How each check is made: bounded in time, and whatever it raises becomes a finding."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from frazil.doctor.finding import NO_ANSWER, Finding, Part, failed
from frazil.model.errors import DefectError, FrazilError, ServiceError

SECONDS = 5.0
"""What a check may take: an address where nobody answers costs no more."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes the checks of one part."""

    part: Part
    seconds: float = SECONDS

    def ask(self, what: str, act: Callable[[], str], *, hint: str = "") -> Finding:
        """What `act` says, within the time; `hint` is for what went well and yet needs a word."""
        try:
            return Finding(self.part, what, "ok", self.within(act), hint)
        except FrazilError as problem:
            return failed(self.part, what, problem)

    def within(self, act: Callable[[], Answer]) -> Answer:
        """Run `act` with a time limit. Raises ServiceError if it takes longer, DefectError if it fails unexpectedly.

        Libraries have time limits of their own, of up to minutes: the one that is late is left behind in its thread.
        """
        done: queue.Queue[Answer | FrazilError] = queue.Queue()
        threading.Thread(target=lambda: done.put(_outcome(act)), name=f"doctor-{self.part}", daemon=True).start()
        try:
            outcome = done.get(timeout=self.seconds)
        except queue.Empty:
            raise ServiceError(
                f"{NO_ANSWER} {self.seconds:g} s",
                hint="check whether a firewall, a security group or a missing route drops the packets",
            ) from None
        if isinstance(outcome, FrazilError):
            raise outcome
        return outcome


def _outcome(act: Callable[[], Answer]) -> Answer | FrazilError:
    try:
        return act()
    except FrazilError as problem:
        return problem
    except BaseException as problem:  # noqa: BLE001 - a panic of a native library is no Exception, and must be told, too
        return DefectError(
            f"{type(problem).__name__}: {problem}", hint="report this as a defect, with the whole output"
        )
