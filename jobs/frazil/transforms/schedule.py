"""Run transformations: each once, or again and again until stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from frazil.materialize.scheduling.schedule import FAILING_SECONDS, Stopping
from frazil.materialize.scheduling.waiting import Failures
from frazil.model.errors import DefectError, FencedError, FrazilError
from frazil.transforms.run import Transformation, Transformed

LOG = logging.getLogger(__name__)

OnBatch = Callable[[Transformed], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What a transformation did in this process. `failure` is an error that rarely goes away by itself.

    `unsent` is what keeps an output from being sent now: its batches continue.
    """

    name: str
    batches: int = 0
    rows: int = 0
    failure: FrazilError | None = None
    unsent: FrazilError | None = None


def run_once(transformations: Sequence[Transformation], stopping: Stopping, on_batch: OnBatch) -> list[Report]:
    """Bring each up to date with the table that it follows."""
    return [_caught_up(each, on_batch) for each in _until_stopped(transformations, stopping)]


def run_every(
    transformations: Sequence[Transformation], seconds: float, stopping: Stopping, on_batch: OnBatch
) -> list[Report]:
    """Look for new rows of each table every so many seconds, until stopped, or until none can continue."""
    looks = [_Looks(each) for each in transformations]
    while not stopping.asked and not all(each.has_failed for each in looks):
        _look(looks, stopping, on_batch)
        if not all(each.has_failed for each in looks):
            stopping.sleep(seconds)
    return [each.outcome for each in looks]


def run_beside(
    transformations: Sequence[Transformation], seconds: float, stopping: Stopping, on_batch: OnBatch
) -> list[Report]:
    """Look for new rows every so many seconds until stopped, beside what fills the followed tables.

    A followed table that does not exist yet is waited for.
    """
    looks = [_Looks(each, waits_for_table=True) for each in transformations]
    while not stopping.asked:
        _look(looks, stopping, on_batch)
        stopping.sleep(seconds)
    return [each.outcome for each in looks]


@dataclass(slots=True)
class _Looks:
    """The looks of one transformation. An error of a service is logged, and the next look is the next attempt.

    After another error there is none for some minutes: it rarely goes away by itself.
    """

    made: Transformation
    waits_for_table: bool = False
    clock: Callable[[], float] = time.monotonic
    report: Report = field(init=False)
    _failures: Failures = field(init=False)
    _not_before: float = 0.0

    def __post_init__(self) -> None:
        self.report, self._failures = Report(self.made.spec.name), Failures(self.made.spec.identifier)

    @property
    def has_failed(self) -> bool:
        """Return whether the last look found an error that rarely goes away by itself."""
        failure = self.report.failure
        return failure is not None and not failure.worth_retrying

    @property
    def outcome(self) -> Report:
        """The report, without the error of a service."""
        return self.report if self.has_failed else replace(self.report, failure=None)

    def look(self, on_batch: OnBatch) -> None:
        if self.has_failed and self.clock() < self._not_before:
            return
        now, before = self._now(on_batch), self.report
        self._failures.note(now.failure or now.unsent)
        self.report = replace(now, batches=before.batches + now.batches, rows=before.rows + now.rows)
        self._not_before = self.clock() + FAILING_SECONDS

    def _now(self, on_batch: OnBatch) -> Report:
        spec = self.made.spec
        try:
            return _caught_up(self.made, on_batch, waits_for_table=self.waits_for_table)
        except Exception as defect:  # the edge of one transformation: the others go on
            LOG.exception("unforeseen", extra={"table": spec.identifier})
            return Report(spec.name, failure=_unforeseen(spec.identifier, defect))


def _look(looks: Sequence[_Looks], stopping: Stopping, on_batch: OnBatch) -> None:
    for each in looks:
        if not stopping.asked:
            each.look(on_batch)


def _until_stopped(transformations: Sequence[Transformation], stopping: Stopping) -> Iterator[Transformation]:
    return (each for each in transformations if not stopping.asked)


def _caught_up(transformation: Transformation, on_batch: OnBatch, *, waits_for_table: bool = False) -> Report:
    name = transformation.spec.name
    done = None
    try:
        done = transformation.batch(waits_for_table=waits_for_table)
        if done is not None:
            on_batch(done)
        unsent = transformation.send()
        if isinstance(unsent, FencedError):
            raise unsent
    except FrazilError as failure:
        return Report(name, failure=failure) if done is None else Report(name, 1, done.written, failure)
    return Report(name, unsent=unsent) if done is None else Report(name, 1, done.written, unsent=unsent)


def _unforeseen(table: str, defect: Exception) -> DefectError:
    return DefectError(
        f"{table}: {type(defect).__name__}: {defect}",
        hint="this is a defect in Frazil: report it with the stack trace in the log; the next look continues",
    )
