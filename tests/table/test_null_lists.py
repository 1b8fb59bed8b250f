"""Null and empty stay two values at any depth, also after another reader rewrote the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.types import LongType

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, ListOf, MapOf, Scalar, Struct
from frazil.model.ingested import WrittenFile
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView

PART = Struct((Column("a", Scalar("long")), Column("name", Scalar("string"))))
COLUMNS = (
    Column("n", Scalar("long")),
    Column("list", ListOf(PART)),
    Column("map", MapOf(Scalar("string"), PART)),
    Column("deep", ListOf(Struct((Column("inner", ListOf(PART)),)))),
)
ONE = {"a": 1, "name": None}
ROWS = [
    {"n": 0, "list": [ONE, None], "map": [("k", ONE)], "deep": [{"inner": None}, {"inner": [ONE]}, {"inner": []}]},
    {"n": 1, "list": None, "map": None, "deep": None},
    {"n": 2, "list": [], "map": [], "deep": []},
    {"n": 3, "list": [ONE], "map": [("k", ONE), ("l", None)], "deep": [{"inner": [ONE]}, None]},
    {"n": 4, "list": None, "map": None, "deep": [{"inner": None}]},
]


def made(folder: Path) -> IcebergLake:
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    lake.create("lake.parts", COLUMNS, partition_by=(), properties={}, summary={})
    view = loaded(lake)
    lake.stage(view, base=view.head or 0, branch="b", files=files_of(view), summary={})
    lake.publish(loaded(lake), branch="b", tag="t", drop=["b"])
    return lake


def loaded(lake: IcebergLake) -> TableView:
    view = lake.load("lake.parts")
    assert view is not None
    return view


def files_of(view: TableView) -> tuple[WrittenFile, ...]:
    files = DataFileWriter(write_target(view), storage={}, prefix="w", target_bytes=1 << 20)
    files.add(pa.RecordBatch.from_pylist(ROWS, schema=files.arrow_schema))
    return files.close()


def read(lake: IcebergLake) -> list[dict[str, object]]:
    return pa.Table.from_batches(TableScan(loaded(lake), columns=("*",)).batches()).to_pylist()


def test_null_is_not_empty_in_lists_and_maps_of_structs(tmp_path: Path) -> None:
    lake = made(tmp_path)

    assert read(lake) == ROWS


def test_a_part_of_the_rows_has_its_own_nulls(tmp_path: Path) -> None:
    lake = made(tmp_path)

    batches = list(TableScan(loaded(lake), columns=("*",)).between("n", 1, 4))

    assert pa.Table.from_batches(batches).to_pylist() == ROWS[1:4]


def test_null_stays_null_after_a_field_was_added_inside(tmp_path: Path) -> None:
    lake = made(tmp_path)
    with lake.catalog.load_table("lake.parts").update_schema() as update:
        update.add_column(("list", "b"), LongType())

    found = [row["list"] for row in read(lake)]

    wider = {**ONE, "b": None}
    assert found == [[wider, None], None, [], [wider], None]


def test_rows_that_are_left_when_others_are_taken_out_keep_their_nulls(tmp_path: Path) -> None:
    lake = made(tmp_path)
    view = loaded(lake)

    lake.stage(view, base=view.head or 0, branch="b", files=(), summary={}, without="n = 0")

    assert lake.catalog.load_table("lake.parts").scan().use_ref("b").to_arrow().to_pylist() == ROWS[1:]
