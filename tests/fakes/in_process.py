"""Ingest tasks run in the test's own process: the real readers, decoders and files, without Spark.

Results are pickled, as they are on their way from an executor.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from frazil.adapters.spark import worker
from frazil.adapters.spark.runner import TaskFailedError
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult

_one_at_a_time = Lock()
"""A process of Spark runs one task at a time, and the worker's reader is the process's own."""


@dataclass(slots=True)
class InProcessRunner:
    """Carries out tasks one after the other, also if several tables ask at once (`ports.TaskRunner`)."""

    parallelism: int = 2

    def start(self) -> None: ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        with _one_at_a_time:
            results = [_carried_out(task, name) for task in tasks]
        for result in results:
            if isinstance(result, FrazilError):
                raise result
        return [result for result in results if isinstance(result, TaskResult)]

    def stop(self) -> None: ...


def _carried_out(task: IngestTask, name: str) -> TaskResult | FrazilError:
    try:
        carried: TaskResult | FrazilError = pickle.loads(pickle.dumps(worker.run(task)))
        return carried
    except Exception as defect:
        raise TaskFailedError(f"{name}: a task failed: {defect}", hint="see the cause of this error") from defect
