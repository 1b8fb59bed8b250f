"""Subject: `frazil materialize --once` over topics of the benchmark, one after the other, in one process.

Usage: python -m bench.frazil_drain BOOTSTRAP REGISTRY FOLDER RESULT TOPIC...
"""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from pathlib import Path

from bench.measure import Cost, measured, write_costs
from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.settings import CatalogSettings, RegistrySettings, Settings
from frazil.model.spec import (
    BadRecordLimit,
    Maintain,
    MetadataColumns,
    StartEarliest,
    SubjectSettings,
    TableSpec,
    Trigger,
)

BATCH_ROWS = 1_000_000


def spec_of(topic: str, *, rows: int = BATCH_ROWS) -> TableSpec:
    return TableSpec(
        source_file="bench",
        database="bench",
        table=topic,
        topics=(topic,),
        key="string",
        value="avro",
        write="append",
        partition_by=(),
        readers=("duckdb",),
        on_bad_record="dead_letter",
        bad_record_limit=BadRecordLimit(0.05, 100),
        on_tombstone="row",
        on_incompatible_schema="pause",
        trigger=Trigger(timedelta(seconds=60), rows, 10**9),
        maintain=Maintain(512_000_000),
        start=StartEarliest(),
        metadata=MetadataColumns(),
        value_subject=SubjectSettings(),
        key_subject=SubjectSettings(),
    )


def settings_of(bootstrap: str, registry: str, warehouse: Path, *topics: str, rows: int = BATCH_ROWS) -> Settings:
    return Settings(
        source_file="bench",
        kafka={"bootstrap.servers": bootstrap},
        registry=RegistrySettings(registry),
        catalog=CatalogSettings("jdbc", str(warehouse.absolute())),
        database="bench",
        tables=tuple(spec_of(topic, rows=rows) for topic in topics),
    )


def main(bootstrap: str, registry: str, folder: str, result: str, *topics: str) -> None:
    warehouse = Path(folder)
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(bootstrap, registry, warehouse, *topics)
    runner = SparkRunner(log_file=warehouse.parent / "spark.log")
    runner.start()
    clients = open_clients(settings, runner, on_receipt=lambda _: None)
    costs = [drained(run) for run in table_runs(clients, settings.tables)]
    write_costs(Path(result), costs)
    runner.stop()


def drained(run: TableRun) -> Cost:
    """Read a topic to its end, and return what that cost. Raises the failure of its batch."""

    def drain() -> int:
        report = run_once([run], Stopping())[0]
        if report.failure is not None:
            raise report.failure
        return report.rows

    return measured("frazil", drain)


if __name__ == "__main__":
    main(*sys.argv[1:])
