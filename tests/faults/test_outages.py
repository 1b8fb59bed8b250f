"""The broker or the registry dies in the middle of a run, and comes back: at once, or when the run waits for it.

The services are of this module's own, so that no other test misses them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from frazil.adapters.kafka import reader, topics
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import consumer_settings
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, status, up
from frazil.materialize.ingest.task import ingest
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import BrokerError, FrazilError
from frazil.model.ingested import IngestTask, TaskResult
from frazil.model.plan import OffsetRange
from frazil.model.spec import WriteMode
from frazil.ports import SchemaRegistry
from frazil.records import OptionalFields, Records
from tests.fakes.in_process import InProcessRunner
from tests.faults.moments import Act, Moment, at
from tests.faults.world import (
    SCHEMA,
    World,
    assert_exactly_once,
    jdbc_catalog,
    kafka_side,
    new_world,
    register,
    registry_of,
    with_mode,
    with_trigger,
)
from tests.faults.write_modes import in_every_mode

FEW, MANY = 6, 300
WAIT_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Own:
    """A broker and a registry that may end and start again, at the addresses that they had."""

    directory: Path
    services: LocalServices

    def start(self, *names: str) -> None:
        assert up(names, self.directory) == self.services

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        pid = self.pid(name)
        assert pid is not None
        os.kill(pid, how)
        wait_until(lambda: self.pid(name) is None)

    def pid(self, name: str) -> int | None:
        return next(service.pid for service in status(self.directory).services if service.name == name)

    def restart(self, name: str) -> None:
        self.end(name)
        self.start(name)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def began(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    directory = tmp_path_factory.mktemp("own-services")
    try:
        yield Own(directory, up(["broker", "registry"], directory, preferred_ports=ANY_FREE_PORTS))
    finally:
        down(directory, wipe=True)


@pytest.fixture
def own(began: Own) -> Own:
    """Both up, whatever the test before has left."""
    began.start("broker", "registry")
    return began


@pytest.fixture
def reading_little_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has not the rest of a small topic in memory when it hands on its first records."""
    little = {"queued.min.messages": 1, "fetch.message.max.bytes": 1024}
    monkeypatch.setattr(reader, "consumer_settings", lambda settings: {**consumer_settings(settings), **little})
    monkeypatch.setattr(reader, "CHUNK", 5)


@pytest.fixture
def world(own: Own, tmp_path: Path, write: WriteMode) -> World:
    made = new_world(own.services, jdbc_catalog(tmp_path / "warehouse"))
    return with_mode(with_trigger(made, rows=FEW), write)


@dataclass(slots=True)
class StoppingWhileDown(Stopping):
    """Start a stopped service when the driver waits for it, and record which one it waited for."""

    bring_back: Act
    slept: int = 0

    def __post_init__(self) -> None:
        Stopping.__init__(self)

    def sleep(self, seconds: float) -> bool:
        del seconds
        self.slept += 1
        self.bring_back()
        return False


def once(act: Act) -> Act:
    """It happens the first time that it is called for."""
    left = [act]
    return lambda: left.pop()() if left else None


def materialize(
    world: World, stopping: Stopping, observe: Callable[..., None] | None = None, **clients: object
) -> None:
    (report,) = run_once([world.run(observe, **clients)], stopping)
    assert report.failure is None, report.failure


# --- the broker -----------------------------------------------------------------------------------------------------


def test_the_broker_restarts_between_two_steps(own: Own, world: World) -> None:
    world.produce(FEW)
    world.catch_up()
    world.produce(2 * FEW)

    materialize(world, Stopping(), at(("before", "ingest"), lambda: own.restart("broker")))

    assert_exactly_once(world, kafka_side(world))


@dataclass(slots=True)
class DisturbedReader:
    """Something happens when the first chunk of a range has been read and others have not."""

    reader: KafkaReader
    disturb: Act

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        for wanted, chunks in zip(ranges, self.reader.read(ranges, optional), strict=True):
            yield self._disturbed(chunks, wanted.end)

    def _disturbed(self, chunks: Iterator[Records], end: int) -> Iterator[Records]:
        for chunk in chunks:
            yield chunk
            if chunk.next_offset < end:
                self.disturb()


@dataclass(kw_only=True)
class DisturbedRunner(InProcessRunner):
    """Tasks in this process, whose reading is disturbed (`ports.TaskRunner`)."""

    registry: SchemaRegistry
    disturb: Act
    failures: list[FrazilError] = field(default_factory=list)

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        del name
        try:
            return [self._carried_out(task) for task in tasks]
        except FrazilError as failure:
            self.failures.append(failure)
            raise

    def _carried_out(self, task: IngestTask) -> TaskResult:
        reader = DisturbedReader(KafkaReader(task.context.kafka), self.disturb)
        return ingest(task, reader=reader, registry=self.registry)


@in_every_mode
@pytest.mark.usefixtures("reading_little_ahead")
def test_the_broker_restarts_while_a_range_is_read(own: Own, world: World) -> None:
    world = with_trigger(world, rows=2 * MANY)
    world.produce(MANY)
    before = own.pid("broker")
    runner = DisturbedRunner(registry=registry_of(own.services), disturb=once(lambda: own.restart("broker")))

    materialize(world, Stopping(), runner=runner)

    assert own.pid("broker") != before
    assert runner.failures == []
    assert_exactly_once(world)


@pytest.mark.usefixtures("reading_little_ahead")
def test_the_broker_is_killed_while_a_range_is_read_and_comes_back_when_the_run_waits(
    own: Own, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALLED_SECONDS", 1.0)
    world = with_trigger(world, rows=2 * MANY)
    world.produce(MANY)
    runner = DisturbedRunner(
        registry=registry_of(own.services), disturb=once(lambda: own.end("broker", signal.SIGKILL))
    )
    stopping = StoppingWhileDown(lambda: own.start("broker"))

    materialize(world, stopping, runner=runner)

    assert {type(failure) for failure in runner.failures} == {BrokerError}
    assert stopping.slept == len(runner.failures)
    assert_exactly_once(world)


def test_the_broker_is_down_when_a_batch_is_planned_and_comes_back_when_the_run_waits(
    own: Own, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "ANSWER_SECONDS", 2.0)
    world.produce(2 * FEW)
    stopping = StoppingWhileDown(lambda: own.start("broker"))

    materialize(world, stopping, at(("before", "plan"), lambda: own.end("broker")))

    assert stopping.slept >= 1, "once, or twice where the client takes long to connect again"
    assert_exactly_once(world, kafka_side(world))


# --- the registry ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [("before", "evolve"), ("before", "ingest")], ids=" ".join)
def test_the_registry_dies_and_comes_back_when_the_run_waits(own: Own, world: World, moment: Moment) -> None:
    """With records of a writer that the table has not met: only the registry can say what they are."""
    world.produce(FEW)
    world.catch_up()
    newer = replace(world, schema_id=another_version(world, 2))
    another_version(world, 3)
    newer.produce(FEW)
    stopping = StoppingWhileDown(lambda: own.start("registry"))

    materialize(world, stopping, at(moment, lambda: own.end("registry", signal.SIGKILL)))

    assert stopping.slept == 1
    assert_exactly_once(world, kafka_side(world))


def another_version(world: World, number: int) -> int:
    """Register a schema with the same columns and another text, whose id no client has looked up."""
    schema = {**SCHEMA, "doc": f"version {number} of {world.topic}"}
    return register(world.setting.services, f"{world.topic}-value", schema)
