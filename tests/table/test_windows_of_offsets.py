"""Reading a range of offsets gives what a filtered scan gives, whatever became of the table's columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.types import (
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from frazil.adapters.iceberg import windows
from frazil.adapters.iceberg.scan import TableScan
from frazil.dead_letters import list_dead_letters
from tests.table import small_lake
from tests.table.small_lake import Read, SmallLake

Found = TypeVar("Found")
RANGES = [(0, 5), (37, 63), (0, 1000), (99, 100), (100, 200)]


@pytest.fixture
def evolved(lake: SmallLake) -> SmallLake:
    """Older files have another name for a column, a narrower one, and lack a third."""
    with lake.table.update_schema() as update:
        update.rename_column("symbol", "ticker")
        update.add_column("more", StringType())
        update.update_column("kafka_schema_id", LongType())
    lake.table.append(lake.table.scan(row_filter="kafka_offset < 7").to_arrow())
    return lake


@pytest.mark.parametrize("batch_bytes", [1, windows.BATCH_BYTES])
def test_a_range_of_offsets_is_what_a_filtered_scan_gives(
    evolved: SmallLake, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "BATCH_BYTES", batch_bytes)
    scan = TableScan(evolved.view, columns=("*",), equal={"kafka_partition": 0})

    for start, end in RANGES:
        inside = And(GreaterThanOrEqual("kafka_offset", start), LessThan("kafka_offset", end))
        expected = evolved.table.scan(row_filter=And(EqualTo("kafka_partition", 0), inside)).to_arrow()
        found = list(scan.between("kafka_offset", start, end))
        together = pa.Table.from_batches(found, found[0].schema) if found else expected.slice(0, 0)
        order = [("kafka_offset", "ascending")]
        assert together.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_row_groups_outside_the_range_are_not_decoded(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = windows.slices

    def counting(parquet: pq.ParquetFile, dictionaries: pq.ParquetFile, group: int, *rest: Any, **how: Any) -> object:
        read.append(group)
        return plain(parquet, dictionaries, group, *rest, **how)

    monkeypatch.setattr(windows, "slices", counting)
    lake.batch(Read("orders", 0, 100, 120))

    list(TableScan(lake.view, columns=("*",)).between("kafka_offset", 105, 106))

    assert len(read) == 1


class Counting(FileIO):
    """Files that count reads and know the largest one: Arrow keeps what it read outside its memory pool."""

    largest, reads = 0, 0

    def read(self, size: int | None = -1, /) -> bytes | None:
        found = super().read(-1 if size is None else size)
        Counting.reads += 1
        Counting.largest = max(Counting.largest, len(found or b""))
        return found


def test_a_small_file_is_read_at_once(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """On S3 each read is a request."""
    opened: list[str] = []

    def counting(file: PyArrowFile, **_: Any) -> FileIO:
        path = file.location.removeprefix("file://")
        opened.extend([path] * path.endswith(".parquet"))
        return Counting(path) if path.endswith(".parquet") else FileIO(path)

    monkeypatch.setattr(PyArrowFile, "open", counting)
    monkeypatch.setattr(Counting, "reads", 0)

    found = list(TableScan(lake.view, columns=("*",)).between("kafka_offset", 37, 63))

    assert sum(part.num_rows for part in found) > 0
    assert Counting.reads == len(opened) > 0


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_row_group_of_large_values_is_not_held_whole(
    lake: SmallLake, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, plain = 48_000_000 // size, small_lake.rows

    def with_large_values(*wanted: object) -> pa.RecordBatch:
        batch = plain(*wanted)  # type: ignore[arg-type]
        return batch.set_column(0, "symbol", pa.array([os.urandom(size // 2).hex() for _ in range(batch.num_rows)]))

    monkeypatch.setattr(small_lake, "rows", with_large_values)
    lake.batch(Read("orders", 0, 1_000, 1_000 + count))
    scan = TableScan(lake.view, columns=("*",))
    monkeypatch.setattr(PyArrowFile, "open", lambda file, **_: Counting(file.location.removeprefix("file://")))
    found, peak = _measured(scan, 1_001, 1_003)

    assert sorted(pc.utf8_length(pa.concat_batches(found)["symbol"]).to_pylist()) == [size, size]
    assert peak < 24_000_000
    assert Counting.largest < 6_000_000


@pytest.mark.parametrize("first_long", [0, 15_000])
def test_long_values_of_a_dictionary_are_decoded_a_few_at_a_time(lake: SmallLake, first_long: int) -> None:
    """A file of 700 KB, whose text has 300 MB or 150 MB."""
    rows, length = 30_000, 10_000
    lake.batch(Read("orders", 0, 1_000, 1_000 + rows))
    few = pa.array(["x", *(str(n) * length for n in range(5))])
    chosen = pa.array([1 + n % 5 if n >= first_long else 0 for n in range(rows)], pa.int32())
    path = lake.files()[0]
    table = pq.read_table(path)
    field = table.schema.field("symbol")
    as_dictionary = pa.field("symbol", pa.dictionary(pa.int32(), pa.string()), metadata=field.metadata)
    changed = table.set_column(0, as_dictionary, pa.DictionaryArray.from_arrays(chosen, few))
    pq.write_table(changed, path, store_schema=False)

    found, peak = _measured(TableScan(lake.view, columns=("*",)), 30_000, 30_003)

    assert path.stat().st_size < 1_000_000
    assert pc.utf8_length(pa.concat_batches(found)["symbol"]).to_pylist() == [length] * 3
    assert peak < 48_000_000


@pytest.mark.parametrize("nested", [False, True])
def test_nulls_of_a_fixed_column_that_a_file_lacks_are_built_a_few_at_a_time(lake: SmallLake, nested: bool) -> None:
    """All together, they take 100 MB."""
    lake.batch(Read("orders", 0, 1_000, 11_000))
    if nested:
        with lake.table.update_schema() as update:
            update.add_column("more", StructType(NestedField(1, "n", LongType())))
        lake.table.overwrite(lake.table.scan().to_arrow())
    with lake.table.update_schema() as update:
        update.add_column(("more", "hash") if nested else "hash", FixedType(10_000))

    scan = TableScan(lake.view, columns=("*",))
    sizes = [(batch.num_rows, batch.nbytes) for batch in scan.between("kafka_offset", 1_000, 11_000)]

    assert sum(rows for rows, _ in sizes) == 10_000
    assert max(size for _, size in sizes) <= windows.BATCH_BYTES


@pytest.mark.parametrize("kind", ["list", "map", "list of lists"])
def test_nulls_of_a_fixed_field_that_elements_of_a_file_lack_are_built_a_few_at_a_time(
    lake: SmallLake, kind: str
) -> None:
    """All together, they take 100 MB: one row in ten has 10 elements."""
    item = StructType(NestedField(1, "n", LongType()))
    within = ListType(2, item, element_required=False)
    items, path, value = {
        "list": (within, "element", [{"n": 1}] * 10),
        "map": (
            MapType(2, StringType(), 3, item, value_required=False),
            "value",
            [(str(n), {"n": 1}) for n in range(10)],
        ),
        "list of lists": (
            ListType(3, within, element_required=False),
            "element.element",
            [None, [], [{"n": 1}] * 10],
        ),
    }[kind]
    lake.batch(Read("orders", 0, 1_000, 11_000))
    with lake.table.update_schema() as update:
        update.add_column("items", items)
    rows = lake.table.scan(row_filter="kafka_offset >= 1000").to_arrow()
    of_items = pa.array([value if n % 10 == 0 else None for n in range(len(rows))], rows.schema.field("items").type)
    lake.table.overwrite(rows.set_column(rows.schema.get_field_index("items"), rows.schema.field("items"), of_items))
    with lake.table.update_schema() as update:
        update.add_column(("items", *path.split("."), "hash"), FixedType(10_000))

    scan = TableScan(lake.view, columns=("*",))
    sizes = [(batch.num_rows, batch.nbytes) for batch in scan.between("kafka_offset", 1_000, 11_000)]

    assert sum(rows for rows, _ in sizes) == 10_000
    assert max(size for _, size in sizes) <= windows.BATCH_BYTES


@pytest.mark.parametrize("batch_bytes", [1, windows.BATCH_BYTES])
def test_rows_that_position_deletes_name_are_left_out(
    lake: SmallLake, batch_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the third row group as well, whose rows are not the first of the file."""
    monkeypatch.setattr(windows, "BATCH_BYTES", batch_bytes)
    lake.batch(Read("orders", 0, 1_000, 1_500))
    path = lake.files()[0]
    pq.write_table(pq.read_table(path), path, row_group_size=200)
    scan = TableScan(lake.view, columns=("*",))
    deleted_from(scan, path, tmp_path, [499, 3, 401], [3, 7])

    found = [n for batch in scan.between("kafka_offset", 1_000, 2_000) for n in batch["kafka_offset"].to_pylist()]
    few = [n for batch in scan.between("kafka_offset", 1_400, 1_403) for n in batch["kafka_offset"].to_pylist()]

    assert sorted(found) == sorted({*range(1_000, 1_500)} - {1_003, 1_007, 1_401, 1_499})
    assert sorted(few) == [1_400, 1_402]


def test_a_file_with_position_deletes_is_not_held_whole(lake: SmallLake, tmp_path: Path) -> None:
    lake.batch(Read("orders", 0, 1_000, 11_000))
    path = lake.files()[0]
    table = pq.read_table(path)
    large = pa.array([os.urandom(2_000).hex() for _ in range(table.num_rows)])
    pq.write_table(
        table.set_column(0, table.schema.field(0), large), path, data_page_size=1 << 16, use_dictionary=False
    )
    scan = TableScan(lake.view, columns=("*",))
    deleted_from(scan, path, tmp_path, [5])

    found, peak = _measured(scan, 1_004, 1_007)

    assert sorted(pa.concat_batches(found)["kafka_offset"].to_pylist()) == [1_004, 1_006]
    assert peak < 30_000_000


@pytest.mark.parametrize("pending", [False, True])
def test_large_dead_letters_are_listed_without_holding_all(
    lake: SmallLake, pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MB in two files, of which three letters of 100 KB are listed."""
    plain = small_lake.dead_letters

    def with_large_values(*wanted: Any, **more: Any) -> pa.RecordBatch:
        batch = plain(*wanted, **more)
        values = pa.array([os.urandom(100_000) for _ in range(batch.num_rows)])
        return batch.set_column(batch.schema.get_field_index("value"), "value", values)

    monkeypatch.setattr(small_lake, "dead_letters", with_large_values)
    for start in (1_000, 2_000):
        lake.batch(Read("orders", 0, start, start + 501, dead=tuple(range(start, start + 500))), show=not pending)

    listed, peak = measured(lambda: list_dead_letters(lake.lake, lake.spec, limit=3, pending=pending))

    assert sum(listed.by_reason.values()) == (1_000 if pending else 1_002)
    assert [len(each.value or b"") for each in listed.newest] == [100_000] * 3
    assert peak < 40_000_000


def deleted_from(scan: TableScan, data: Path, folder: Path, *positions: Sequence[int]) -> None:
    """Give the scan's task for a data file files of position deletes."""
    for place, task in enumerate(scan._tasks):
        if task.file.file_path.endswith(data.name):
            files = {deletes(folder / f"{n}.parquet", task.file.file_path, at) for n, at in enumerate(positions)}
            scan._tasks[place] = FileScanTask(task.file, delete_files=files)


def deletes(file: Path, path: str, positions: Sequence[int]) -> DataFile:
    """A file of position deletes, sorted as the specification wants it."""
    rows = sorted([*((path, n) for n in positions), *(("file:///another.parquet", n) for n in range(5))])
    pq.write_table(
        pa.table({"file_path": [p for p, _ in rows], "pos": pa.array([n for _, n in rows], pa.int64())}), file
    )
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{file}",
        file_format=FileFormat.PARQUET,
        record_count=len(rows),
        file_size_in_bytes=file.stat().st_size,
    )


@pytest.mark.parametrize("others", [("ask", "currency"), "currency"])
def test_a_file_may_lack_two_fields_of_one_name(lake: SmallLake, others: str | tuple[str, str]) -> None:
    with lake.table.update_schema() as update:
        for side in ("bid", "ask"):
            update.add_column(side, StructType(NestedField(1, "n", LongType())))
    lake.table.overwrite(lake.table.scan().to_arrow())
    with lake.table.update_schema() as update:
        update.add_column(("bid", "currency"), StringType())
        update.add_column(others, StringType())

    batches = list(TableScan(lake.view, columns=("*",)).between("kafka_offset", 0, 1_000))

    assert sum(batch.num_rows for batch in batches) == lake.table.scan().count()


POOLS: list[pa.MemoryPool] = []
"""Kept for good: a buffer that is released after its pool corrupts memory."""


def _measured(scan: TableScan, start: int, end: int) -> tuple[list[pa.RecordBatch], int]:
    """Return the rows in the range, and the bytes that reading them took at most."""
    return measured(lambda: list(scan.between("kafka_offset", start, end)))


def measured(read: Callable[[], Found]) -> tuple[Found, int]:
    usual = pa.default_memory_pool()
    POOLS.append(pa.proxy_memory_pool(usual))
    pa.set_memory_pool(POOLS[-1])
    try:
        return read(), POOLS[-1].max_memory()
    finally:
        pa.set_memory_pool(usual)


def test_a_large_file_is_not_held_whole_when_its_rows_are_counted(empty_lake: SmallLake) -> None:
    empty_lake.batch(Read("orders", 0, 0, 100_000))
    (path,) = empty_lake.files()
    pq.write_table(pa.concat_tables([pq.read_table(path)] * 20), path)
    scan = TableScan(empty_lake.view, columns=("kafka_key", "kafka_partition", "kafka_offset"))

    found, peak = measured(lambda: sum(batch.num_rows for batch in scan.batches()))

    assert found == 2_000_000
    assert peak < 25_000_000


def test_a_file_alone_that_lacks_all_wanted_columns_has_its_rows(empty_lake: SmallLake) -> None:
    empty_lake.table.append(pa.table({"symbol": ["theirs"] * 3}))
    empty_lake.restart()

    batches = list(TableScan(empty_lake.view, columns=("kafka_partition", "kafka_offset")).batches())

    assert [(batch.num_rows, batch.column("kafka_offset").null_count) for batch in batches] == [(3, 3)]
