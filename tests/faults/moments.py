"""The moments of a batch: before and after each of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from frazil.materialize.clients import STEPS, Observer, Step
from tests.sampling import sampled

Moment = tuple[str, Step]
"""Before or after a step."""

EVERY_MOMENT: list[Moment] = [(when, step) for step in STEPS for when in ("before", "after")]
MADE_READY = STEPS[: STEPS.index("plan")]
STOPS = [("before", "create"), ("before", "evolve"), ("after", "repartition")]
MOMENTS = sampled(EVERY_MOMENT, keep=lambda moment: moment in STOPS or moment[1] not in MADE_READY)
"""Of the steps before the plan, which stage nothing, `make test` takes the first moment, the last and one between."""
BOUNDARIES: list[Moment] = [*(moment for moment in MOMENTS if moment[0] == "before"), ("after", STEPS[-1])]
"""Before the first step, between any two, and after the last."""
Act = Callable[[], object]


def at(moment: Moment, act: Act) -> Observer:
    """Do something once, the first time that a run comes to a moment."""
    left: Iterator[Act] = iter([act])

    def observe(when: str, step: Step) -> None:
        if (when, step) == moment:
            for once in left:
                once()
                break

    return observe
