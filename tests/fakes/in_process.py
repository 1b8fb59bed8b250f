"""Ingest tasks run in the test's own process: the real readers, decoders and files, without Spark.

Results are pickled, as they are on their way from an executor.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from frazil.adapters.spark import worker
from frazil.adapters.spark.runner import TaskFailedError
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.updates import UpdateTask

T = TypeVar("T")
R = TypeVar("R")

_one_at_a_time = Lock()
"""A process of Spark runs one task at a time, and the worker's reader is the process's own."""


@dataclass(slots=True)
class InProcessRunner:
    """Carries out tasks one after the other, also if several tables ask at once (`ports.TaskRunner`)."""

    parallelism: int = 2

    def start(self) -> None: ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        return _all(worker.run, tasks, name)

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        return [found for each in _all(worker.find, tasks, name) for found in each]

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        return [file for each in _all(worker.update, tasks, name) for file in each]

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        return _all(worker.rewrite, tasks, name)

    def stop(self) -> None: ...


def _all(work: Callable[[T], R | FrazilError], tasks: Sequence[T], name: str) -> list[R]:
    with _one_at_a_time:
        results = [_carried_out(work, task, name) for task in tasks]
    failures = [result for result in results if isinstance(result, FrazilError)]
    if failures:
        raise failures[0]
    return [result for result in results if not isinstance(result, FrazilError)]


def _carried_out(work: Callable[[T], R | FrazilError], task: T, name: str) -> R | FrazilError:
    try:
        carried: R | FrazilError = pickle.loads(pickle.dumps(work(task)))
        return carried
    except Exception as defect:
        raise TaskFailedError(f"{name}: a task failed: {defect}", hint="see the cause of this error") from defect
