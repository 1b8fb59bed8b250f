"""What Spark says of its cluster, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from jobs.adapters.spark import SparkRunner


def test_the_parallelism_is_that_of_the_cluster_and_follows_it(tmp_path: Path) -> None:
    runner = SparkRunner(log_file=tmp_path / "spark.log")
    assert runner.parallelism == 1

    seen = []
    for cores in (2, 12, 3):
        runner._context = SimpleNamespace(defaultParallelism=cores)
        runner.start()
        seen.append(runner.parallelism)

    assert seen == [2, 12, 12]
