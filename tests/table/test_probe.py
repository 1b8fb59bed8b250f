"""Rows of a table found by their identities, in its files as they are."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from frazil.adapters.iceberg import probe as probing
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.probe import probe, stored_files
from frazil.materialize.ingest import write
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.changes import AddColumn
from frazil.model.columns import Column, Scalar, Struct
from frazil.model.errors import CatalogError
from frazil.model.ingested import DeletedRows, WrittenFile
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.probe import IdentityColumns, ProbeTask
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.modes.identity import COLUMNS, FIRST, SECOND
from frazil.modes.order import LEAST

SOURCE = (Column("partition", Scalar("int")), Column("offset", Scalar("long")))
Identity = tuple[int | None, int | None]


class Keyed:
    """A table of offsets with identities, in a real catalog."""

    def __init__(self, warehouse: Path, columns: Sequence[Column] = (*SOURCE, *COLUMNS)) -> None:
        self.lake = IcebergLake(CatalogSettings("jdbc", str(warehouse)))
        self.name = f"lake.t{uuid.uuid4().hex}"
        self.lake.create(self.name, columns, partition_by=(), properties={}, summary={})

    @property
    def view(self) -> TableView:
        view = self.lake.load(self.name)
        assert view is not None
        return view

    def file(self, identities: Sequence[Identity], first_offset: int = 0) -> WrittenFile:
        files = DataFileWriter(write_target(self.view), storage={}, prefix="w", target_bytes=1 << 20)
        rows = {
            "partition": [0] * len(identities),
            "offset": list(range(first_offset, first_offset + len(identities))),
            FIRST: [first for first, _ in identities],
            SECOND: [second for _, second in identities],
        }
        given = {name: values for name, values in rows.items() if name in files.arrow_schema.names}
        files.add(pa.RecordBatch.from_pydict(given, schema=files.arrow_schema))
        (written,) = files.close()
        return written

    def publish(self, files: Sequence[WrittenFile], deletes: Sequence[DeletedRows] = ()) -> None:
        self.lake.stage(self.view, base=self.view.head or 0, branch="b", files=files, summary={}, deletes=deletes)
        self.lake.publish(self.view, branch="b", tag="t", drop=["b"])

    def found(self, wanted: Sequence[tuple[int, int]]) -> dict[str, list[tuple[int, int, int]]]:
        """Return position, place and offset of what is found, by file."""
        found = probe(self.task(wanted))
        return {each.file.path: list(zip(each.position, each.place, each.offset, strict=True)) for each in found}

    def task(self, wanted: Sequence[tuple[int, int]], order: Sequence[str] = ()) -> ProbeTask:
        view = self.view
        table: Table = view.current
        names = (FIRST, SECOND, "partition", "offset", *order)
        first, second, partition, offset, *before = (table.schema().find_field(name).field_id for name in names)
        return ProbeTask(
            table=self.name,
            location=view.location,
            files=stored_files(view),
            columns=IdentityColumns(first, second, partition, offset, tuple(before)),
            first=array("q", [first for first, _ in wanted]),
            second=array("q", [second for _, second in wanted]),
            storage={},
            properties=view.properties,
        )


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)


def test_rows_are_found_in_every_file_at_their_positions(keyed: Keyed) -> None:
    one, two = keyed.file([(1, 1), (2, 2), (3, 3)]), keyed.file([(4, 4), (1, 9)], first_offset=3)
    keyed.publish([one, two])

    assert keyed.found([(3, 3), (4, 4), (5, 5)]) == {one.path: [(2, 0, 2)], two.path: [(0, 1, 3)]}


def test_rows_with_an_equal_first_half_only_are_not_found(keyed: Keyed) -> None:
    written = keyed.file([(7, 1), (7, 2), (7, 3)])
    keyed.publish([written])

    assert keyed.found([(7, 3), (7, 4), (7, 1)]) == {written.path: [(0, 2, 0), (2, 0, 2)]}


def test_deleted_rows_are_not_found_again(keyed: Keyed) -> None:
    written = keyed.file([(n, n) for n in range(6)])
    keyed.publish([written])
    keyed.publish([], [DeletedRows(written.path, [1, 4])])
    keyed.publish([], [DeletedRows(written.path, [5])])

    assert keyed.found([(1, 1), (2, 2), (5, 5)]) == {written.path: [(2, 1, 2)]}


def test_a_row_without_an_identity_is_not_that_of_zeros(keyed: Keyed) -> None:
    written = keyed.file([(None, None), (0, 0), (0, None)])
    keyed.publish([written])

    assert keyed.found([(0, 0)]) == {written.path: [(1, 0, 1)]}


def test_a_row_that_comes_from_no_record_is_not_found(keyed: Keyed) -> None:
    files = DataFileWriter(write_target(keyed.view), storage={}, prefix="w", target_bytes=1 << 20)
    rows = {"partition": [0, 0], "offset": [None, 7], FIRST: [1, 1], SECOND: [1, 1]}
    files.add(pa.RecordBatch.from_pydict(rows, schema=files.arrow_schema))
    (written,) = files.close()
    keyed.publish([written])

    assert keyed.found([(1, 1)]) == {written.path: [(1, 0, 7)]}


def test_found_rows_have_the_values_that_order_them(tmp_path: Path) -> None:
    changed, level = Column("changed", Scalar("timestamptz")), Column("level", Scalar("int"))
    keyed = Keyed(tmp_path, (*SOURCE, changed, level, *COLUMNS))
    files = DataFileWriter(write_target(keyed.view), storage={}, prefix="w", target_bytes=1 << 20)
    rows = {"partition": [0, 1], "offset": [5, 6], "changed": [10, 20], "level": [-1, None], FIRST: [1, 1]}
    files.add(pa.RecordBatch.from_pydict({**rows, SECOND: [1, 1]}, schema=files.arrow_schema))
    keyed.publish(files.close())

    (by_both,), (by_one,) = (probe(keyed.task([(1, 1)], order)) for order in (("changed", "level"), ("changed",)))

    assert [list(column) for column in by_both.order] == [[10, 20], [-1, LEAST]], "a row without a level is the oldest"
    assert [list(column) for column in by_one.order] == [[10, 20]]


def test_rows_have_the_numbers_of_partitions_over_all_topics(tmp_path: Path) -> None:
    """Rows of a file from before there was a second topic name none; those of an unknown topic are another writer's."""
    keyed = Keyed(tmp_path)
    old = keyed.file([(1, 1)])
    keyed.publish([old])
    keyed.lake.change_schema(keyed.view, [AddColumn("topic", Scalar("string"))], {})
    files = DataFileWriter(write_target(keyed.view), storage={}, prefix="w", target_bytes=1 << 20)
    rows = {"topic": ["b", "a", None, "x"], "partition": [2, 3, 4, 5], "offset": [7, 8, 9, 10]}
    files.add(pa.RecordBatch.from_pydict({**rows, FIRST: [1] * 4, SECOND: [1] * 4}, schema=files.arrow_schema))
    (new,) = files.close()
    keyed.publish([new])

    def numbers(unnamed: str | None) -> dict[str, list[tuple[int, int]]]:
        task, topics = keyed.task([(1, 1)]), PartitionNumbers(("a", "b"), unnamed)
        topic = keyed.view.current.schema().find_field("topic").field_id
        columns = replace(task.columns, topic=topic, numbers=topics)
        found = probe(replace(task, columns=columns))
        return {each.file.path: list(zip(each.partition, each.offset, strict=True)) for each in found}

    of_b = 2**32 + 2
    assert numbers("a") == {old.path: [(0, 0)], new.path: [(of_b, 7), (3, 8), (4, 9)]}
    assert numbers("b") == {old.path: [(2**32, 0)], new.path: [(of_b, 7), (3, 8), (2**32 + 4, 9)]}
    assert {path: each for path, each in numbers(None).items() if each} == {new.path: [(of_b, 7), (3, 8)]}


def test_positions_go_on_from_one_row_group_to_the_next(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 1)
    files = DataFileWriter(write_target(keyed.view), storage={}, prefix="w", target_bytes=1 << 20)
    for n in range(5):
        rows = {"partition": [0, 0], "offset": [n, n + 100], FIRST: [n, n], SECOND: [n, n + 100]}
        files.add(pa.RecordBatch.from_pydict(rows, schema=files.arrow_schema))
    (written,) = files.close()
    keyed.publish([written], [DeletedRows(written.path, [6])])

    assert keyed.found([(2, 102), (3, 3), (4, 104)]) == {written.path: [(5, 0, 102), (9, 2, 104)]}


def test_files_from_before_the_table_followed_keys_have_no_identity(tmp_path: Path) -> None:
    table = Keyed(tmp_path, SOURCE)
    old = table.file([(0, 0)])
    table.publish([old])
    table.lake.change_schema(table.view, [AddColumn(column.name, column.type) for column in COLUMNS], {})
    new = table.file([(0, 0)], first_offset=1)
    table.publish([new])

    assert table.found([(0, 0)]) == {new.path: [(0, 0, 1)]}


@pytest.fixture
def columns_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    column = probing._column

    def noted(parquet: pq.ParquetFile, group: int, name: str) -> pa.Array:
        read.append(name)
        return column(parquet, group, name)

    monkeypatch.setattr(probing, "_column", noted)
    return read


def test_only_the_first_half_is_read_of_row_groups_without_a_candidate(keyed: Keyed, columns_read: list[str]) -> None:
    keyed.publish([keyed.file([(1, 1), (3, 3)])])

    assert keyed.found([(2, 2)]) == {}
    assert columns_read == [FIRST]


def test_nothing_is_read_of_row_groups_without_a_candidate_by_their_statistics(
    keyed: Keyed, columns_read: list[str]
) -> None:
    keyed.publish([keyed.file([(2, 2), (4, 4), (None, None)])])

    assert keyed.found([(1, 1), (5, 5)]) == {}
    assert columns_read == []
    for found in (2, 4):
        assert len(keyed.found([(1, 1), (found, found), (5, 5)])) == 1


def test_statistics_are_those_of_the_identity_and_not_of_a_field_in_a_struct(tmp_path: Path) -> None:
    table = Keyed(tmp_path, (Column("event", Struct((Column(FIRST, Scalar("long")),))), *SOURCE, *COLUMNS))
    files = DataFileWriter(write_target(table.view), storage={}, prefix="w", target_bytes=1 << 20)
    row = {"event": {FIRST: 7}, "partition": 0, "offset": 5, FIRST: 1, SECOND: 2}
    files.add(pa.RecordBatch.from_pylist([row], schema=files.arrow_schema))
    (written,) = files.close()
    table.publish([written])

    assert table.found([(1, 2)]) == {written.path: [(0, 0, 5)]}


def test_a_file_that_cannot_be_decoded_is_named(keyed: Keyed) -> None:
    written = keyed.file([(1, 1)])
    keyed.publish([written])
    Path(written.path.removeprefix("file://")).write_bytes(b"PAR1 damaged PAR1")

    with pytest.raises(CatalogError, match=written.path):
        keyed.found([(1, 1)])
