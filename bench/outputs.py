"""The cost of sending committed epochs to an output topic, each in one transaction, with a broker on this machine.

Rows of 20 columns and about 200 bytes; the broker's own CPU time is not counted. The topic has `PARTITIONS` partitions.

Usage: python -m bench.outputs [ROWS] [SHARDS] [ROWS_OF_AN_EPOCH]
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from confluent_kafka.admin import AdminClient, NewTopic

from bench import orders
from bench.frazil_drain import settings_of
from bench.measure import Cost, measured
from bench.subjects import HOME
from frazil.adapters.spark import worker
from frazil.cli.clients import open_clients, table_runs
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import TableView

PARTITIONS = 4
ROWS_OF_AN_EPOCH = 250_000


class InThisProcess:
    """Carries out the ingest, which is not measured, without Spark."""

    parallelism = 1

    def start(self) -> None: ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        del name
        found = [worker.run(task) for task in tasks]
        for each in found:
            if isinstance(each, FrazilError):
                raise each
        return cast("list[TaskResult]", found)

    def stop(self) -> None: ...


def main(rows: int = 1_000_000, shards: int = 1, rows_of_an_epoch: int = ROWS_OF_AN_EPOCH) -> None:
    if not orders.marker(rows).exists():
        down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        orders.fill(services, rows)
        print(report(sent(services, shards, rows_of_an_epoch), shards))
    finally:
        down(HOME / "local")


def sent(services: LocalServices, shards: int, rows_of_an_epoch: int) -> Cost:
    """Make a table whose output topic does not exist, then the topic, and return the cost of sending all epochs."""
    output = OutputSpec(f"{orders.TOPIC}_out_{uuid.uuid4().hex[:8]}", "bench", key=("kafka_key",), shards=shards)
    warehouse = HOME / "outputs"
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(
        services.bootstrap_servers, services.schema_registry_url, warehouse, orders.TOPIC, rows=rows_of_an_epoch
    )
    spec = replace(settings.tables[0], outputs=(output,))
    clients = open_clients(settings, cast("Any", InThisProcess()), on_receipt=lambda _: None)
    run = table_runs(clients, (spec,))[0]
    run_once([run], Stopping())
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(output.topic, PARTITIONS, 1)])[output.topic].result()
    return measured("output", lambda: _all_sent(run))


def _all_sent(run: TableRun) -> int:
    (table,) = run.tables
    view = run.clients.lake.load(table.identifier)
    assert isinstance(view, TableView)
    total = 0
    for followed in table.sending.outputs:
        total += followed.send(run.clients.outputs(), run.clients.lake, view, now=run.clients.now())
        followed.close()
    return total


def report(cost: Cost, shards: int) -> str:
    return (
        f"{cost.rows:,} records with {shards} shards: {cost.rows_per_second:,.0f} a second,"
        f" {cost.rows_per_cpu_second:,.0f} a CPU-second ({cost.wall_seconds:.1f} s, CPU {cost.cpu_seconds:.1f} s)"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
