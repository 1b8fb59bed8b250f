"""`frazil dead-letters replay --spark-master`: the table is searched on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from frazil.adapters.spark import runner
from frazil.adapters.spark.cluster import SparkCluster
from frazil.cli import app
from frazil.model.errors import ServiceError
from tests.table.small_lake import SmallLake, spec_of

CONFIG = """\
kafka: {{bootstrap.servers: localhost:9092}}
schema_registry: {{url: http://localhost:8081}}
catalog: {{type: jdbc, warehouse: "{folder}"}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("FRAZIL_CONFIG", "FRAZIL_SPARK_MASTER", "FRAZIL_SPARK_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "frazil.yaml").write_text(CONFIG.format(folder=tmp_path / "warehouse"))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/orders.yaml").write_text("topic: orders")
    return tmp_path


def test_a_master_that_cannot_be_one_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["dead-letters", "replay", "orders", "--spark-master", "127.0.0.1:7077"]) == 2

    assert "--spark-master: expected spark://HOST:PORT" in capsys.readouterr().err


def test_the_search_is_on_the_cluster_that_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SmallLake(folder / "warehouse", spec_of())
    made: list[SparkCluster | None] = []

    def runner_of(*, log_file: Path, cluster: SparkCluster | None = None) -> NoReturn:
        made.append(cluster)
        raise ServiceError(f"no Spark that logs to {log_file}", hint="none")

    monkeypatch.setattr(runner, "SparkRunner", runner_of)
    replay = ["dead-letters", "replay", "orders", "--wait", "0"]
    assert app.run(replay) == 1
    monkeypatch.setenv("FRAZIL_SPARK_ENVIRONMENT", "https://127.0.0.1/environment.tar.gz")
    assert app.run([*replay, "--spark-master", "yarn"]) == 1

    assert made == [None, SparkCluster("yarn", "https://127.0.0.1/environment.tar.gz")]
