"""`frazil` under spark-submit, whose executor is killed when a task has written its files and not returned them.

    spark-submit … tests/faults/cluster_driver.py FOLDER COMMAND…

Before that, workers that cannot run tasks are tried: FOLDER gets a file for each error. As the functions of a program
that is run by its path, those here travel to the executors by value.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from frazil.adapters.spark import application, worker
from frazil.adapters.spark import runner as spark_runner
from frazil.adapters.spark.cluster import SparkWorkerError, prepare
from frazil.cli.app import main
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult

KILL_SECONDS = 60


def dying(task: IngestTask, *, folder: Path) -> TaskResult | FrazilError:
    """Carry out a task; each table's first time, kill the executor's JVM, whose daemon has forked this process."""
    result = worker.run(task)
    once = folder / f"killed in {task.context.spec.table}"
    if not once.exists():
        once.write_text(str(worker.__file__))
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(daemon[1]), signal.SIGKILL)
        time.sleep(KILL_SECONDS)  # the JVM's end takes this process with it
    return result


def prepare_after_errors(context: Any, *, folder: Path) -> None:
    without = {
        "no python": no_python(context),
        "other python": other_python(context),
        "no packages": no_packages(context, folder),
    }
    for name, broken in without.items():
        with broken:
            try:
                prepare(context)
            except SparkWorkerError as error:
                (folder / name).write_text(str(error))
    prepare(context)


@contextmanager
def no_python(context: Any) -> Iterator[None]:
    kept, context.pythonExec = context.pythonExec, "python0.0"
    yield
    context.pythonExec = kept


@contextmanager
def other_python(context: Any) -> Iterator[None]:
    """To the workers, the driver is of another version."""
    kept, context.pythonVer = context.pythonVer, "2.7"
    yield
    context.pythonVer = kept


@contextmanager
def no_packages(context: Any, folder: Path) -> Iterator[None]:
    """As without an archive of packages: the first one that a task imports is missing."""
    (folder / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")")
    kept = dict(context.environment)
    context.environment["PYTHONPATH"] = f"{folder}:{kept['PYTHONPATH']}"
    yield
    context.environment.update(kept)


if __name__ == "__main__":
    written = Path(sys.argv.pop(1))
    application.prepare = partial(prepare_after_errors, folder=written)
    spark_runner.run = partial(dying, folder=written)  # type: ignore[assignment]
    main()
