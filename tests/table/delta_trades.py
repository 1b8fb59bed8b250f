"""An Iceberg table with a Delta log beside it, and what Iceberg, delta-rs and DuckDB read from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from frazil.adapters.delta.files import SnapshotFiles, shapes
from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.delta.plan import plan_log
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.changes import Change
from frazil.model.columns import Column, Decimal, ListOf, MapOf, Scalar, Struct
from frazil.model.delta import BeginLog, ExtendLog, LogPlan, ReplaceLog
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

COLUMNS = (
    Column("id", Scalar("int")),
    Column("symbol", Scalar("string")),
    Column("at", Scalar("timestamptz")),
    Column("day", Scalar("date")),
    Column("price", Decimal(12, 2)),
    Column("ratio", Scalar("double")),
    Column("raw", Scalar("binary")),
    Column("legs", ListOf(Struct((Column("leg", Scalar("string")), Column("n", Scalar("long")))))),
    Column("tags", MapOf(Scalar("string"), Scalar("long"))),
    Column("party", Struct((Column("name", Scalar("string")),))),
)
SYMBOLS = ("", "a b", "a/b%c", "ä=ö+", None)


@dataclass(slots=True)
class Trades:
    """An Iceberg table in a real catalog, and the log beside it."""

    lake: IcebergLake
    logs: DeltaRsLogs
    epoch: int = field(default=0)

    @property
    def view(self) -> TableView:
        view = self.lake.load("lake.trades")
        assert view is not None
        return view

    def create(self, columns: tuple[Column, ...] = COLUMNS, *, partition_by: tuple[str, ...] = ()) -> Trades:
        self.lake.create("lake.trades", columns, partition_by=partition_by, properties={}, summary={})
        return self

    def append(self, *ids: int) -> None:
        """One snapshot with a row for each id; columns that the table does not have are left out."""
        view, self.epoch = self.view, self.epoch + 1
        files = DataFileWriter(
            write_target(view), storage=self.lake.storage, prefix=f"w{self.epoch}", target_bytes=1 << 20
        )
        files.add(pa.RecordBatch.from_pylist([row(n) for n in ids], files.arrow_schema))
        assert view.head is not None
        branch = f"stage{self.epoch}"
        self.lake.stage(view, base=view.head, branch=branch, files=files.close(), summary={})
        self.lake.publish(self.view, branch=branch, tag="t", drop=[branch])

    def change(self, *changes: Change) -> None:
        self.lake.change_schema(self.view, changes, {})

    def compact(self) -> None:
        """All rows into new files. The library calls it an overwrite."""
        table = self.lake.catalog.load_table("lake.trades")
        table.overwrite(table.scan().to_arrow())

    def plan(self) -> LogPlan | None:
        view = self.view
        return plan_log(
            view, SnapshotFiles().of_head(view), self.logs.read(view.location), shapes=lambda f: shapes(view, f)
        )

    def announce(self) -> LogPlan | None:
        plan = self.plan()
        if isinstance(plan, BeginLog | ExtendLog | ReplaceLog):
            self.logs.write(self.view.location, plan)
        return plan

    @property
    def folder(self) -> Path:
        return Path(self.view.location.removeprefix("file://"))

    def versions(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "_delta_log").glob("*.json"))


def row(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "symbol": SYMBOLS[n % len(SYMBOLS)],
        "at": datetime(2026, 1, 1 + n % 3, n % 24, 0, 0, 123456, tzinfo=UTC),
        "day": datetime(2026, 1, 1 + n % 3, tzinfo=UTC).date(),
        "price": n + 0,
        "ratio": float("nan") if n % 4 == 0 else n / 3,
        "raw": bytes([n % 256, 0]),
        "legs": None if n % 3 == 0 else [{"leg": "l", "n": n}, None],
        "tags": [("k", n)],
        "party": None if n % 2 else {"name": f"p{n}", "city": f"c{n}", "limit": n},
        "venue": f"v{n}",
        "number": n,
    }


def by_iceberg(trades: Trades) -> list[Any]:
    """Through DuckDB: PyIceberg takes an absent list of structs for an empty one once a column was added."""
    address = metadata_location(trades.view).removeprefix("file://")
    return by_duckdb(f"iceberg_scan('{address}')")


def by_delta_rs(trades: Trades) -> list[Any]:
    return ordered(DeltaTable(str(trades.folder)).to_pyarrow_table())


def by_delta_in_duckdb(trades: Trades) -> list[Any]:
    return by_duckdb(f"delta_scan('{trades.folder}')")


def by_duckdb(source: str) -> list[Any]:
    with engine() as connection:
        return ordered(connection.execute(f"SELECT * FROM {source}").to_arrow_table())


def ordered(table: pa.Table) -> list[Any]:
    """Rows with NaN as text, since it equals nothing, in the order of ids."""
    rows = [{name: str(v) if isinstance(v, float) else v for name, v in each.items()} for each in table.to_pylist()]
    return sorted(rows, key=lambda each: each.get("id", each.get("number")))
