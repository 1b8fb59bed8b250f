"""The contract of `ports.TaskRunner`, for Spark's runner over a context without a JVM and for the one of tests."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.adapters.spark import runner as spark_runner
from frazil.adapters.spark import worker
from frazil.adapters.spark.runner import SparkRunner, TaskFailedError
from frazil.model.errors import BrokerError, CatalogError, FrazilError, IncompatibleSchemaError
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, IdentityColumns, ProbeTask, StoredFile
from frazil.model.updates import UpdateTask
from frazil.ports import TaskRunner
from tests.fakes.in_process import InProcessRunner

NONE = array("q")
NAME = "lake.orders batch"
Work = Callable[[IngestTask], TaskResult | FrazilError]


class Collected(list[Any]):
    """As much of an RDD as the runner uses."""

    def map(self, work: Callable[[Any], Any]) -> Collected:
        return Collected(map(work, self))

    def collect(self) -> list[Any]:
        return [pickle.loads(pickle.dumps(each)) for each in self]


def context_without_a_jvm() -> Any:
    return SimpleNamespace(
        master="yarn",
        defaultParallelism=2,
        parallelize=lambda tasks, slices: Collected(tasks),
        setLocalProperty=lambda name, value: None,
        setJobDescription=lambda text: None,
        stop=lambda: None,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)),
    )


@pytest.fixture(params=["spark", "in process"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> TaskRunner:
    if request.param == "in process":
        return InProcessRunner()
    made = SparkRunner(log_file=tmp_path / "spark.log")
    made._context = context_without_a_jvm()
    return made


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Callable[[Work], None]:
    """Replaces what a task does, in both runners."""

    def replace(work: Work) -> None:
        monkeypatch.setattr(worker, "run", work)
        monkeypatch.setattr(spark_runner, "run", work)

    return replace


def tasks_of(count: int) -> Sequence[IngestTask]:
    return [IngestTask(cast("Any", number), ()) for number in range(count)]


def result_of(task: IngestTask) -> TaskResult:
    return TaskResult(cast("Any", (task.context,)), (), ())


def test_results_come_in_the_order_of_the_tasks(runner: TaskRunner, works: Callable[[Work], None]) -> None:
    works(result_of)
    runner.start()

    results = runner.run(tasks_of(3), name=NAME)

    assert results == [result_of(task) for task in tasks_of(3)]
    assert runner.parallelism == 2
    runner.stop()


def test_what_tasks_find_comes_in_the_order_of_the_tasks(runner: TaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(task: ProbeTask) -> list[FoundRows] | FrazilError:
        if task.table == "2":
            return CatalogError("a file is gone", hint="")
        files = [StoredFile(f"{task.table}{letter}", 0) for letter in "ab"]
        return [FoundRows(file, 0, NONE, NONE, NONE, NONE, NONE) for file in files]

    monkeypatch.setattr(worker, "find", found)
    monkeypatch.setattr(spark_runner, "find", found)
    tasks = [ProbeTask(str(n), "", (), IdentityColumns(1, 2, 3, 4), NONE, NONE, {}, {}) for n in range(3)]

    assert [each.file.path for each in runner.find(tasks[:2], name=NAME)] == ["0a", "0b", "1a", "1b"]
    with pytest.raises(CatalogError, match="a file is gone"):
        runner.find(tasks, name=NAME)


def test_files_of_updated_rows_come_in_the_order_of_the_tasks(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def updated(task: UpdateTask) -> list[WrittenFile] | FrazilError:
        if task.prefix == "2":
            return CatalogError("a file is gone", hint="")
        return [WrittenFile(f"{task.prefix}{letter}", 1, 1, (), 0) for letter in "ab"]

    monkeypatch.setattr(worker, "update", updated)
    monkeypatch.setattr(spark_runner, "update", updated)
    tasks = [UpdateTask(cast("Any", None), cast("Any", None), str(n), 1, {}) for n in range(3)]

    assert [each.path for each in runner.update(tasks[:2], name=NAME)] == ["0a", "0b", "1a", "1b"]
    with pytest.raises(CatalogError, match="a file is gone"):
        runner.update(tasks, name=NAME)


def test_of_the_errors_that_tasks_return_the_first_is_raised_after_every_task_ran(
    runner: TaskRunner, works: Callable[[Work], None]
) -> None:
    ran: list[object] = []

    def failing(task: IngestTask) -> TaskResult | FrazilError:
        ran.append(task.context)
        return result_of(task) if task.context == cast("Any", 0) else BrokerError(f"task {task.context}", hint="")

    works(failing)

    with pytest.raises(BrokerError, match="task 1"):
        runner.run(tasks_of(3), name=NAME)

    assert ran == [0, 1, 2]


def test_a_task_that_raises_is_a_failed_task(runner: TaskRunner, works: Callable[[Work], None]) -> None:
    def defective(task: IngestTask) -> TaskResult:
        raise ZeroDivisionError("a defect")

    works(defective)

    with pytest.raises(TaskFailedError, match=f"{NAME}.*a defect"):
        runner.run(tasks_of(1), name=NAME)


def test_an_error_of_a_task_keeps_what_it_says_beyond_its_text(
    runner: TaskRunner, works: Callable[[Work], None]
) -> None:
    """A table is paused for the schema that a task refused, and `resume` asks for its id."""
    works(lambda task: IncompatibleSchemaError("refused", hint="register another", schema_id=7))

    with pytest.raises(IncompatibleSchemaError) as refused:
        runner.run(tasks_of(1), name=NAME)

    assert (refused.value.what, refused.value.hint, refused.value.schema_id) == ("refused", "register another", 7)
