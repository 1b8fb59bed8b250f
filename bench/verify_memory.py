"""How much memory does `frazil verify --against-kafka` take for large records?

Writes a section of bench/RESULTS.md. A real broker, registry and table; the proof runs as the command, in a process of
its own, and the resident size of its whole process tree is sampled.

With `--distinct N`, the records have N bodies, and another engine compacts the table: Parquet stores each body once.
With `--delete N`, another engine deletes one row in N by position deletes (merge-on-read).

Usage: python -m bench.verify_memory [--rows N] [--bytes N] [--distinct N] [--delete N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from bench.sections import put
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from tests.position_deletes import delete_rows

HOME = Path(".frazil/bench/verify_memory")
TOPIC, PARTITIONS = "large_orders", 3
SCHEMA = '{"type": "record", "name": "Large", "fields": [{"name": "body", "type": "bytes"}]}'
LIMIT_MB = 512
SAMPLE_SECONDS = 0.05
CONFIG = """\
kafka: {{bootstrap.servers: "{servers}"}}
schema_registry: {{url: "{registry}"}}
catalog: {{type: jdbc, warehouse: warehouse}}
tables: tables/
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verify_memory", description=__doc__)
    parser.add_argument("--rows", type=int, default=120_000, help="records in the topic")
    parser.add_argument("--bytes", type=int, default=10_000, help="bytes of each record")
    parser.add_argument("--distinct", type=int, default=0, help="different bodies; 0 makes each one random")
    parser.add_argument("--delete", type=int, default=0, help="delete one row in N, merge-on-read; 0 deletes none")
    asked = parser.parse_args()
    down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        config = configure(services)
        fill(services, asked.rows, asked.bytes, asked.distinct)
        subprocess.run([*frazil("materialize"), "--once", "--config", config], check=True, stdout=sys.stderr)
        if asked.distinct:
            compact()
        if asked.delete:
            delete_rows(written(), HOME.absolute(), one_in=asked.delete)
        by_table = peak([*frazil("verify"), "--config", config])
        by_kafka = peak([*frazil("verify"), "--against-kafka", "--config", config])
    finally:
        down(HOME / "local", wipe=True)
    text = report(asked, by_table, by_kafka)
    put("Memory of a proof", text)
    print(text)


def frazil(verb: str) -> list[str]:
    return [sys.executable, "-m", "frazil.cli.app", verb]


def configure(services: LocalServices) -> str:
    """A new table in an empty warehouse."""
    subprocess.run(["rm", "-rf", str(HOME / "warehouse")], check=True)
    (HOME / "tables").mkdir(parents=True, exist_ok=True)
    (HOME / "tables" / "large.yaml").write_text(f"topic: {TOPIC}\ntrigger: {{rows: 100000000, bytes: 400MB}}\n")
    settings = CONFIG.format(servers=services.bootstrap_servers, registry=services.schema_registry_url)
    (HOME / "frazil.yaml").write_text(settings)
    return str(HOME / "frazil.yaml")


def written() -> Table:
    warehouse = (HOME / "warehouse").absolute()
    catalog = load_catalog("frazil", type="sql", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    return catalog.load_table(f"lake.{TOPIC}")


def compact() -> None:
    """Write all rows to new files, as another engine does: with few row groups, and dictionaries of any size."""
    table = written()
    table.overwrite(table.scan().to_arrow())


def fill(services: LocalServices, rows: int, size: int, distinct: int) -> None:
    """Records of random bytes, which neither Kafka nor Parquet can make smaller."""
    bodies = [os.urandom(size) for _ in range(distinct)]
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    schema_id = registry.register_schema(f"{TOPIC}-value", Schema(SCHEMA, "AVRO"))
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    largest = {"max.message.bytes": str(size + (1 << 20))}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=largest)])[TOPIC].result(30)
    batches = {"linger.ms": 20, "batch.size": 1 << 20, "message.max.bytes": size + (1 << 20)}
    batches |= {"compression.type": "zstd"} if distinct else {}
    producer = Producer({"bootstrap.servers": services.bootstrap_servers, **batches})
    head = b"\x00" + schema_id.to_bytes(4, "big") + _avro_length(size)
    for number in range(rows):
        while True:
            try:
                producer.produce(
                    TOPIC,
                    head + (bodies[number % distinct] if distinct else os.urandom(size)),
                    b"key",
                    number % PARTITIONS,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _avro_length(size: int) -> bytes:
    left, out = size << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def peak(command: list[str]) -> tuple[int, float]:
    """Carry out a command: the largest resident size of its process tree, in MB, and the seconds that it took."""
    largest, began = 0, time.monotonic()
    running = subprocess.Popen(command, stdout=sys.stderr)
    tree = psutil.Process(running.pid)
    while running.poll() is None:
        largest = max(largest, _resident(tree))
        time.sleep(SAMPLE_SECONDS)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {running.returncode}")
    return largest >> 20, time.monotonic() - began


def _resident(tree: psutil.Process) -> int:
    total = 0
    try:
        for process in (tree, *tree.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.Error:
        return 0
    return total


def report(asked: argparse.Namespace, by_table: tuple[int, float], by_kafka: tuple[int, float]) -> str:
    data = asked.rows * asked.bytes / 1e6
    content = f"{asked.distinct} values" if asked.distinct else "random bytes"
    distinct = f" --distinct {asked.distinct}" if asked.distinct else ""
    distinct += f" --delete {asked.delete}" if asked.delete else ""
    return "\n".join(
        [
            f"`python -m bench.verify_memory --rows {asked.rows} --bytes {asked.bytes}{distinct}`,"
            f" {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores. {data:,.0f} MB of"
            f" {content} in {PARTITIONS} partitions; the largest resident size of the command's process tree, sampled"
            f" every {SAMPLE_SECONDS:g} s. Limit: {LIMIT_MB} MB.",
            "",
            "| command | peak, MB | seconds |",
            "|---|---|---|",
            f"| `frazil verify` | {by_table[0]} | {by_table[1]:.0f} |",
            f"| `frazil verify --against-kafka` | **{by_kafka[0]}** | {by_kafka[1]:.0f} |",
        ]
    )


if __name__ == "__main__":
    main()
