"""Run transformations: each once, or again and again until stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from frazil.materialize.scheduling.schedule import Stopping
from frazil.materialize.scheduling.waiting import Failures
from frazil.model.errors import FrazilError
from frazil.transforms.run import Transformation, Transformed


@dataclass(frozen=True, slots=True)
class Report:
    """What a transformation did in this process. `failure` is the error that ended it."""

    name: str
    batches: int = 0
    rows: int = 0
    failure: FrazilError | None = None


def run_once(
    transformations: Sequence[Transformation], stopping: Stopping, on_batch: Callable[[Transformed], None]
) -> list[Report]:
    """Bring each up to date with the table that it follows."""
    return [_caught_up(each, on_batch) for each in _until_stopped(transformations, stopping)]


def run_every(
    transformations: Sequence[Transformation],
    seconds: float,
    stopping: Stopping,
    on_batch: Callable[[Transformed], None],
) -> list[Report]:
    """Look for new rows of each table every so many seconds, until stopped, or until none can continue.

    An error of a service is logged, and the batch is tried again at the next look.
    """
    failures = {each.spec.name: Failures(each.spec.identifier) for each in transformations}
    totals = {each.spec.name: Report(each.spec.name) for each in transformations}
    left = list(transformations)
    while left and not stopping.asked:
        for each in _until_stopped(left, stopping):
            now, before = _caught_up(each, on_batch), totals[each.spec.name]
            failures[now.name].note(now.failure)
            ended = now.failure if now.failure is not None and not now.failure.worth_retrying else None
            totals[now.name] = Report(now.name, before.batches + now.batches, before.rows + now.rows, ended)
        left = [each for each in left if totals[each.spec.name].failure is None]
        if left:
            stopping.sleep(seconds)
    return [*totals.values()]


def _until_stopped(transformations: Sequence[Transformation], stopping: Stopping) -> Iterator[Transformation]:
    return (each for each in transformations if not stopping.asked)


def _caught_up(transformation: Transformation, on_batch: Callable[[Transformed], None]) -> Report:
    name = transformation.spec.name
    try:
        done = transformation.batch()
    except FrazilError as failure:
        return Report(name, failure=failure)
    if done is None:
        return Report(name)
    on_batch(done)
    return Report(name, 1, done.written)
