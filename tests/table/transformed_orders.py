"""A small table of orders that Frazil fills, followed by transformations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import TableScan, arrow_schema_of
from frazil.adapters.spark.sql.rows import FILE, POSITION, StoredRows, TableFiles
from frazil.adapters.spark.sql.types import arrow_schema
from frazil.formats.arrow import project
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.columns import Column, ColumnType, Decimal, Scalar
from frazil.model.ingested import DeletedRows, DroppedFile, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.queries import Kept, Keyed, Operator
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.summary import EPOCH, REWRITTEN_BY
from frazil.model.transforms import TransformSpec
from frazil.transforms.queries import MergedGroups, Parts, Queries, Query
from frazil.transforms.run import Transformation
from frazil.transforms.sources import kind_of
from frazil.transforms.tables import Changes, TableRows

ORDERS = "lake.orders"
COLUMNS = (Column("id", Scalar("long")), Column("symbol", Scalar("string")), Column("n", Scalar("int")))
SQL = "SELECT id, upper(symbol) AS symbol, n + 1 AS next FROM orders WHERE n <> 3"


def spec_of(sql: str = SQL, *, name: str = "made", source: str = ORDERS, **more: Any) -> TransformSpec:
    return TransformSpec(f"transforms/{name}.yaml", name, "lake", name, source, sql=sql, **more)


def order(number: int) -> dict[str, Any]:
    """The row of an order; some values are null."""
    symbol = None if number % 11 == 0 else f"s{number % 5}"
    return {"id": number, "symbol": symbol, "n": None if number % 7 == 0 else number % 6}


@dataclass(slots=True)
class Orders:
    """A lake with the followed table. `add` makes an epoch, as a batch of Kafka's records does."""

    folder: Path
    lake: IcebergLake = field(init=False)
    epoch: int = 0
    ids: Iterator[int] = field(default_factory=count)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lake = IcebergLake(CatalogSettings("jdbc", str(self.folder)))
        self.make()

    def make(self, identifier: str = ORDERS, columns: Sequence[Column] = COLUMNS) -> None:
        summary = {EPOCH: "0", "frazil.batch-id": "b0"}
        self.lake.create(
            identifier, columns, partition_by=(), properties=TABLE_PROPERTIES, summary=summary, tag=CHECKPOINT_TAG
        )

    def view(self, identifier: str = ORDERS) -> TableView:
        view = self.lake.load(identifier)
        assert view is not None
        return view

    def add(self, *numbers: int) -> int:
        """Add orders in one epoch; return its snapshot."""
        rows = [order(number) for number in numbers]
        self.rows += rows
        return self.put(rows)

    def put(self, rows: list[dict[str, Any]], identifier: str = ORDERS) -> int:
        self.epoch += 1
        view = self.view(identifier)
        assert view.head is not None
        files = written(self.lake, view, pa.Table.from_pylist(rows, arrow_schema_of(view)).to_batches()) if rows else ()
        summary = {EPOCH: str(self.epoch), "frazil.batch-id": f"b{self.epoch}"}
        branch = f"b{self.epoch}"  # another attempt, after another commit came first, does not find that of this one
        staged = self.lake.stage(view, base=view.head, branch=branch, files=files, summary=summary)
        self.lake.publish(self.view(identifier), branch=branch, tag=CHECKPOINT_TAG, drop=[branch])
        return staged

    def change(self, *numbers: int, without: Sequence[int] = ()) -> int:
        """Put orders in the place of those with their ids, and take others out, as an upserted table does."""
        view = self.view()
        gone = {*numbers, *without}
        added = [order(number) | {"n": self.epoch} for number in numbers]
        self.rows = [row for row in self.rows if row["id"] not in gone] + added
        self.epoch += 1
        assert view.head is not None
        files = (
            written(self.lake, view, pa.Table.from_pylist(added, arrow_schema_of(view)).to_batches()) if added else ()
        )
        summary = {EPOCH: str(self.epoch), "frazil.batch-id": f"b{self.epoch}"}
        deletes = [*self._places(view, gone)]
        staged = self.lake.stage(view, base=view.head, branch="b", files=files, summary=summary, deletes=deletes)
        self.lake.publish(self.view(), branch="b", tag=CHECKPOINT_TAG, drop=["b"])
        return staged

    def deduplicate(self, *numbers: int) -> int:
        """Add the orders whose ids are new. The rows of the others are taken out in the commit that adds their file."""
        rows, doubled = [order(number) for number in numbers], []
        known = {row["id"] for row in self.rows}
        for place, row in enumerate(rows):
            if row["id"] in known:
                doubled.append(place)
            else:
                self.rows.append(row)
            known.add(row["id"])
        self.epoch += 1
        view = self.view()
        assert view.head is not None
        files = written(self.lake, view, pa.Table.from_pylist(rows, arrow_schema_of(view)).to_batches())
        summary = {EPOCH: str(self.epoch), "frazil.batch-id": f"b{self.epoch}"}
        deletes = [DeletedRows(files[0].path, doubled)] if doubled else []
        staged = self.lake.stage(view, base=view.head, branch="b", files=files, summary=summary, deletes=deletes)
        self.lake.publish(self.view(), branch="b", tag=CHECKPOINT_TAG, drop=["b"])
        return staged

    def _places(self, view: TableView, ids: Collection[int]) -> Iterator[DeletedRows]:
        stored = self.lake.stored_files(view)
        files = TableFiles(write_target(view), self.lake.storage, [stored], arrow_schema(view.columns))
        found: dict[int, list[int]] = {}
        for batch in StoredRows(files)([pa.record_batch({"id": [0]})]):
            for row in batch.to_pylist():
                if row["id"] in ids:
                    found.setdefault(row[FILE], []).append(row[POSITION])
        return (DeletedRows(stored[number].path, sorted(places)) for number, places in found.items())

    def rows_of(self, identifier: str = "lake.made") -> list[dict[str, Any]]:
        view = self.view(identifier)
        return [row for batch in TableScan(view, columns=["*"]).batches() for row in batch.to_pylist()]

    def transformation(self, spec: TransformSpec, queries: Callable[[], Queries] | None = None) -> Transformation:
        return Transformation(
            spec, self.lake, queries or (lambda: DuckQueries(self.lake)), new_id=lambda: f"w{next(self.ids)}"
        )


def written(lake: IcebergLake, view: TableView, batches: Sequence[pa.RecordBatch]) -> tuple[WrittenFile, ...]:
    files = DataFileWriter(write_target(view), storage=lake.storage, prefix="w", target_bytes=1 << 20)
    for batch in batches:
        files.add(project(batch, files.arrow_schema))
    return files.close()


def compact(orders: Orders, identifier: str = ORDERS) -> None:
    """Write all rows of a table into files of one, as maintenance does."""
    view = orders.view(identifier)
    old = orders.lake.stored_files(view)
    files = written(orders.lake, view, _read(orders.lake, TableRows(view, old)).to_batches())
    rows = sum(file.rows for file in files)
    orders.lake.rewrite(
        view,
        files=files,
        dropped=[DroppedFile(each.path, tuple(d.path for d in each.deletes)) for each in old],
        summary={REWRITTEN_BY: "w"},
        figures={"added-records": rows},
        tag_prefix=REWRITE_PREFIX,
    )


def by_id(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


@dataclass(frozen=True, slots=True)
class DuckQueries:
    """Queries of transformations in DuckDB, for tests of everything but Spark (`queries.Queries`)."""

    lake: IcebergLake

    def run(self, spec: TransformSpec, tables: Sequence[TableRows]) -> pa.Table:
        with duckdb.connect() as database:
            for each in tables:
                database.register(each.name, _read(self.lake, each))
            return database.sql(spec.sql).to_arrow_table()

    def check(self, spec: TransformSpec, tables: Sequence[TableRows]) -> Query:
        empty = self.run(spec, [TableRows(each.view, ()) for each in tables])
        columns = tuple(Column(f.name, _type_of(f.type)) for f in empty.schema)
        kind = kind_of(spec, tables[0].view)
        groups = _groups_of(spec, again=kind.changes)
        return Query(columns, Operator("Project", ()), {}, groups, () if groups else kind.identity, kind.null_keys)

    def write(
        self, spec: TransformSpec, query: Query, parts: Parts, target: TableView, *, prefix: str
    ) -> Sequence[WrittenFile]:
        del query, prefix
        rows = pa.concat_tables([self.run(spec, tables) for tables in parts])
        return written(self.lake, target, rows.to_batches())

    def merge(
        self,
        spec: TransformSpec,
        query: Query,
        parts: Parts,
        target: TableView,
        stored: Sequence[StoredFile],
        *,
        prefix: str,
        minus: Parts = (),
    ) -> MergedGroups:
        """Merge counts by one column, which is all that these tests group by."""
        del prefix
        assert not minus
        keyed = query.keyed
        assert keyed is not None
        (key,), (kept,) = keyed.keys, keyed.kept
        groups: Counter[Any] = Counter()
        for tables in parts:
            groups.update({row[key]: row[kept.name] for row in self.run(spec, tables).to_pylist()})
        files = TableFiles(write_target(target), self.lake.storage, [stored], arrow_schema(target.columns))
        places = []
        for row in StoredRows(files)([pa.record_batch({"id": [0]})]):
            for there in row.to_pylist():
                if there[key] in groups:
                    groups[there[key]] += there[kept.name]
                    places.append((there[FILE], there[POSITION]))
        rows = pa.Table.from_pylist([{key: k, kept.name: n} for k, n in groups.items()], arrow_schema(target.columns))
        file, position = np.array(sorted(places), np.int64).reshape(-1, 2).T
        return MergedGroups(written(self.lake, target, rows.to_batches()), stored, file, position)

    def replace(
        self,
        spec: TransformSpec,
        query: Query,
        changes: Changes,
        target: TableView,
        stored: Sequence[StoredFile],
        *,
        prefix: str,
    ) -> MergedGroups:
        del prefix
        changed = pa.concat_tables([_read(self.lake, each) for each in (changes.added, changes.removed) if each.files])
        touched = {key_of(row, query.keys) for row in changed.to_pylist()}
        rows = [row for row in self.run(spec, [changes.now]).to_pylist() if key_of(row, query.keys) in touched]
        table = pa.Table.from_pylist(rows, arrow_schema(target.columns))
        files = TableFiles(write_target(target), self.lake.storage, [stored], arrow_schema(target.columns))
        found = (row for batch in StoredRows(files)([pa.record_batch({"id": [0]})]) for row in batch.to_pylist())
        places = [(row[FILE], row[POSITION]) for row in found if key_of(row, query.keys) in touched]
        file, position = np.array(sorted(places), np.int64).reshape(-1, 2).T
        return MergedGroups(written(self.lake, target, table.to_batches()), stored, file, position)

    def differences(self, spec: TransformSpec, query: Query, parts: Parts, target: TableRows) -> tuple[int, int]:
        del query
        found = (self.run(spec, tables).to_pylist() for tables in parts)
        expected = Counter(repr(row) for rows in found for row in rows)
        there = Counter(repr(row) for row in _read(self.lake, target).to_pylist())
        return (expected - there).total(), (there - expected).total()


def key_of(row: dict[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in keys)


def _groups_of(spec: TransformSpec, *, again: bool) -> Keyed | None:
    if "GROUP BY" not in spec.sql:
        return None
    key = spec.sql.partition("GROUP BY ")[2]
    return Keyed((key,), (Kept(1, "orders", "Count", "bigint", again),), again)


def _type_of(kind: pa.DataType) -> ColumnType:
    if pa.types.is_decimal(kind):
        return Decimal(kind.precision, kind.scale)
    known = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.timestamp("us"): "timestamp"}
    return Scalar(known[kind])


def _read(lake: IcebergLake, rows: TableRows) -> pa.Table:
    schema = arrow_schema(rows.columns)
    files = TableFiles(write_target(rows.view), lake.storage, [rows.files], schema)
    found = pa.Table.from_batches(files([pa.record_batch({"id": [0]})]), schema)
    if not rows.less:
        return found
    left = Counter(repr(row) for row in _read(lake, TableRows(rows.view, rows.less)).to_pylist())
    kept = []
    for row in found.to_pylist():
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            kept.append(row)
    return pa.Table.from_pylist(kept, schema)
