"""Rows of a table are written anew with some columns changed, from files of any schema that it had."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from frazil.adapters.iceberg import rows_at, update_rows, windows
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.arrow import project
from frazil.materialize import update_rows as dividing
from frazil.materialize.ingest import write
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, ListOf, Scalar, Struct
from frazil.model.errors import CatalogError
from frazil.model.ingested import DeletedRows, WrittenFile
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.updates import NULL, RowUpdates, TakenColumns, UpdateTask

COLUMNS = (
    Column("id", Scalar("long")),
    Column("size", Scalar("int")),
    Column("note", Scalar("string")),
    Column("parts", ListOf(Struct((Column("name", Scalar("string")),)))),
    Column("tag", Scalar("uuid")),
    Column("day", Scalar("date")),
    Column("until", Scalar("timestamptz")),
    Column("open", Scalar("boolean")),
)
Rows = list[dict[str, Any]]


class Stored:
    """A table in a real catalog."""

    def __init__(self, warehouse: Path, *, partition_by: Sequence[str] = (), sort_by: Sequence[str] = ()) -> None:
        self.lake = IcebergLake(CatalogSettings("jdbc", str(warehouse)))
        self.name = f"lake.t{uuid.uuid4().hex}"
        self.lake.create(self.name, COLUMNS, partition_by=partition_by, properties={}, summary={}, sort_by=sort_by)

    @property
    def view(self) -> TableView:
        view = self.lake.load(self.name)
        assert view is not None
        return view

    @property
    def table(self) -> Table:
        table: Table = self.view.current
        return table

    def files(self, ids: Sequence[int], **columns: Sequence[object]) -> tuple[WrittenFile, ...]:
        files = DataFileWriter(write_target(self.view), storage={}, prefix="w", target_bytes=1 << 20)
        given = {"id": list(ids), **columns}
        types = {name: pa.array(values, files.arrow_schema.field(name).type) for name, values in given.items()}
        files.add(project(pa.RecordBatch.from_pydict(types), files.arrow_schema))
        return files.close()

    def publish(self, files: Sequence[WrittenFile], deletes: Sequence[DeletedRows] = ()) -> None:
        self.lake.stage(self.view, base=self.view.head or 0, branch="b", files=files, summary={}, deletes=deletes)
        self.lake.publish(self.view, branch="b", tag="t", drop=["b"])

    def updated(self, updates: RowUpdates) -> list[WrittenFile]:
        return update_rows.update_rows(UpdateTask(write_target(self.view), updates, "u", 1 << 20, {}))

    def rows(self, **wanted: object) -> Rows:
        found: Rows = self.table.scan().to_arrow().sort_by("id").to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def updates_of(
    places: Sequence[tuple[str, int]],
    set_to: Mapping[str, Sequence[int]] | None = None,
    taken: Mapping[tuple[str, ...], Mapping[int, tuple[str, int]]] | None = None,
) -> RowUpdates:
    """Return updates of rows by path and position; `taken` has the place of the other row by the number of the row."""
    others = taken or {}
    paths = sorted({path for path, _ in places} | {path for each in others.values() for path, _ in each.values()})
    return RowUpdates(
        tuple(paths),
        array("q", [paths.index(path) for path, _ in places]),
        array("q", [position for _, position in places]),
        {name: array("q", values) for name, values in (set_to or {}).items()},
        tuple(
            TakenColumns(
                columns,
                array("q", each),
                array("q", [paths.index(path) for path, _ in each.values()]),
                array("q", [position for _, position in each.values()]),
            )
            for columns, each in others.items()
        ),
    )


def test_columns_are_set_and_the_others_stay(stored: Stored) -> None:
    (one,) = stored.files([1, 2, 3], size=[5] * 3, note=["a", "b", "c"], tag=[None, b"2" * 16, None], open=[True] * 3)
    (two,) = stored.files([4, 5], size=[5] * 2, note=["d", None], open=[True] * 2)
    stored.publish([one, two])
    places = [(two.path, 1), (one.path, 1)]

    files = stored.updated(
        updates_of(places, {"until": [10**6, 2 * 10**6], "open": [0, 0], "day": [1, 2], "size": [NULL, 7]})
    )
    stored.publish(files, [DeletedRows(one.path, [1]), DeletedRows(two.path, [1])])

    found = [
        (row["id"], row["note"], row["day"].day, row["until"].second, row["size"]) for row in stored.rows(open=False)
    ]
    assert found == [(2, "b", 3, 2, 7), (5, None, 2, 1, None)]
    assert stored.rows(id=2)[0]["tag"] == uuid.UUID(bytes=b"2" * 16)
    assert [row["id"] for row in stored.rows(open=True)] == [1, 3, 4]
    assert sum(file.rows for file in files) == 2


@pytest.mark.parametrize("batch_bytes", [1, 200, windows.BATCH_BYTES])
def test_columns_are_taken_from_other_rows(stored: Stored, batch_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_at, "BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(windows, "BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(update_rows, "BATCH_BYTES", batch_bytes)
    names = [[{"name": f"{n}"}] if n % 3 else None for n in range(100)]
    (old,) = stored.files(
        range(100), note=[f"n{n}" for n in range(100)], parts=names, tag=[bytes([n] * 16) for n in range(100)]
    )
    (new,) = stored.files(range(1000, 1050), size=list(range(50)))
    others = {n: (old.path, 97 - 2 * n) for n in range(40, 9, -3)}

    files = stored.updated(updates_of([(new.path, n) for n in range(50)], taken={("note", "parts", "tag"): others}))
    stored.publish(files)

    for row in stored.rows():
        n = row["id"] - 1000
        at = 97 - 2 * n if n in others else None
        expected = (None, None, None) if at is None else (f"n{at}", names[at], uuid.UUID(bytes=bytes([at] * 16)))
        assert (row["size"], row["note"], row["parts"], row["tag"]) == (n, *expected)


def test_rows_may_take_different_columns(stored: Stored) -> None:
    (old,) = stored.files([1, 2], note=["a", "b"], size=[10, 20])
    (new,) = stored.files([1, 2, 3], note=["x", "y", "z"], size=[7, 8, 9])

    stored.publish(
        stored.updated(
            updates_of(
                [(new.path, n) for n in (2, 1, 0)],
                taken={("note",): {1: (old.path, 1)}, ("size",): {2: (old.path, 0)}},
            )
        )
    )

    assert [(row["id"], row["note"], row["size"]) for row in stored.rows()] == [(1, "x", 10), (2, "b", 8), (3, "z", 9)]


def test_files_of_older_schemas_have_the_columns_of_now(stored: Stored) -> None:
    (old,) = stored.files([1, 2], size=[7, 8], note=["a", "b"])
    stored.publish([old])
    with stored.table.update_schema() as update:
        update.rename_column("note", "remark")
        update.update_column("size", LongType())
        update.add_column("more", StringType())
        update.delete_column("day")
    (new,) = stored.files([1], size=[2**40], remark=["x"], more=["m"])
    places = [(old.path, 1), (new.path, 0)]

    files = stored.updated(updates_of(places, {"open": [1, 1]}, {("more", "remark"): {1: (old.path, 0)}}))
    stored.publish(files, [DeletedRows(old.path, [0, 1])])

    found = [(row["id"], row["size"], row["remark"], row["more"]) for row in stored.rows()]
    assert found == [(1, 2**40, "a", None), (2, 8, "b", None)]


def test_only_columns_that_a_file_lacks_may_be_taken(stored: Stored) -> None:
    (old,) = stored.files([1])
    stored.publish([old])
    with stored.table.update_schema() as update:
        update.add_column("more", StringType())
    (new,) = stored.files([1, 2], more=["m", "n"])

    stored.publish(stored.updated(updates_of([(new.path, 0), (new.path, 1)], taken={("more",): {1: (old.path, 0)}})))

    assert [row["more"] for row in stored.rows() if row["more"]] == ["m"]


def test_a_row_moves_to_the_partition_of_its_new_values(tmp_path: Path) -> None:
    stored = Stored(tmp_path, partition_by=["open"], sort_by=["size desc"])
    opened, closed = stored.files([1, 2, 3], open=[True, True, False], size=[1, 2, 3])
    stored.publish([opened, closed])

    (file,) = stored.updated(updates_of([(opened.path, 0), (opened.path, 1)], {"open": [0, 0]}))
    stored.publish([file], [DeletedRows(opened.path, [0, 1])])

    assert file.partition == (False,)
    assert (file.spec_id, file.sort_order_id) == (closed.spec_id, closed.sort_order_id)
    assert file.null_value_counts[1] == 0
    assert [row["id"] for row in stored.rows(open=False)] == [1, 2, 3]


def test_only_row_groups_with_such_a_row_are_decoded(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    slices = rows_at.slices

    def noted(parquet: Any, dictionaries: Any, group: int, *rest: Any, **named: Any) -> Any:
        read.append(group)
        return slices(parquet, dictionaries, group, *rest, **named)

    monkeypatch.setattr(rows_at, "slices", noted)
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 1)
    files = DataFileWriter(write_target(stored.view), storage={}, prefix="w", target_bytes=1 << 20)
    for n in range(5):
        files.add(project(pa.RecordBatch.from_pydict({"id": [n, n + 100]}), files.arrow_schema))
    (file,) = files.close()

    stored.publish(stored.updated(updates_of([(file.path, n) for n in (7, 2, 3)])))

    assert read == [1, 3]
    assert [row["id"] for row in stored.rows()] == [1, 101, 103]


def test_a_file_that_is_gone_is_an_error(stored: Stored) -> None:
    with pytest.raises(CatalogError, match=r"gone\.parquet"):
        stored.updated(updates_of([(f"{stored.view.location}/gone.parquet", 0)]))


def test_shares_have_each_row_once_with_what_it_takes() -> None:
    taken = {("note",): {n: ("old", 20 - n) for n in range(10)}}
    updates = updates_of([("new", n) for n in range(20)], {"size": list(range(20))}, taken)

    divided = dividing.shares(updates, 3)

    assert sorted(n for share in divided for n in share.position) == list(range(20))
    assert [len(share) for share in divided] == [7, 7, 6]
    for share in divided:
        assert share.position == share.set_to["size"]
        for each in share.taken:
            assert [(share.position[row], at) for row, at in zip(each.row, each.position, strict=True)] == [
                (20 - at, at) for at in each.position
            ]
