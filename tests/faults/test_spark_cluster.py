"""The commands of docs/spark.md on a real cluster: a batch over all cores, and one whose executor is killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from frazil.local.supervisor import LocalServices
from frazil.materialize.ingest.distribute import SMALL_BATCH
from frazil.model.spec import TableSpec, WriteMode
from tests.faults.spark_cluster import (
    CHECKOUT,
    CORES_OF_A_WORKER,
    SparkCluster,
    machine_environment,
    pack_environment,
    served,
    spark_cluster,
)
from tests.faults.world import (
    World,
    assert_exactly_once,
    framed,
    glue_catalog,
    jdbc_catalog,
    kafka_side,
    new_world,
    plain_producer,
    with_mode,
)
from tests.sampling import sampled

RUN_SECONDS = 300
WORKERS = 2
KILLED_TOGETHER: list[tuple[WriteMode, ...]] = sampled(
    [("append", "history"), ("upsert", "deduplicate")], keep=lambda modes: "append" in modes
)
"""The modes of the tables of one run. An executor is killed for each of them, and Spark tries no task five times."""
SECRET = "registry-secret-Qv81Zt"
PAGE = (CHECKOUT / "docs/spark.md").read_text()
COMMANDS = [line for line in PAGE.splitlines() if re.match(r"(\w+=\S+ )*\.venv/bin/", line)]
"""That of the command line, and that of spark-submit."""


@pytest.fixture(scope="module")
def cluster(services: LocalServices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    del services  # started first, since both take all cores
    with spark_cluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the packed packages."""
    folder = tmp_path_factory.mktemp("packages")
    file = pack_environment(folder / "environment.tar")
    with served(folder) as address:
        yield f"{address}/{file.name}"


@dataclass(frozen=True)
class Project:
    """A folder with the configuration of tables."""

    folder: Path

    def run(
        self, cluster: SparkCluster, packages: str, command: str, **replaced: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the page, with this machine's paths and addresses, as a user with a plain shell."""
        own = {
            "spark://host:7077": cluster.master,
            ".frazil/spark/environment.tar.gz": packages,
            ".venv/bin": str(Path(sys.executable).parent),
            **replaced,
        }
        for word, ours in own.items():
            assert word in command, f"the page does not mention {word}"
            command = command.replace(word, ours)
        settings, words = re.fullmatch(r"((?:\w+=\S+ )*)(.*)", command).groups()  # type: ignore[union-attr]
        given = dict(each.split("=", 1) for each in settings.split())
        environment = {**machine_environment(cluster.folder), "REGISTRY_LOGIN": f"reader:{SECRET}", **given}
        return subprocess.run(
            shlex.split(words),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )


def project_of(folder: Path, *worlds: World) -> Project:
    """Write the configuration of tables of one database."""
    services, spec, catalog = worlds[0].setting.services, worlds[0].spec, worlds[0].setting.catalog
    config = {
        "kafka": {"bootstrap.servers": services.bootstrap_servers},
        "schema_registry": {"url": services.schema_registry_url, "basic.auth.user.info": "${env:REGISTRY_LOGIN}"},
        "catalog": {"type": catalog.type, "warehouse": catalog.warehouse, **catalog.properties},
        "database": spec.database,
    }
    (folder / "tables").mkdir()
    (folder / "frazil.yaml").write_text(yaml.safe_dump(config))
    for world in worlds:
        file = folder / "tables" / f"{world.spec.table}.yaml"
        file.write_text(yaml.safe_dump(table_of(world.spec)))
    return Project(folder)


def table_of(spec: TableSpec) -> dict[str, object]:
    return {
        "topic": spec.topics[0],
        "table": spec.table,
        "key": spec.key,
        "value": spec.value,
        "write": spec.write,
        "readers": list(spec.readers),
        "partition_by": [],
        "bad_record_limit": "off",
    }


def test_machines_of_the_cluster_do_not_have_the_project(cluster: SparkCluster) -> None:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    look = "import importlib.util as u; print([n for n in ('frazil', 'confluent_kafka', 'pyarrow') if u.find_spec(n)])"

    found = subprocess.check_output(
        [python, "-c", look], env=machine_environment(cluster.folder), cwd=cluster.folder, text=True
    )

    assert found.strip() == "[]"


def test_a_batch_has_a_task_for_each_core_of_the_cluster(
    cluster: SparkCluster, packages: str, services: LocalServices, tmp_path: Path
) -> None:
    cores = WORKERS * CORES_OF_A_WORKER
    world = new_world(services, glue_catalog(services), partitions=cores + 1)
    records = fill(world, SMALL_BATCH + 1)
    project = project_of(tmp_path, world)

    ended = project.run(cluster, packages, f"SPARK_CONF_DIR={cluster.properties.parent} {COMMANDS[0]}")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert world.standing().state.total().rows == records
    tasks = ingest_tasks(cluster)
    assert len(tasks) == cores != os.cpu_count()
    assert {executor for executor, _ in tasks} == {"0", "1"}
    assert files_with(SECRET, cluster.folder, project.folder) == []


@pytest.mark.parametrize("modes", KILLED_TOGETHER, ids=" ".join)
def test_a_killed_executor_loses_and_doubles_nothing(
    cluster: SparkCluster, packages: str, services: LocalServices, tmp_path: Path, modes: tuple[WriteMode, ...]
) -> None:
    catalog = jdbc_catalog(tmp_path / "warehouse")
    worlds = [in_database(with_mode(new_world(services, catalog), mode), "killed") for mode in modes]
    for world in worlds:
        world.produce(12)
    project = project_of(tmp_path, *worlds)
    replaced = {
        "jobs/frazil/__main__.py": f"{CHECKOUT / 'tests/faults/cluster_driver.py'} {tmp_path}",
        "spark-submit": f"spark-submit --properties-file {cluster.properties}",
    }

    ended = project.run(cluster, packages, COMMANDS[1], **replaced)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    for world in worlds:
        killed = tmp_path / f"killed in {world.spec.table}"
        assert killed.read_text().startswith(str(cluster.folder)), "our sources were not shipped"
        assert written_files(world) > visible_files(world), "the killed executor has left no file behind"
        assert_exactly_once(world, kafka_side(world))
    assert "hint: install Python" in (tmp_path / "no python").read_text()
    assert "driver: 2.7" in (tmp_path / "other python").read_text().partition("hint: install Python")[0]
    assert "hint: run `make environment`" in (tmp_path / "no packages").read_text()


def in_database(world: World, database: str) -> World:
    """Return the world with its table in this database, named after its mode."""
    spec = replace(world.spec, database=database, table=world.spec.write)
    return replace(world, setting=replace(world.setting, spec=spec))


def fill(world: World, count: int) -> int:
    """Produce so many good records, evenly over all partitions, and return their number."""
    producer = plain_producer(world.setting.services)
    partitions = len(producer.list_topics(world.topic).topics[world.topic].partitions)
    for number in range(count):
        producer.produce(world.topic, framed(world.schema_id, number), partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(RUN_SECONDS) == 0
    return count


def ingest_tasks(cluster: SparkCluster) -> list[tuple[str, int]]:
    """Return the executor and the stage of each task that was no check of the workers, from Spark's event log."""
    (log,) = cluster.events.glob("app-*")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [each for each in events if each["Event"] == "SparkListenerTaskEnd"]
    last = max(each["Stage ID"] for each in ended)
    return [(each["Task Info"]["Executor ID"], last) for each in ended if each["Stage ID"] == last]


def files_with(text: str, *folders: Path) -> list[Path]:
    """Return the files that hold the text, apart from the packages."""
    files = (file for folder in folders for file in folder.rglob("*") if "environment" not in str(file))
    return [file for file in files if file.is_file() and text.encode() in file.read_bytes()]


def written_files(world: World) -> int:
    location = world.table().location().removeprefix("file://")
    return len(list(Path(location).glob("data/**/*.parquet")))


def visible_files(world: World) -> int:
    return len(list(world.table().scan().plan_files()))
