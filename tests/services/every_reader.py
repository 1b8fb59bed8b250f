"""One table as each engine that runs here reads it: through Iceberg, and through its Delta log."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from breadth import Place, Table, catch_up
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from spark_reader import in_spark, name_in_spark, use_catalog

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.cli import app
from frazil.delta.standing import log_standing
from tests.fakes.duckdb_once import engine

BATCHES: tuple[Sequence[tuple[str, int | None]], ...] = (
    (("a", 1), ("b", 1), ("c", 1), ("z", 1)),
    (("a", 2), ("b", None), ("c", 1)),
)
WRITES: Mapping[str, Sequence[Sequence[str]]] = {
    "append": ("abcz", "aabbccz"),
    "upsert": ("abcz", "acz"),
    "deduplicate": ("abcz", "abcz"),
    "history": ("abcz", "aabccz"),
}
"""By write mode: the keys of the rows after each batch."""

REWRITES: Mapping[str, str] = {
    "data": "rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))",
    "deletes": "rewrite_position_delete_files(table => '{}', options => map('rewrite-all', 'true'))",
    "manifests": "rewrite_manifests('{}')",
}
REMOVALS: Mapping[str, str] = {
    "snapshots": "expire_snapshots(table => '{}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
    "orphans": "remove_orphan_files(table => '{}')",
}
"""Maintenance by Iceberg's procedures, of which each is followed by a run that finds nothing to read."""


@dataclass(slots=True)
class Readers:
    """A table with a Delta log. After each batch and action, all engines read it and must find the same rows."""

    place: Place
    spark: SparkSession
    capsys: pytest.CaptureFixture[str]
    write: str
    table: Table = field(init=False)
    rows: list[dict[str, Any]] = field(default_factory=list)
    delta_state: str = ""

    def __post_init__(self) -> None:
        fields = "value: json\nfields: {n: int}\nkey: string"
        topic = self.place.topic()
        self.table = Table(self.place.run(f"topic: {topic}\n{fields}\nwrite: {self.write}\nformats: [iceberg, delta]"))

    def send(self, *records: tuple[str, int | None]) -> None:
        for key, n in records:
            value = None if n is None else json.dumps({"n": n}).encode()
            self.place.send(self.table.spec.topics[0], value, key=key.encode())
        catch_up(self.table.of)
        self.compare()

    def maintain(self, procedure: str) -> None:
        use_catalog(self.spark, self.table)
        catalog, _, table = name_in_spark(self.table).partition(".")
        _let_days_pass(self.folder)
        self.spark.sql(f"CALL {catalog}.system.{procedure.format(table)}").collect()
        assert catch_up(self.table.of) == []
        self.compare()

    @property
    def keys(self) -> str:
        """The keys of the rows, of which some were sent to be deleted."""
        return "".join(sorted(row["kafka_key"] for row in self.rows))

    @property
    def folder(self) -> Path:
        return Path(self.table.view.location.removeprefix("file://"))

    def compare(self) -> None:
        self.rows = alike_rows(self.table.rows())
        found = {
            "pyiceberg": self._pasted("pyiceberg"),
            "duckdb": self._pasted("duckdb"),
            "spark": in_spark(self.spark, self.table),
        }
        assert {name: alike_rows(rows) for name, rows in found.items()} == dict.fromkeys(found, self.rows)
        self._compare_delta()

    def _compare_delta(self) -> None:
        """Readers of Delta see the newest snapshot that the log can represent: the head, or an older one."""
        log = log_standing(self.table.view, DeltaRsLogs(self.table.catalog.properties))
        self.delta_state = log.state
        there = self.table.view.current.scan(snapshot_id=log.snapshot_id).to_arrow()
        with engine() as connection:
            by_duckdb = connection.execute(f"SELECT * FROM delta_scan('{self.folder}')").to_arrow_table()
        found = {"delta-rs": DeltaTable(str(self.folder)).to_pyarrow_table(), "delta in duckdb": by_duckdb}
        assert {name: _ordered(rows) for name, rows in found.items()} == dict.fromkeys(found, _ordered(there))

    def _pasted(self, engine_name: str) -> list[dict[str, Any]]:
        """Return what an engine reads by the text of `frazil connect`, with its extensions from the lock."""
        self.capsys.readouterr()
        config = str(self.place.folder / "frazil.yaml")
        assert app.run(["connect", engine_name, self.table.spec.table, "--config", config]) == 0
        text = self.capsys.readouterr().out
        if engine_name == "duckdb":
            with engine() as connection:
                return _sorted(connection.execute(text[text.index("SELECT") :]).to_arrow_table())
        shown: list[pa.Table] = []
        exec(text, {"print": shown.append})
        return _sorted(shown[0])


def _let_days_pass(folder: Path) -> None:
    """Make all files old enough to be orphans."""
    for path in folder.rglob("*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 5 * 86_400))


def _ordered(table: pa.Table) -> list[dict[str, Any]]:
    return alike_rows(_sorted(table))


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(found, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


def alike(value: Any) -> Any:
    """What readers say of one value in their own ways: maps as pairs or dictionaries, uuids as text, empty as null."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        value = dict(value)
    match value:
        case dict():
            value = {str(key): alike(each) for key, each in value.items()}
        case list():
            value = [alike(each) for each in value]
        case bytearray():
            value = bytes(value)
        case UUID():
            value = str(value)
        case datetime() if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
    return None if value in ({}, []) else value


def alike_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: alike(each) for name, each in row.items()} for row in rows]
