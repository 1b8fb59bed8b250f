"""The folder of the soak: its configuration, and the specs of its ten tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIG = """\
kafka: {bootstrap.servers: "${local:bootstrap_servers}"}
schema_registry: {url: "${local:schema_registry_url}"}
catalog: {type: jdbc, warehouse: .frazil/warehouse}
database: lake
tables: tables/
"""

SPECS: Mapping[str, str] = {
    "trades": "topic: trades\npartition_by: [day(kafka_timestamp)]\n",
    "trades_delta": "topic: trades\ntable: trades_delta\nformats: [iceberg, delta]\nreaders: [duckdb, spark]\n",
    "sales": "topic: sales\nkey: none\nwrite: deduplicate\nidentity: [event_id]\n",
    "prices": "topic: prices\nvalue: json\nfields: {price: long, changed: long}\nwrite: upsert\norder_by: changed\n"
    "on_tombstone: dead_letter\n",
    "accounts": "topic: accounts\nvalue: json\nfields: {balance: long}\nshapes:\n"
    "  - {table: accounts_log}\n"
    "  - {table: accounts_now, write: upsert}\n"
    "  - {table: accounts_history, write: history, order_by: kafka_timestamp}\n",
    "events": "topic: events\nvalue: json\nfields: {region: string, number: long}\nroutes:\n"
    "  - {table: events_eu, field: {region: [eu]}}\n"
    "  - {table: events_us, field: {region: [us]}}\n",
    "clicks": "topic: clicks\nvalue: json\nfields: {page: string, number: long}\npartition_by: [bucket(4, page)]\n"
    "bad_record_limit: {share: 50%, at_least: 1000000}\n",
}
TRIGGER = "trigger: {every: 5s, rows: 1000000, bytes: 1GB}\n"
TABLES = (
    *("trades", "trades_delta", "sales", "prices", "accounts_log", "accounts_now", "accounts_history"),
    *("events_eu", "events_us", "clicks"),
)
DELTA = "trades_delta"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with a configuration, and the command `frazil` in it."""

    path: Path

    def make(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "tables").mkdir(parents=True)
        (self.path / "frazil.yaml").write_text(CONFIG)
        for name, spec in SPECS.items():
            (self.path / "tables" / f"{name}.yaml").write_text(spec + TRIGGER)

    @property
    def services(self) -> Path:
        return self.path / ".frazil/local"

    @property
    def warehouse(self) -> Path:
        return self.path / ".frazil/warehouse"

    def command(self, *words: str) -> Sequence[str]:
        return [sys.executable, "-m", "frazil", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its text is in the result, whatever its exit status is."""
        return subprocess.run(
            self.command(*words), cwd=self.path, env=self.environment, capture_output=True, text=True, check=False
        )

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "FRAZIL_CONFIG": str(self.path / "frazil.yaml"), "COLUMNS": "200"}
