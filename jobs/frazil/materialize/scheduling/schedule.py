"""Run many tables in one process, independently: a failing table does not delay the others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from frazil.materialize.outcome import Again, Outcome, Published
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling.fair_queue import FairQueue, in_flight
from frazil.materialize.scheduling.waiting import Failures, Waits
from frazil.materialize.sources import describe_topics
from frazil.model.errors import (
    BadRecordLimitError,
    ContendedError,
    DefectError,
    FencedError,
    FrazilError,
    IncompatibleSchemaError,
    OutputHaltedError,
    OutputSchemaError,
    PausedError,
    ServiceError,
)
from frazil.model.plan import NothingToDo, TopicFacts
from frazil.model.progress import TableState

LOG = logging.getLogger(__name__)

SIGNAL_SECONDS = 0.5
"""How often the main thread wakes: Python handles a signal that came as it fell asleep only then."""

LOOK_SECONDS = 5.0
"""How often a table is checked, between two triggers, for enough new records to fill a batch."""

RETRY_WAITS_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Between attempts after something outside did not answer. Nothing else is tried again."""

FAILING_SECONDS = 15 * 60.0
"""How long a table waits after a failure that rarely resolves by itself, while others continue."""

FRUITLESS = 20
"""Batches in a row that publish nothing because a schema was met or the table was rolled back."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TableReport:
    """The outcome of one table or group: its batches and rows, and the failure that ended it."""

    table: str
    batches: int
    rows: int
    failure: FrazilError | None


class Stopping:
    """Asks every table to stop after the batch in flight."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.waits = Waits()

    def stop(self) -> None:
        self._event.set()

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> bool:
        return self._event.wait(seconds)


def run_once(runs: Sequence[TableRun], stopping: Stopping) -> list[TableReport]:
    """Materialize every table up to the end offsets that its topics had at the start."""
    queue = _queue_for(runs, stopping)
    return _each(runs, lambda run: _until_caught_up(run, queue, stopping, ends_by_itself=True))


def _queue_for(runs: Sequence[TableRun], stopping: Stopping) -> FairQueue:
    """Return the queue for all tables, with as many slots as the cluster's cores can use."""
    return FairQueue(
        lambda: in_flight(max((run.clients.runner.parallelism for run in runs), default=1)),
        stopped=lambda: stopping.asked,
    )


class FailingTables:
    """The tables that failed for a reason that rarely goes away, and have not recovered since."""

    def __init__(self, tables: int) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._failing: set[str] = set()

    def note(self, table: str, *, is_failing: bool) -> None:
        with self._lock:
            (self._failing.add if is_failing else self._failing.discard)(table)

    @property
    def are_all(self) -> bool:
        with self._lock:
            return len(self._failing) == self._tables


def run_every(runs: Sequence[TableRun], every: timedelta | None, stopping: Stopping) -> list[TableReport]:
    """Run all tables until a stop is requested or none can continue, each at its own trigger or at `every`."""
    failing, queue = FailingTables(len(runs)), _queue_for(runs, stopping)

    def carry_out(run: TableRun) -> TableReport:
        return _run_until_stopped(run, (every or run.spec.trigger.every).total_seconds(), queue, stopping, failing)

    return _each(runs, carry_out)


def _each(runs: Sequence[TableRun], carry_out: Callable[[TableRun], TableReport]) -> list[TableReport]:
    if len(runs) == 1:
        return [carry_out(runs[0])]
    with ThreadPoolExecutor(max_workers=max(len(runs), 1), thread_name_prefix="table") as pool:
        reports = [pool.submit(carry_out, run) for run in runs]
        while wait(reports, timeout=SIGNAL_SECONDS).not_done:
            pass
        return [report.result() for report in reports]


def _until_caught_up(
    run: TableRun, queue: FairQueue, stopping: Stopping, *, ends_by_itself: bool = False
) -> TableReport:
    """Run batches until the topics are read to their current end.

    A run that ends by itself asks for the first answer only once: `--once` reports within 10 s that the cluster is
    down, and the client connects again by itself while it waits.
    """
    batches, rows = 0, 0
    _renew(run)
    try:
        ask = partial(describe_topics, run.clients.topics, run.spec)
        targets = ask() if ends_by_itself else retrying(ask, stopping)
        fruitless = 0
        while not stopping.asked:
            outcome = retrying(lambda: _in_turn(run, queue), stopping)
            if outcome is None:
                break
            if isinstance(outcome, Published):
                batches, rows = batches + 1, rows + outcome.rows
            fruitless = fruitless + 1 if isinstance(outcome, Again) else 0
            if fruitless > FRUITLESS:
                raise _no_progress(run.spec.identifier)
            if _caught_up(outcome, targets):
                break
    except FrazilError as failure:
        if isinstance(failure, ServiceError):
            _doubt(run)
        return TableReport(run.spec.pipeline.name, batches, rows, failure)
    except Exception as defect:  # the edge of one table: the others go on
        LOG.exception("unforeseen", extra={"table": run.spec.identifier})
        return TableReport(run.spec.pipeline.name, batches, rows, _unforeseen(run.spec.identifier, defect))
    return TableReport(run.spec.pipeline.name, batches, rows, run.output_failure)


def _in_turn(run: TableRun, queue: FairQueue) -> Outcome | None:
    """Run one batch when it is this table's turn; return None if the run was stopped before."""
    with queue.slot() as granted:
        if not granted:
            return None
        _renew(run)
        try:
            return run.batch()
        finally:
            run.clients.on_batch_end(run.spec.identifier)


def _renew(run: TableRun) -> None:
    """Take up new clients, between batches only: a batch ends with those that it began with."""
    if run.client_source is not None:
        run.clients = run.client_source.clients()


def _doubt(run: TableRun) -> None:
    if run.client_source is not None:
        run.client_source.invalidate()


def _unforeseen(table: str, defect: Exception) -> DefectError:
    return DefectError(
        f"{table}: {type(defect).__name__}: {defect}",
        hint="this is a defect in Frazil: report it with the stack trace in the log; the next run starts from"
        " the table",
    )


def _no_progress(table: str) -> ContendedError:
    return ContendedError(
        f"{table}: {FRUITLESS} batches in a row published nothing: each found a new schema or a table that was"
        " rolled back",
        hint="check whether the registry's answers differ between calls, or something keeps rolling the table back",
    )


def _caught_up(outcome: Outcome, targets: Sequence[TopicFacts]) -> bool:
    match outcome:
        case NothingToDo():
            return True
        case Again():
            return False
        case Published(_, standing):
            return all(_has_read(standing.state, facts) for facts in targets)


def _has_read(state: TableState, facts: TopicFacts) -> bool:
    partitions = next((s.partitions for s in state.sources if s.topic == facts.topic), {})
    return all(n in partitions and partitions[n].next >= p.end for n, p in facts.partitions.items())


def _run_until_stopped(
    run: TableRun, every_seconds: float, queue: FairQueue, stopping: Stopping, failing: FailingTables
) -> TableReport:
    """Run batches until asked to stop. Log and retry every failure, except a takeover by another process."""
    batches, rows = 0, 0
    failure: FrazilError | None = None
    failures = Failures(run.spec.identifier)
    while not stopping.asked:
        began = time.monotonic()
        report = _until_caught_up(run, queue, stopping)
        batches, rows, failure = batches + report.batches, rows + report.rows, report.failure
        failures.note(failure)
        failing.note(run.spec.identifier, is_failing=not _may_recover(failure))
        if failing.are_all:
            stopping.stop()
        if isinstance(failure, FencedError):
            break
        rest = every_seconds if _may_recover(failure) else max(FAILING_SECONDS, every_seconds)
        _wait(run, rest - (time.monotonic() - began), stopping, healthy=failure is None)
    return TableReport(run.spec.pipeline.name, batches, rows, failure)


_MAY_RECOVER = (
    ServiceError | PausedError | BadRecordLimitError | IncompatibleSchemaError | OutputHaltedError | OutputSchemaError
)


def _may_recover(failure: FrazilError | None) -> bool:
    """Return whether the next trigger may succeed: a service may answer again, or a paused table be resumed.

    Batches of a table whose output fails continue.
    """
    return isinstance(failure, _MAY_RECOVER | None)


def _wait(run: TableRun, every_seconds: float, stopping: Stopping, *, healthy: bool) -> None:
    """Wait for the next trigger: the end of the interval, or a full batch, whichever comes first."""
    left = every_seconds
    while left > 0 and not stopping.sleep(min(left, LOOK_SECONDS)):
        left -= LOOK_SECONDS
        if healthy and left > 0 and _full_batch_waits(run):
            return


def _full_batch_waits(run: TableRun) -> bool:
    if run.state is None:
        return False
    try:
        topics = describe_topics(run.clients.topics, run.spec)
    except ServiceError:
        return False  # the next batch says it, and tries again
    read = {(s.topic, n): p.next for s in run.state.sources for n, p in s.partitions.items()}
    pending = (p.end - read.get((facts.topic, n), p.earliest) for facts in topics for n, p in facts.partitions.items())
    return sum(pending) >= run.spec.trigger.rows


def retrying(act: Callable[[], Result], stopping: Stopping) -> Result:
    """Try again after a service did not answer; every other failure is raised at once."""
    waited_for: set[str] = set()
    try:
        for seconds in RETRY_WAITS_SECONDS:
            try:
                return _answered(act(), waited_for, stopping)
            except ServiceError as failure:
                if not failure.worth_retrying:
                    raise
                waited_for.add(type(failure).__name__)
                stopping.waits.begin(failure, seconds=seconds)
                if stopping.sleep(seconds):
                    raise
        return _answered(act(), waited_for, stopping)
    finally:
        _end_waits(waited_for, stopping, answered=False)


def _answered(answer: Result, waited_for: Collection[str], stopping: Stopping) -> Result:
    _end_waits(waited_for, stopping, answered=True)
    return answer


def _end_waits(kinds: Collection[str], stopping: Stopping, *, answered: bool) -> None:
    for kind in sorted(kinds):
        stopping.waits.end(kind, answered=answered)
