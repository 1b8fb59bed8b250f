"""Readers of Delta find the rows that a filter asks for, and skip files by the columns that have bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder

from frazil.adapters.delta.log import CONFIGURATION, SKIPPING, DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.delta.standing import log_standing
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model import columns as of
from frazil.model.changes import AddColumn, Change, RenameColumn
from frazil.model.columns import Column, ListOf, MapOf, Scalar, Struct
from frazil.model.delta import ExtendLog, LogIsCurrent, ReplaceLog
from frazil.model.settings import CatalogSettings
from tests.fakes.duckdb_once import engine
from tests.table.delta_trades import Trades

COLUMNS = (
    Column("party", Struct((Column("deep", Struct((Column("x", Scalar("double")),))), Column("n", Scalar("long"))))),
    Column("id", Scalar("int")),
    Column("f", Scalar("float")),
    Column("d", Scalar("double")),
    Column("price", of.Decimal(12, 2)),
    Column("s", Scalar("string")),
    Column("day", Scalar("date")),
    Column("at", Scalar("timestamptz")),
    Column("b", Scalar("boolean")),
    Column("raw", Scalar("binary")),
    Column("legs", ListOf(Scalar("long"))),
    Column("tags", MapOf(Scalar("string"), Scalar("double"))),
    Column("été-`1`", Scalar("long")),
)
FILTERS: Mapping[str, tuple[ds.Expression, Sequence[int]]] = {
    "id = 1": (ds.field("id") == 1, (1, 1, 1)),
    "s > 'text 2a'": (ds.field("s") > "text 2a", (0, 0, 0)),
    "day < '2026-01-03'": (ds.field("day") < date(2026, 1, 3), (1, 1, 1)),
    '"été-`1`" > 3': (ds.field("été-`1`") > 3, (2, 0, 0)),
    "d > 7": (ds.field("d") > 7, (2, 2, 2)),
}
"""Filters in SQL, as expressions of Arrow, and how many of two files the readers read. A dataset uses no bounds of
columns whose names have to be quoted."""
READERS = ("dataset", "delta-rs", "duckdb")
SCALARS = tuple(column.name for column in COLUMNS if not isinstance(column.type, Struct | ListOf | MapOf))
Row = dict[str, Any]


def row(n: int) -> Row:
    return {
        "party": {"deep": {"x": n / 2}, "n": n},
        "id": n,
        "f": n / 2,
        "d": float("nan") if n == 2 else n / 4,
        "price": Decimal(n) / 2,
        "s": f"text {n}",
        "day": date(2026, 1, 1 + n),
        "at": datetime(2026, 1, 1 + n, 12, 0, 0, 123456, tzinfo=UTC),
        "b": bool(n % 2),
        "raw": bytes([n]),
        "legs": [n],
        "tags": [("k", float(n))],
        "été-`1`": n,
    }


class Filtered(Trades):
    """A table with one file for each batch, whose log follows; `rows` are those of the newest version."""

    rows: list[Row]

    def start(self, *columns: Column) -> None:
        self.rows = []
        self.create(columns or COLUMNS)
        self.announce()

    def add(self, *rows: Row) -> None:
        view, self.epoch = self.view, self.epoch + 1
        prefix, branch = f"w{self.epoch}", f"stage{self.epoch}"
        files = DataFileWriter(write_target(view), storage=self.lake.storage, prefix=prefix, target_bytes=1 << 20)
        files.add(pa.RecordBatch.from_pylist(list(rows), files.arrow_schema))
        self.lake.stage(view, base=view.head or 0, branch=branch, files=files.close(), summary={})
        self.lake.publish(self.view, branch=branch, tag="t", drop=[branch])
        self.rows += rows
        self.announce()

    def evolve(self, *changes: Change) -> None:
        self.change(*changes)
        self.announce()

    def forget_property(self) -> None:
        """Make the log as versions of Frazil wrote it that did not set the property."""
        version = self.folder / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in version.read_text().splitlines()]
        for action in actions:
            action.get("metaData", {}).get("configuration", {}).pop(SKIPPING, None)
        version.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    @property
    def skipping(self) -> str | None:
        return self.delta.metadata().configuration.get(SKIPPING)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(str(self.folder))

    def by_dataset(self, expression: ds.Expression) -> list[int]:
        found: list[int] = self.delta.to_pyarrow_dataset().to_table(columns=["id"], filter=expression)["id"].to_pylist()
        return sorted(found)

    def by_sql(self, where: str) -> dict[str, list[int]]:
        sql = QueryBuilder().register("t", self.delta).execute(f"SELECT id FROM t WHERE {where}")
        with engine() as connection:
            found = connection.execute(f"SELECT id FROM delta_scan('{self.folder}') WHERE {where}").fetchall()
        return {
            "delta-rs": sorted(each.as_py() for batch in sql for each in pa.record_batch(batch)["id"]),
            "duckdb": sorted(each for (each,) in found),
        }

    def check(self, name: str) -> None:
        """Compare filters on a column with what its rows say: nulls in all readers, values in the dataset."""
        nulls = sorted(each["id"] for each in self.rows if each.get(name) is None)
        there = [each for each in self.rows if each.get(name) is not None]
        column, where = ds.field(name), f'"{name}" IS NULL'

        assert {"dataset": self.by_dataset(column.is_null()), **self.by_sql(where)} == dict.fromkeys(READERS, nulls)
        assert self.by_dataset(column.is_valid()) == sorted(each["id"] for each in there)
        for value in (there[0][name], there[-1][name]):
            assert self.by_dataset(column == value) == [each["id"] for each in there if each[name] == value]
            assert self.by_dataset(column <= value) == [each["id"] for each in there if each[name] <= value]

    def files_read(self, where: str) -> dict[str, int]:
        """How many files each reader does not skip."""
        with engine() as connection:
            explained = connection.execute(f"EXPLAIN ANALYZE SELECT id FROM delta_scan('{self.folder}') WHERE {where}")
            [(_, text)] = explained.fetchall()
        dataset = self.delta.to_pyarrow_dataset()
        return {
            "dataset": sum(1 for _ in dataset.get_fragments(filter=FILTERS[where][0])),
            "delta-rs": len(self.delta.file_uris(file_pruning_predicate=where)),
            "duckdb": int(re.findall(r"Total Files Read: (\d+)", text)[0]),
        }


@pytest.fixture
def table(tmp_path: Path) -> Filtered:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    return Filtered(lake, DeltaRsLogs(lake.storage))


def test_a_filter_on_any_column_finds_its_rows(table: Filtered) -> None:
    table.start()
    table.add(row(1), row(2))
    table.add(row(3), {"id": 4})
    table.add({"id": 5})

    for name in SCALARS:
        table.check(name)

    nested = {name: ds.field("party", *name) for name in (("n",), ("deep", "x"))}
    assert [table.by_dataset(nested["n",] == 3), table.by_dataset(nested["deep", "x"] > 0.5)] == [[3], [2, 3]]
    assert table.by_dataset(ds.field("party").is_null()) == table.by_dataset(ds.field("legs").is_null()) == [4, 5]
    assert table.by_sql("d > 0.3 AND NOT isnan(d)") == {"delta-rs": [3], "duckdb": [3]}


def test_files_are_skipped_by_the_columns_that_have_bounds(table: Filtered) -> None:
    """Also in delta-rs, which uses no bounds after a struct unless the log names one of its columns."""
    table.start()
    table.add(row(1))
    table.add(row(2))

    read = {where: tuple(table.files_read(where).values()) for where in FILTERS}

    assert read == {where: files for where, (_, files) in FILTERS.items()}
    assert table.delta.protocol().min_reader_version == 1


def test_texts_are_found_whatever_their_characters(table: Filtered) -> None:
    """The readers take an escape in JSON of a character from U+20000 on for another character."""
    texts = ("𠮷", "😀", "\U0010ffff", '\x01"\\\u2028é')
    table.start(Column("id", Scalar("int")), Column("s", Scalar("string")))
    for n, text in enumerate(texts):
        table.add({"id": n, "s": text})

    assert [table.by_sql(f"s = '{text}'") for text in texts] == [{"delta-rs": [n], "duckdb": [n]} for n in range(4)]
    table.delta.create_checkpoint()
    assert [table.by_dataset(ds.field("s") == text) for text in texts] == [[n] for n in range(4)]


def test_a_column_that_is_added_can_be_filtered_before_and_after_a_compaction(table: Filtered) -> None:
    table.start(Column("id", Scalar("int")), Column("s", Scalar("string")))
    table.add({"id": 1, "s": "a"})
    table.evolve(AddColumn("x", Scalar("double")), AddColumn("venue", Scalar("string")))
    table.add({"id": 2, "s": "b", "x": 2.5, "venue": "v"}, {"id": 3, "s": None, "x": None, "venue": None})

    for name in ("s", "x", "venue"):
        table.check(name)
    before = table.skipping

    table.compact()
    table.announce()

    for name in ("s", "x", "venue"):
        table.check(name)
    assert (before, table.skipping) == ("`id`,`s`", "`id`,`s`,`venue`")


def test_a_log_without_the_property_gets_it_without_a_change_of_files(table: Filtered) -> None:
    table.start()
    table.add(row(1), row(2))
    table.forget_property()
    before, wrong = table.delta.file_uris(), table.by_dataset(ds.field("d") == 0.25)
    standing = log_standing(table.view, table.logs).state

    plan = table.announce()

    assert (wrong, standing) == ([], "behind"), "as earlier versions of Frazil wrote it"
    assert isinstance(plan, ExtendLog)
    assert (plan.version, table.delta.version(), plan.add, plan.remove) == (3, 3, (), ())
    assert table.delta.file_uris() == before
    assert table.delta.metadata().configuration.keys() == {SKIPPING, *CONFIGURATION}
    for name in SCALARS:
        table.check(name)
    assert isinstance(table.announce(), LogIsCurrent)
    assert log_standing(table.view, table.logs).state == "current"


def test_a_crash_before_the_property_is_caught_up(table: Filtered) -> None:
    table.start(Column("id", Scalar("int")), Column("s", Scalar("string")))
    table.add({"id": 1, "s": "a"})
    table.change(RenameColumn("s", "text"))
    table.compact()
    plan = table.plan()
    assert isinstance(plan, ReplaceLog)
    table.logs.write(table.view.location, replace(plan, sets_skipping=False))
    table.rows = [{"id": 1, "text": "a"}]
    table.check("text")
    crashed = table.skipping

    table.announce()

    assert (crashed, table.skipping) == ("`id`,`s`", "`id`,`text`")
    table.check("text")


def test_a_table_without_bounds_can_be_filtered(table: Filtered) -> None:
    table.start(Column("id", Scalar("double")), Column("b", Scalar("boolean")))
    table.add({"id": 1.5, "b": True}, {"id": 2.5, "b": None})

    for name in ("id", "b"):
        table.check(name)
    assert table.by_sql("b") == {"delta-rs": [1.5], "duckdb": [1.5]}
    assert table.skipping == ""
