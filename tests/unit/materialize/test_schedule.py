"""Many tables in one process: who runs, who waits, who fails alone."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from values_of_tables import SPEC, spec, state

from frazil.cli.logs import fields_of
from frazil.materialize.outcome import Again, Outcome
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling import schedule
from frazil.materialize.scheduling.fair_queue import LEAST
from frazil.materialize.scheduling.schedule import Stopping, retrying, run_every, run_once
from frazil.materialize.scheduling.waiting import QUIET_SECONDS, Failures
from frazil.model.errors import (
    BrokerError,
    DefectError,
    FencedError,
    FrazilError,
    PausedError,
    RegistryError,
    StateLostError,
    TopicMissingError,
)
from frazil.model.plan import NothingToDo, PartitionFacts, TopicFacts
from frazil.model.progress import TableState
from tests.fakes.clients_in_memory import TopicsInMemory


@dataclass
class Clients:
    topics: TopicsInMemory
    runner: Any = field(default_factory=lambda: SimpleNamespace(parallelism=1))

    def on_batch_end(self, table: str) -> None: ...


@dataclass
class FixedClients:
    opened: Clients
    invalidations: int = 0

    def clients(self) -> Clients:
        return self.opened

    def invalidate(self) -> None:
        self.invalidations += 1


@dataclass
class Run:
    """A fake table whose every batch calls `act`."""

    act: Any
    clients: Clients = field(default_factory=lambda: Clients(at(0)))
    spec: Any = SPEC
    state: TableState | None = None
    output_failure: FrazilError | None = None
    client_source: FixedClients = field(init=False)

    def __post_init__(self) -> None:
        self.client_source = FixedClients(self.clients)

    def batch(self) -> Outcome:
        self.act()
        self.state = state()
        return NothingToDo(self.spec.identifier, self.state)


def at(end: int) -> TopicsInMemory:
    return TopicsInMemory({"orders": TopicFacts("orders", None, {0: PartitionFacts(0, end)})})


def as_runs(*runs: Run) -> list[TableRun]:
    return cast("list[TableRun]", list(runs))


def test_what_nobody_foresaw_ends_one_table_and_is_named() -> None:
    def stumble() -> None:
        raise ZeroDivisionError("division by zero")

    reports = run_once(as_runs(Run(stumble), Run(lambda: None)), Stopping())

    assert type(reports[0].failure) is DefectError
    assert reports[0].failure.what == "lake.orders: ZeroDivisionError: division by zero"
    assert reports[1].failure is None


def test_more_tables_than_turns_all_run_for_ever() -> None:
    stopping = Stopping()
    runs = [Run(lambda: None) for _ in range(LEAST + 2)]
    waited = [threading.Event() for _ in runs]
    for run, event in zip(runs, waited, strict=True):
        run.act = event.set

    thread = threading.Thread(target=run_every, args=(as_runs(*runs), timedelta(seconds=60), stopping))
    thread.start()

    assert all(event.wait(20) for event in waited)
    stopping.stop()
    thread.join(20)
    assert not thread.is_alive()


def test_no_more_batches_are_on_their_way_than_there_are_turns() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    let_go = threading.Event()

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == LEAST:
                let_go.set()
        let_go.wait(20)
        with lock:
            now[0] -= 1

    run_once(as_runs(*(Run(work) for _ in range(LEAST * 3))), Stopping())

    assert most[0] == LEAST


def test_the_slots_follow_the_cores_of_the_cluster() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    let_go = threading.Event()
    cluster = SimpleNamespace(parallelism=1)

    def work() -> None:
        cluster.parallelism = LEAST  # as Spark starts with the first batch
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 2 * LEAST:
                let_go.set()
        let_go.wait(20)
        with lock:
            now[0] -= 1

    run_once(as_runs(*(Run(work, Clients(at(0), cluster)) for _ in range(LEAST * 4))), Stopping())

    assert most[0] == 2 * LEAST


@dataclass
class Backlog(Run):
    """A table that needs several batches to catch up."""

    batches: int = 15

    def batch(self) -> Outcome:
        self.batches -= 1
        outcome = super().batch()
        return Again() if self.batches else outcome


def test_a_table_with_little_to_do_waits_for_one_batch_of_each_backlog_at_most() -> None:
    asked, order = threading.Event(), list[str]()

    def work() -> None:
        asked.wait(20)
        time.sleep(0.02)
        order.append("backlog")

    idle = Run(lambda: order.append("idle"))
    idle.clients.topics = WatchedTopics(idle.clients.topics.facts, watch=asked.set)
    run_once(as_runs(*(Backlog(work) for _ in range(LEAST)), idle), Stopping())

    assert order.count("backlog") == 15 * LEAST
    assert order.index("idle") <= 3 * LEAST


@dataclass
class WatchedTopics(TopicsInMemory):
    """Calls `watch` when a table describes its topic, which it does just before it asks for its first slot."""

    watch: Any = None

    def describe(self, topic: str) -> TopicFacts | None:
        self.watch()
        return super().describe(topic)


def test_a_table_that_waits_for_a_retry_holds_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.materialize.scheduling.schedule.RETRY_WAITS_SECONDS", (20.0,))
    stopping, failed, batches = Stopping(), threading.Event(), list[str]()
    failing = threading.Barrier(LEAST, action=failed.set)

    def fail() -> None:
        failing.wait(20)
        raise BrokerError("down", hint="wait")

    def work() -> None:
        batches.append("idle")
        stopping.stop()

    began = time.monotonic()
    idle = Run(work)
    idle.clients.topics = WatchedTopics(idle.clients.topics.facts, watch=lambda: failed.wait(20))
    reports = run_once(as_runs(*(Run(fail) for _ in range(LEAST)), idle), stopping)

    assert batches == ["idle"]
    assert time.monotonic() - began < 15
    assert [type(report.failure) for report in reports] == [BrokerError] * LEAST + [type(None)]


def test_what_is_missing_is_not_asked_for_again() -> None:
    asked = []

    def missing() -> None:
        asked.append(1)
        raise TopicMissingError("no topic", hint="create it")

    failure = run_once(as_runs(Run(missing)), Stopping())[0].failure

    assert type(failure) is TopicMissingError
    assert len(asked) == 1


def test_clients_are_invalidated_when_a_service_failed_and_not_when_the_data_did(monkeypatch: Any) -> None:
    monkeypatch.setattr("frazil.materialize.scheduling.schedule.RETRY_WAITS_SECONDS", (0.0,))

    def fail(error: Exception) -> None:
        raise error

    refused = Run(lambda: fail(BrokerError("authentication failed", hint="wait")))
    broken = Run(lambda: fail(PausedError("paused", hint="resume")))
    run_once(as_runs(refused, broken), Stopping())

    assert (refused.client_source.invalidations, broken.client_source.invalidations) == (1, 0)


def test_a_service_that_comes_back_is_asked_again() -> None:
    answers = iter([BrokerError("down", hint="wait"), BrokerError("down", hint="wait"), None])

    def ask() -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        return "up"

    assert retrying(ask, _Impatient()) == "up"


def test_waiting_is_said_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    stopping = _Impatient()

    def asking(topic: str, failures: int) -> str:
        left = [BrokerError(f"no answer about {topic}", hint="wait") for _ in range(failures)]

        def ask() -> str:
            if left:
                raise left.pop()
            return "up"

        return retrying(ask, stopping)

    assert asking("a", 3) == "up"
    with pytest.raises(BrokerError):
        asking("b", len(schedule.RETRY_WAITS_SECONDS) + 1)

    said = [(record.getMessage(), fields_of(record)) for record in caplog.records]
    assert said == [
        ("waiting", {"seconds": 1.0, "error": "no answer about a"}),
        ("waited", {"error": "BrokerError", "times": 3, "answered": True}),
        ("waiting", {"seconds": 1.0, "error": "no answer about b"}),
        ("waited", {"error": "BrokerError", "times": len(schedule.RETRY_WAITS_SECONDS), "answered": False}),
    ]


@pytest.mark.parametrize("registry_failures", [1, 9])
def test_waits_for_two_kinds_of_services_are_counted_apart(
    registry_failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A wait that ended while another service failed does not count for the next one."""
    stopping = _Impatient()

    def asking(*failures: Exception) -> None:
        left = list(failures)

        def ask() -> str:
            if left:
                raise left.pop(0)
            return "up"

        with contextlib.suppress(RegistryError):
            retrying(ask, stopping)

    broker, registry = BrokerError("no broker", hint="wait"), RegistryError("no registry", hint="wait")
    asking(broker, broker, *[registry] * registry_failures)
    caplog.clear()
    asking(broker)

    assert [(record.getMessage(), fields_of(record)) for record in caplog.records] == [
        ("waiting", {"seconds": 1.0, "error": "no broker"}),
        ("waited", {"error": "BrokerError", "times": 1, "answered": True}),
    ]


def test_the_same_failure_in_a_row_is_explained_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "frazil")
    now = [0.0]
    failures = Failures("lake.orders", clock=lambda: now[0])
    for failure in (*[PausedError("paused", hint="resume")] * 25, None, None, PausedError("paused", hint="resume")):
        failures.note(failure)
        now[0] += QUIET_SECONDS / 10

    said = [(record.getMessage().split("\n")[0], fields_of(record).get("times")) for record in caplog.records]
    assert said == [
        ("table_failed", None),
        ("paused", None),
        ("table_failed", 11),
        ("table_failed", 21),
        ("table_recovered", 25),
        ("table_failed", None),
        ("paused", None),
    ]


def test_a_pause_is_not_explained_again_after_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures("lake.orders")
    failures.note(StateLostError("chain broken", hint="fix it"))
    failures.note(PausedError("paused by frazil: chain broken", hint="fix it"))

    said = [(record.getMessage().split("\n")[0], fields_of(record).get("error")) for record in caplog.records]
    assert said == [("table_failed", "StateLostError"), ("chain broken", None), ("table_failed", "PausedError")]


def test_another_failure_is_explained_at_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures("lake.orders")
    for what in ("chain broken", "dropped"):
        failures.note(StateLostError(what, hint="fix it"))

    assert [record.getMessage().split("\n")[0] for record in caplog.records] == [
        "table_failed",
        "chain broken",
        "table_failed",
        "dropped",
    ]


def test_a_full_batch_starts_before_its_time(monkeypatch: Any) -> None:
    monkeypatch.setattr("frazil.materialize.scheduling.schedule.LOOK_SECONDS", 0.01)
    stopping, batches = Stopping(), []

    def act() -> None:
        batches.append(1)
        if len(batches) == 3:
            stopping.stop()

    run_every(as_runs(Run(act, Clients(at(SPEC.trigger.rows + 100)))), timedelta(seconds=3600), stopping)

    assert len(batches) == 3


WELL = spec(table="well")


def well() -> Run:
    return Run(lambda: None, spec=WELL)


def broken() -> None:
    raise StateLostError("chain broken", hint="fix it")


@dataclass
class Rests:
    """Record how long a table would have waited, and stop the run after so many waits."""

    seconds: list[float] = field(default_factory=list)
    until: int = 2

    def __call__(self, run: TableRun, seconds: float, stopping: Stopping, *, healthy: bool) -> None:
        del healthy
        if run.spec.identifier == WELL.identifier:
            stopping.sleep(20)
            return
        self.seconds.append(seconds)
        if len(self.seconds) == self.until:
            stopping.stop()


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Rests:
    instead = Rests()
    monkeypatch.setattr(schedule, "_wait", instead)
    return instead


def test_a_failing_table_is_logged_and_retried_after_a_long_wait(
    rests: Rests, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[FrazilError | None] = [StateLostError("chain broken", hint="fix it"), None]

    def act() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    report, _ = run_every(as_runs(Run(act), well()), timedelta(seconds=20), Stopping())

    assert report.failure is None
    assert answers == []
    assert 14 * 60 < rests.seconds[0] <= schedule.FAILING_SECONDS
    assert rests.seconds[1] <= 20
    told = [record for record in caplog.records if record.getMessage() == "table_failed"]
    assert [fields_of(record) for record in told] == [{"table": "lake.orders", "error": "StateLostError"}]


def test_a_table_that_fails_at_the_end_is_a_failure(rests: Rests) -> None:
    report, other = run_every(as_runs(Run(broken), well()), timedelta(seconds=20), Stopping())

    assert type(report.failure) is StateLostError
    assert other.failure is None
    assert len(rests.seconds) == 2


def test_a_run_ends_where_no_table_is_left_that_can_go_on() -> None:
    began = time.monotonic()

    reports = run_every(as_runs(Run(broken), Run(broken, spec=WELL)), timedelta(seconds=20), Stopping())

    assert [type(report.failure) for report in reports] == [StateLostError, StateLostError]
    assert time.monotonic() - began < 10


def test_a_table_that_another_process_took_over_is_left_to_it(rests: Rests) -> None:
    def act() -> None:
        raise FencedError("another process published epoch 4", hint="stop this one")

    (report,) = run_every(as_runs(Run(act)), timedelta(seconds=20), Stopping())

    assert type(report.failure) is FencedError
    assert rests.seconds == []


def test_the_next_batch_starts_as_long_after_the_start_of_the_last(
    rests: Rests, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 107.0, 200.0, 230.0])
    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    run_every(as_runs(Run(lambda: None)), timedelta(seconds=20), Stopping())

    assert rests.seconds == [13.0, -10.0]


class _Impatient(Stopping):
    """Does not wait between attempts."""

    def sleep(self, seconds: float) -> bool:
        del seconds
        return False
