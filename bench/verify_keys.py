"""How much memory does `frazil verify` take to find doubled keys in a table that follows keys?

Writes a section of bench/RESULTS.md. A real broker, registry and table, with rows of a key and one number. The proof
runs as the command, in a process of its own, and the resident size of its whole process tree is sampled: first of the
table as it is, then with copies of three of its rows, which another engine has added.

With more than one number, there is a table of each size, the smallest first. With `--records N`, each key has N
records, and `frazil verify --against-kafka` is measured too: it compares all keys with their records.

Usage: python -m bench.verify_keys [--rows N...] [--records N]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyiceberg.catalog import load_catalog

from bench.keyed_orders import zigzag
from bench.sections import put
from bench.verify_memory import CONFIG, SAMPLE_SECONDS, frazil
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up

HOME = Path(".frazil/bench/verify_keys")
TITLE, AGAINST_KAFKA = "Doubled keys", "Keys compared with Kafka"
TOPIC, PARTITIONS = "keyed_numbers", 4
SCHEMA = '{"type": "record", "name": "Numbered", "fields": [{"name": "number", "type": "long"}]}'
SPEC = f"topic: {TOPIC}\nwrite: upsert\ntrigger: {{rows: 1000000}}\n"
LIMIT_MB = 1024
COPIED = 3
"""Rows that another engine adds again."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What one `frazil verify` took. `processes` is the largest number of them at a time."""

    megabytes: int
    processes: int
    cpu_seconds: float
    seconds: float
    findings: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The proofs of a table of `rows` keys: of the whole one, with doubled keys, and compared with Kafka."""

    rows: int
    whole: Proof
    doubled: Proof
    by_kafka: Proof | None

    @property
    def proofs(self) -> tuple[Proof, ...]:
        return (self.whole, self.doubled, *(() if self.by_kafka is None else (self.by_kafka,)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verify_keys", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000], help="stored keys")
    parser.add_argument("--records", type=int, default=1, help="records of each key")
    asked = parser.parse_args()
    found = [measured(rows, asked.records) for rows in sorted(asked.rows)]
    put(TITLE if asked.records == 1 else AGAINST_KAFKA, report(asked, found))


def measured(rows: int, records: int) -> Measured:
    """Prove a table of so many keys, and the same table with doubled ones."""
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "tables").mkdir(parents=True)
    (HOME / "tables" / "numbers.yaml").write_text(SPEC)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        settings = CONFIG.format(servers=services.bootstrap_servers, registry=services.schema_registry_url)
        (HOME / "frazil.yaml").write_text(settings)
        fill(services, rows, records)
        command = [*frazil("materialize"), "--once", "--config", str(HOME / "frazil.yaml")]
        subprocess.run(command, check=True, stdout=sys.stderr)
        whole = proof()
        by_kafka = proof("--against-kafka") if records > 1 else None
        add_again(first_offset=rows // PARTITIONS * (records - 1))
        doubled = proof()
    finally:
        down(HOME / "local", wipe=True)
    if (whole.findings, doubled.findings) != (0, COPIED):
        raise SystemExit(f"found {whole.findings} doubled keys, then {doubled.findings}; expected 0, then {COPIED}")
    found = Measured(rows, whole, doubled, by_kafka)
    print(found, file=sys.stderr)
    return found


def fill(services: LocalServices, rows: int, records: int) -> None:
    """Send the first record of every key, then the second of every key, and so on."""
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    schema_id = registry.register_schema(f"{TOPIC}-value", Schema(SCHEMA, "AVRO"))
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": services.bootstrap_servers, "linger.ms": 50, "batch.size": 1 << 20})
    head = b"\x00" + schema_id.to_bytes(4, "big")
    for sent in range(rows * records):
        number = sent % rows
        while True:
            try:
                producer.produce(TOPIC, head + zigzag(sent), b"%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def add_again(first_offset: int) -> None:
    """Append copies of a few rows of a partition, as another engine does that inserts into the table."""
    warehouse = (HOME / "warehouse").absolute()
    catalog = load_catalog("frazil", type="sql", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    table = catalog.load_table(f"lake.{TOPIC}")
    copied = f"kafka_offset >= {first_offset} AND kafka_offset < {first_offset + COPIED}"
    table.append(table.scan(f"kafka_partition = 0 AND {copied}").to_arrow())


def proof(*options: str) -> Proof:
    """Prove the table, and count the keys that were found doubled."""
    before, began = _children_cpu(), time.monotonic()
    largest, most = 0, 0
    with tempfile.TemporaryFile("w+") as output:
        command = [*frazil("verify"), *options, "--config", str(HOME / "frazil.yaml")]
        running = subprocess.Popen(command, stdout=output, stderr=output)
        tree = psutil.Process(running.pid)
        while running.poll() is None:
            size, processes = _resident(tree)
            largest, most = max(largest, size), max(most, processes)
            time.sleep(SAMPLE_SECONDS)
        output.seek(0)
        text = output.read()
    doubled = text.count("rows of one identity")
    if running.returncode not in (0, 1) or (running.returncode == 1) != bool(doubled):
        raise SystemExit(f"frazil verify ended with {running.returncode}:\n{text}")
    return Proof(largest >> 20, most, _children_cpu() - before, time.monotonic() - began, doubled)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident(tree: psutil.Process) -> tuple[int, int]:
    try:
        processes = (tree, *tree.children(recursive=True))
        return sum(process.memory_info().rss for process in processes), len(processes)
    except psutil.Error:
        return 0, 0


def report(asked: argparse.Namespace, found: Sequence[Measured]) -> str:
    command = f"python -m bench.verify_keys --rows {' '.join(map(str, asked.rows))}"
    command += f" --records {asked.records}" if asked.records > 1 else ""
    return "\n".join(
        [
            f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, on"
            f" {os.cpu_count()} cores (load average {os.getloadavg()[0]:.0f}). `frazil verify` of a table with"
            f" `write: upsert`, and of the same with {COPIED} rows that another engine added again, which it must name."
            f" The largest resident size of the command's process tree"
            f" ({max(proof.processes for each in found for proof in each.proofs)} at most), sampled every"
            f" {SAMPLE_SECONDS:g} s. Limit: {LIMIT_MB:,} MB.",
            "",
            "| stored keys | records | command | peak, MB | CPU seconds | seconds |",
            "|---|---|---|---|---|---|",
            *(line for each in found for line in _lines(each, asked.records)),
        ]
    )


def _lines(found: Measured, records: int) -> Iterator[str]:
    for command, proof in (
        ("`verify`", found.whole),
        ("`verify`, with doubled keys", found.doubled),
        ("`verify --against-kafka`", found.by_kafka),
    ):
        if proof is not None:
            yield (
                f"| {found.rows:,} | {found.rows * records:,} | {command} | **{proof.megabytes}**"
                f" | {proof.cpu_seconds:.0f} | {proof.seconds:.0f} |"
            )


if __name__ == "__main__":
    main()
