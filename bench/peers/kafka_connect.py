"""Peer: the Iceberg sink for Kafka Connect in a standalone worker with two tasks, tuned as well as we know how.

Usage: python -m bench.peers.kafka_connect BOOTSTRAP REGISTRY FOLDER RESULT TOPIC

The worker is up before the clock is started; the connector is created after. It commits every 5 seconds, which are
about a million rows. What it cannot do: store the key or the schema id (no transformation that it ships with does), and
read `timestamp-micros` (it takes microseconds as milliseconds). It has no dead letters of its own, and proves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, TimestamptzType

from bench.lakes import latest_metadata, total_records
from bench.measure import measured, write_costs
from frazil.adapters.iceberg.types import to_schema
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.local import jars
from frazil.local.java import find_java

NAME = f"iceberg-sink-{os.getpid()}"
CONTROL_TOPIC = f"bench-connect-control-{os.getpid()}"
"""Names of this run only: the groups of the last run keep their members until a session times out."""

COMMIT_SECONDS = 5
READY_SECONDS = 120
STOP_SECONDS = 60
DRAIN_SECONDS = 1_800
POLL_SECONDS = 0.25
POLLS_PER_STATUS = 20
JVM_OPTIONS = ("-Xms1g", "-Xmx3g", "-XX:+UseParallelGC")
METADATA = (("kafka_partition", IntegerType()), ("kafka_offset", LongType()), ("kafka_timestamp", TimestamptzType()))
PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.parquet.dict-size-bytes": "131072",
    "write.target-file-size-bytes": "512000000",
}


def main(bootstrap: str, registry: str, folder: str, result: str, topic: str) -> None:
    warehouse = Path(folder).absolute()
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    create_table(warehouse, registry, topic)
    create_control_topic(bootstrap)
    facts = KafkaTopics({"bootstrap.servers": bootstrap}).describe(topic)
    assert facts is not None
    expected = sum(partition.end - partition.earliest for partition in facts.partitions.values())
    with worker(warehouse, bootstrap, registry) as (process, rest):

        def drain() -> int:
            send(f"{rest}/connectors", {"name": NAME, "config": connector(warehouse, topic)})
            return wait_for_rows(warehouse, topic, expected, process, rest)

        cost = measured("kafka connect sink", drain)
    write_costs(Path(result), [cost])


def create_table(warehouse: Path, registry: str, topic: str) -> None:
    """Create the topic's table: its columns, and the metadata columns that the sink can fill."""
    text = SchemaRegistryClient({"url": registry}).get_latest_version(f"{topic}-value").schema.schema_str
    assert text is not None
    columns = to_schema(map_schema(parse_schema(text)).columns).fields
    first = max(field.field_id for field in columns) + 1
    added = [NestedField(first + n, name, kind, required=False) for n, (name, kind) in enumerate(METADATA)]
    catalog = SqlCatalog("peer", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    catalog.create_namespace("bench")
    catalog.create_table(f"bench.{topic}", Schema(*columns, *added), properties=PROPERTIES)


def create_control_topic(bootstrap: str) -> None:
    """Make the topic through which tasks tell the coordinator what they wrote."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(CONTROL_TOPIC, 1, 1)])[CONTROL_TOPIC].result(30)


@contextmanager
def worker(warehouse: Path, bootstrap: str, registry: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a standalone worker until the end of the block; yields its process and the address of its REST API."""
    rest = f"http://127.0.0.1:{_free_port()}"
    properties = warehouse / "worker.properties"
    properties.write_text(as_properties(worker_settings(warehouse, bootstrap, registry, rest)))
    logging = f"-Dlog4j2.configurationFile={Path(jars.__file__).parent / 'log4j2.properties'}"
    java = (find_java().command, *JVM_OPTIONS, logging, "-cp", jars.class_path("connect"))
    with (warehouse / "worker.log").open("wb") as log:
        command = [*java, "org.apache.kafka.connect.cli.ConnectStandalone", str(properties)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until_it_answers(process, rest)
        yield process, rest
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the worker, by force if it hangs: its rows are counted and measured by now."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"kafka connect did not stop within {STOP_SECONDS} s and is killed", file=sys.stderr)
        process.kill()
        process.wait()


def worker_settings(warehouse: Path, bootstrap: str, registry: str, rest: str) -> dict[str, str]:
    """Return the worker's settings; plugins are folders of links to the locked jars, apart from one another."""
    for lock in ("connect_iceberg", "connect_avro"):
        folder = warehouse / "plugins" / lock
        folder.mkdir(parents=True)
        for jar in jars.fetch(lock):
            (folder / jar.name).symlink_to(jar)
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": registry.replace("/apis/ccompat/v7", "/apis/registry/v2"),
        "value.converter.apicurio.registry.as-confluent": "true",
        "value.converter.apicurio.registry.use-id": "contentId",
        "offset.storage.file.filename": str(warehouse / "offsets"),
        "offset.flush.interval.ms": "10000",
        "plugin.path": str(warehouse / "plugins"),
        "plugin.discovery": "hybrid_warn",
        "listeners": rest,
        "connector.client.config.override.policy": "All",
    }


def connector(warehouse: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "2",
        "topics": topic,
        "iceberg.tables": f"bench.{topic}",
        "iceberg.catalog": "peer",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:file:{warehouse}/catalog.db",
        "iceberg.catalog.jdbc.schema-version": "V1",
        "iceberg.catalog.warehouse": str(warehouse),
        "iceberg.control.topic": CONTROL_TOPIC,
        "iceberg.control.commit.interval-ms": str(COMMIT_SECONDS * 1000),
        "transforms": "metadata",
        "transforms.metadata.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.metadata.partition.field": "kafka_partition",
        "transforms.metadata.offset.field": "kafka_offset",
        "transforms.metadata.timestamp.field": "kafka_timestamp",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.max.poll.records": "10000",
        "consumer.override.fetch.max.bytes": str(64 << 20),
        "consumer.override.max.partition.fetch.bytes": str(16 << 20),
        "consumer.override.receive.buffer.bytes": str(1 << 20),
    }


def wait_until_it_answers(process: subprocess.Popen[bytes], rest: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            send(f"{rest}/connectors")
            return
        except (OSError, urllib.error.URLError):
            time.sleep(POLL_SECONDS)
    raise SystemExit("the Connect worker did not start: see worker.log")


def wait_for_rows(warehouse: Path, topic: str, expected: int, process: subprocess.Popen[bytes], rest: str) -> int:
    """Wait until the table has the expected rows, and return how many it has. Rows become visible at commits only."""
    for poll in range(int(DRAIN_SECONDS / POLL_SECONDS)):
        if (found := total_records(latest_metadata(warehouse, topic))) >= expected:
            return found
        if process.poll() is not None:
            break
        if poll % POLLS_PER_STATUS == POLLS_PER_STATUS - 1:
            _raise_if_failed(send(f"{rest}/connectors/{NAME}/status"))
        time.sleep(POLL_SECONDS)
    raise SystemExit(f"the Connect sink did not write {expected} rows: see worker.log")


def _raise_if_failed(status: object) -> None:
    tasks = status["tasks"] if isinstance(status, dict) else []
    failed = [task["trace"] for task in tasks if task["state"] == "FAILED"]
    if failed:
        raise SystemExit(f"a task of the Connect sink failed: {failed[0]}")


def send(url: str, body: Mapping[str, object] | None = None) -> object:
    """Return the worker's answer; with a body, to a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def as_properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
