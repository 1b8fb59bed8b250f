"""What Spark says of its cluster, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from frazil.adapters.spark.runner import SparkRunner, _settings


def test_the_parallelism_is_that_of_the_cluster_and_follows_it(tmp_path: Path) -> None:
    runner = SparkRunner(log_file=tmp_path / "spark.log")
    assert runner.parallelism == 1

    seen = []
    for cores in (2, 12, 3):
        runner._context = SimpleNamespace(defaultParallelism=cores)
        runner.start()
        seen.append(runner.parallelism)

    assert seen == [2, 12, 12]


class Conf(dict[str, str]):
    """As much of a SparkConf as is used."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    setIfMissing = dict.setdefault  # noqa: N815 - Spark's name


@pytest.mark.parametrize("submitted", [False, True])
def test_tasks_never_reach_the_jvm_through_a_file_whatever_was_submitted(*, submitted: bool) -> None:
    conf = Conf({"spark.io.encryption.enabled": "false", "spark.scheduler.mode": "FIFO"})

    _settings(conf, submitted=submitted)

    assert conf["spark.io.encryption.enabled"] == "true"
    assert conf["spark.scheduler.mode"] == "FIFO"
