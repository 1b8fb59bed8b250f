"""Spark: distributes ingest tasks over its executors (`ports.TaskRunner`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from frazil.adapters.kafka.reader import warn_if_fetching_in_python
from frazil.adapters.spark import application
from frazil.adapters.spark.application import Jvm
from frazil.adapters.spark.cluster import SparkCluster, cause_in
from frazil.adapters.spark.task_progress import FOLDER_PROPERTY, offsets_read
from frazil.adapters.spark.worker import find, rewrite, run, update
from frazil.model.errors import FrazilError, ServiceError
from frazil.model.ingested import ATTEMPTS_OF_A_TASK, IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.updates import UpdateTask

T = TypeVar("T")
R = TypeVar("R")


class TaskFailedError(ServiceError):
    """Spark gave a task up after its attempts: a worker died or was lost."""


class SparkRunner:
    """One Spark application for all tables of a process; started with the first task."""

    def __init__(
        self,
        *,
        log_file: Path,
        name: str = "frazil",
        cluster: SparkCluster | None = None,
        jvm: Jvm = application.HANDS_OUT_TASKS,
    ) -> None:
        """Run on `cluster`; on None, where spark-submit says, or else on this machine, with this `jvm`."""
        self._log_file = log_file
        self._cluster = cluster
        self._name = name
        self._jvm = jvm
        self._lock = threading.Lock()
        self._context: Any = None
        self._parallelism = 1
        self._progress: dict[str, Path] = {}

    @property
    def parallelism(self) -> int:
        """Cores of the executors, not of the driver: the most seen since the start, since executors come and go."""
        return self._parallelism

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        return self._collected(run, tasks, name)

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        return [found for each in self._collected(find, tasks, name) for found in each]

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        return [file for each in self._collected(update, tasks, name) for file in each]

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        return self._collected(rewrite, tasks, name)

    def _collected(self, work: Callable[[T], R | FrazilError], tasks: Sequence[T], name: str) -> list[R]:
        context = self.start()
        context.setLocalProperty("spark.scheduler.pool", name.split(" ", 1)[0])
        context.setJobDescription(name)
        try:
            with self._progress_kept(context, name):
                results = context.parallelize(tasks, len(tasks)).map(work).collect()
        except Exception as problem:
            raise TaskFailedError(
                f"{name}: a Spark task failed {ATTEMPTS_OF_A_TASK} times: {cause_in(str(problem))}",
                hint="nothing was published; look for a killed worker or too little memory, and run again",
            ) from problem
        failures = [result for result in results if isinstance(result, FrazilError)]
        if failures:
            raise failures[0]
        return list(results)

    def offsets_read(self, name: str) -> int:
        """Return the offsets that the tasks of a batch have passed; 0 where they run on other machines."""
        folder = self._progress.get(name)
        return 0 if folder is None else offsets_read(folder)

    @contextmanager
    def _progress_kept(self, context: Any, name: str) -> Iterator[None]:
        if not str(context.master).startswith("local"):
            yield
            return
        with TemporaryDirectory(prefix="frazil-progress-", ignore_cleanup_errors=True) as folder:
            context.setLocalProperty(FOLDER_PROPERTY, folder)
            self._progress[name] = Path(folder)
            try:
                yield
            finally:
                del self._progress[name]

    def stop(self) -> None:
        if self._context is not None:
            self._context.stop()
            self._context = None

    def start(self) -> Any:
        """Start the application unless it is running, and return it.

        Raises MissingToolError if Java is missing, SparkClusterError if the cluster cannot run tasks.
        """
        with self._lock:
            if self._context is not None and _has_ended(self._context):
                self.stop()
            if self._context is None:
                warn_if_fetching_in_python()  # a warning of the tasks' processes would not reach the terminal
                self._context = application.start(
                    self._name, log_file=self._log_file, cluster=self._cluster, jvm=self._jvm
                )
            self._parallelism = max(self._parallelism, int(self._context.defaultParallelism))
            return self._context


def _has_ended(context: Any) -> bool:
    """Return whether Spark has ended the application by itself, as when no master answers any more."""
    return bool(context._jsc.sc().isStopped())
