"""One driver with the real Spark, which is killed at a moment; or one of its workers is, in the middle of a task.

    python -m tests.faults.spark_driver SETTINGS FOLDER WHO MOMENT

SETTINGS are the paths of those of one or more tables, between commas. `tasks` in the folder then names the kinds of
tasks that Spark has carried out. Files are rewritten for few deleted rows.

WHO is `driver`, `group`, `worker` or `nobody`. `in a task` is when a task has written its files and not returned them.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyspark.core.context

from frazil.adapters.spark import runner as spark_runner
from frazil.adapters.spark import worker
from frazil.maintain import rewriting
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult
from tests.faults.death import Death
from tests.faults.world import Setting

IN_A_TASK = "in a task"


def dying(task: IngestTask, *, death: Death, once: Path) -> TaskResult | FrazilError:
    """Carry out a task; the first time, end the process before the task returns."""
    result = worker.run(task)
    if not once.exists():
        once.touch()
        death()
    return result


def no_file(*what: object, **named: object) -> NoReturn:
    raise AssertionError("tasks, with their secrets, would be written to a file that a killed driver leaves behind")


class Noted(spark_runner.SparkRunner):
    """Notes which kinds of tasks were carried out."""

    def _collected(self, work: Callable[..., Any], tasks: Sequence[Any], name: str) -> list[Any]:
        results = super()._collected(work, tasks, name)
        with (self._log_file.parent / "tasks").open("a") as noted:
            noted.write(f"{getattr(work, '__name__', 'run')}\n")
        return results


def main() -> None:
    pyspark.core.context.NamedTemporaryFile = no_file
    rewriting.WORTH_A_SNAPSHOT = 1
    paths, folder, who, moment = sys.argv[1:]
    death = Death(who, os.getpid())
    settings: list[Setting] = [pickle.loads(Path(path).read_bytes()) for path in paths.split(",")]

    def reach(when: str, step: str) -> None:
        if f"{when} {step}" == moment:
            death()

    if moment == IN_A_TASK:
        once = Path(folder) / f"{who} died"
        spark_runner.run = partial(dying, death=death, once=once)  # type: ignore[assignment]
    runner = Noted(log_file=Path(folder) / "spark.log")
    runs = [each.run(each.clients(runner=runner, observe=reach)) for each in settings]
    reports = run_once(runs, Stopping())
    runner.stop()
    for report in reports:
        if report.failure is not None:
            raise report.failure


if __name__ == "__main__":
    main()
