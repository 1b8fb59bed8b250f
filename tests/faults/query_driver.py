"""One process that runs transformations in the real Spark, and is killed at a moment; or one of its workers is.

    python -m tests.faults.query_driver FOLDER WHO WHOM MOMENT

FOLDER is that of the lake. WHO is `driver`, `group`, `worker` or `nobody`, and WHOM the name of the transformation that
is carried out then. `in a task` is when a task of its query has written files and not returned them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.spark.application import HANDS_OUT_TASKS
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import MapInArrow, SqlSession
from frazil.materialize.scheduling.schedule import Stopping
from frazil.model.settings import CatalogSettings
from frazil.transforms.in_spark import SparkQueries
from frazil.transforms.run import Transformation
from frazil.transforms.schedule import run_once
from tests.faults.death import Death
from tests.query_session import WITHOUT_COMPILER
from tests.table.transformed_orders import spec_of

IN_A_TASK = "in a task"
QUERIES = {
    "rows": "SELECT id, upper(symbol) AS symbol, n + 1 AS next FROM orders WHERE n <> 3",
    "totals": "SELECT symbol, count(*) AS orders, sum(n) AS total, max(id) AS last FROM orders GROUP BY symbol",
}


@dataclass(frozen=True, slots=True)
class Dying:
    """Writes the rows of a task; the first time, its process or the driver ends before the task returns."""

    files: MapInArrow
    death: Death
    once: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = [*self.files(batches)]
        if not self.once.exists():
            self.once.touch()
            self.death()
        yield from results


class DyingSession(SqlSession):
    """A session of which a query's task ends too early."""

    dying: tuple[str, Death, Path] | None = None

    def run(self, frame: Any, files: MapInArrow, *, name: str) -> list[Any]:
        if self.dying is not None and name == f"transform {self.dying[0]}":
            files = Dying(files, *self.dying[1:])
        return super().run(frame, files, name=name)


class DyingLake(IcebergLake):
    """A lake whose process ends at a moment of a commit to a table."""

    table, moment, death = "", "", Death("nobody", 0)

    def _reach(self, moment: str, identifier: str) -> None:
        if (moment, identifier) == (self.moment, self.table):
            self.death()

    def stage(self, view: Any, **what: Any) -> int:
        staged = super().stage(view, **what)
        self._reach("after stage", view.identifier)
        return staged

    def publish(self, view: Any, **what: Any) -> None:
        self._reach("before publish", view.identifier)
        super().publish(view, **what)
        self._reach("after publish", view.identifier)


def main() -> None:
    folder, who, whom, moment = sys.argv[1:]
    death = Death(who, os.getpid())
    lake = DyingLake(CatalogSettings("jdbc", folder))
    lake.table, lake.moment, lake.death = f"lake.{whom}", moment, death
    runner = SparkRunner(log_file=Path(folder) / "spark.log", jvm=HANDS_OUT_TASKS)
    session = DyingSession(runner)
    for name, value in WITHOUT_COMPILER.items():
        session.spark.conf.set(name, value)
    if moment == IN_A_TASK:
        session.dying = whom, death, Path(folder) / f"{who} died in {whom}"
    made = [
        Transformation(spec_of(sql, name=name), lake, lambda: SparkQueries(session, lake), lambda: uuid4().hex[:12])
        for name, sql in QUERIES.items()
    ]
    reports = run_once(made, Stopping(), lambda _: None)
    runner.stop()
    for report in reports:
        if report.failure is not None:
            raise report.failure


if __name__ == "__main__":
    main()
