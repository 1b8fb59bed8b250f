"""What Spark says of its cluster, without Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from frazil.adapters.network import Address
from frazil.adapters.spark import cluster
from frazil.adapters.spark.application import settings
from frazil.adapters.spark.cluster import (
    SparkCluster,
    SparkClusterError,
    SparkWorkerError,
    cancel_without_executors,
    cause_in,
    prepare,
)
from frazil.adapters.spark.runner import SparkRunner
from frazil.model.errors import ServiceError, SettingError

GOING_ON = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))


def test_the_parallelism_is_that_of_the_cluster_and_follows_it(tmp_path: Path) -> None:
    runner = SparkRunner(log_file=tmp_path / "spark.log")
    assert runner.parallelism == 1

    seen = []
    for cores in (2, 12, 3):
        runner._context = SimpleNamespace(defaultParallelism=cores, _jsc=GOING_ON)
        runner.start()
        seen.append(runner.parallelism)

    assert seen == [2, 12, 12]


class Conf(dict[str, str]):
    """As much of a SparkConf as is used."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    setIfMissing = dict.setdefault  # noqa: N815 - Spark's name


@pytest.mark.parametrize("submitted", [False, True])
def test_tasks_never_reach_the_jvm_through_a_file_whatever_was_submitted(tmp_path: Path, *, submitted: bool) -> None:
    conf = Conf({"spark.io.encryption.enabled": "false", "spark.scheduler.mode": "FIFO"})

    settings(conf, submitted=submitted, folder=tmp_path)

    assert conf["spark.io.encryption.enabled"] == "true"
    assert conf["spark.scheduler.mode"] == "FIFO"


TASK_FAILED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: Lost
task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException: Traceback:
  File "worker.py", line 3386, in main
ValueError: the value of the row

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:600)
Caused by: org.apache.spark.api.python.PythonException: Traceback:
"""


def test_a_failed_task_is_named_by_its_own_exception() -> None:
    assert cause_in(TASK_FAILED) == "ValueError: the value of the row"
    assert cause_in("Job aborted\nExecutorLostFailure (executor 0 exited)") == (
        "Job aborted | ExecutorLostFailure (executor 0 exited)"
    )


class Cluster(SimpleNamespace):
    """As much of a SparkContext as is asked while executors start: `cores` are those seen at each look."""

    master = "spark://host:7077"
    pythonExec = "python3.11"  # noqa: N815 - Spark's name

    def setJobDescription(self, text: str) -> None: ...  # noqa: N802 - Spark's name

    def parallelize(self, *_: object) -> NoReturn:
        raise ValueError("the workers were asked")

    def __init__(self, *, executors: int, cores: tuple[int, ...]) -> None:
        self._looks = iter((*cores, *[cores[-1]] * 100_000))
        known = SimpleNamespace(size=lambda: executors + 1)
        super().__init__(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: known)))

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
        return next(self._looks)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_a_cluster_that_gives_no_executor_is_waited_for_so_long_and_no_longer() -> None:
    time = Time()

    with pytest.raises(SparkClusterError, match="spark://host:7077 gave no executor within 300 s") as raised:
        prepare(Cluster(executors=0, cores=(2,)), clock=time.clock, pause=time.pause)

    assert raised.value.worth_retrying
    assert 300 < time.now < 301


def test_the_cores_are_counted_when_no_more_are_added() -> None:
    time = Time()

    with pytest.raises(SparkWorkerError, match="the workers were asked"):
        prepare(Cluster(executors=1, cores=(2,) * 10 + (4,) * 100), clock=time.clock, pause=time.pause)

    assert 2.9 < time.now < 3.2


def test_jobs_are_cancelled_when_all_executors_stay_away() -> None:
    time = Time()
    counts = iter([1] * 5 + [0] * 20 + [1] * 5 + [0] * 40)
    cancelled: list[float] = []
    status = SimpleNamespace(
        isStopped=lambda: time.now > 600,
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: next(counts) + 1),
    )
    context = SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: status), master="yarn", cancelAllJobs=lambda: cancelled.append(time.now)
    )

    cancel_without_executors(context, clock=time.clock, pause=time.pause)

    assert cancelled == [600.0]


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The addresses that answer."""
    answering: set[str] = set()

    def reach(address: Address, tls: None, *, seconds: float) -> str:
        del tls, seconds
        if str(address) not in answering:
            raise ServiceError(f"no TCP connection to {address}: Connection refused", hint="start the server")
        return "TCP in 1 ms"

    monkeypatch.setattr(cluster, "reach", reach)
    return answering


def test_a_master_that_does_not_listen_is_named_at_once(listening: set[str]) -> None:
    listening.add("host:8080")

    with pytest.raises(SparkClusterError, match=r"no answer from the Spark master spark://host: .* host:7077: "):
        SparkCluster("spark://host").check()


def test_with_several_masters_one_that_listens_is_enough(listening: set[str]) -> None:
    listening.add("b:7078")

    SparkCluster("spark://a:7077,b:7078").check()


@pytest.mark.parametrize(
    ("master", "environment", "says"),
    [
        ("host:7077", None, "expected spark://HOST:PORT"),
        ("yarn", "nowhere.tar.gz", "there is no file nowhere.tar.gz"),
        ("yarn", "local:/opt/environment.tar.gz", "Spark unpacks no archive of its workers' own disks"),
    ],
)
def test_options_that_cannot_be_right_are_refused(master: str, environment: str | None, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        SparkCluster(master, environment).check()


def test_a_cluster_gets_our_sources_and_the_packages_and_not_our_interpreter(tmp_path: Path) -> None:
    conf = settings(
        Conf(), submitted=False, cluster=SparkCluster("spark://host:7077", "https://e.tar.gz"), folder=tmp_path
    )

    packages, sources = conf["spark.archives"].split(",")
    assert packages == "https://e.tar.gz#environment"
    assert sources.startswith(str(tmp_path)) and sources.endswith(".zip#frazil")
    with zipfile.ZipFile(sources.removesuffix("#frazil")) as archive:
        assert "frazil/adapters/spark/worker.py" in archive.namelist()
    assert conf["spark.executorEnv.PYTHONPATH"] == "./environment:./frazil"
    assert "spark.driver.host" not in conf


def test_archives_that_the_submitter_ships_stay(tmp_path: Path) -> None:
    archives = "s3://b/environment.tar.gz#environment,s3://b/frazil.zip#frazil"
    conf = Conf({"spark.master": "yarn", "spark.archives": archives, "spark.executorEnv.PYTHONPATH": "./mine"})

    settings(conf, submitted=True, folder=tmp_path)

    assert (conf["spark.archives"], conf["spark.executorEnv.PYTHONPATH"]) == (archives, "./mine")
    assert list(tmp_path.iterdir()) == []
