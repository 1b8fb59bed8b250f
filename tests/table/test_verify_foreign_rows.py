"""Rows that others inserted or removed excuse as many differences as their commits explain, and no more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import standing
from frazil.model.plan import OffsetRange, PartitionFacts, TopicFacts
from frazil.proof.verification import FindingKind
from frazil.records import Records
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record
from tests.position_deletes import delete_positions, delete_rows
from tests.table.column_changes import make_again, restore
from tests.table.small_lake import NOON, Read, SmallLake, altered, spec_of


def insert(lake: SmallLake, count: int, **columns: pa.Array) -> None:
    """Rows of another writer, without a source unless `columns` has a part of one."""
    lake.table.append(pa.table({"symbol": ["theirs"] * count, **columns}))
    lake.restart()


def emptied(*names: str, rows: int) -> Callable[[pa.Table], pa.Table]:
    """Columns that are null in the first rows."""

    def apply(table: pa.Table) -> pa.Table:
        first = pa.array([number < rows for number in range(len(table))])
        for name in names:
            at = table.schema.get_field_index(name)
            values = pa.compute.if_else(first, None, table[name])
            table = table.set_column(at, table.schema.field(at), values)
        return table

    return apply


def kinds(lake: SmallLake) -> set[FindingKind]:
    return {each.kind for each in verify_table(lake.lake, lake.spec).findings}


def test_rows_that_lost_their_offsets_are_not_taken_for_inserted_ones(lake: SmallLake) -> None:
    """One open deletion must not excuse that all rows lost what traces them."""
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.compact()

    verification = verify_table(lake.lake, lake.spec)

    found = [each.what for each in verification.findings if each.kind is FindingKind.LOST_ROWS]
    assert "146 rows without a part of topic, partition and offset: changed by another writer" in found
    assert any("missing: 97 of 97 rows" in each for each in found)
    assert not any("inserted" in note for note in verification.notes)


def test_more_rows_without_a_source_than_others_added_are_found(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_partition", "kafka_offset")
    lake.compact()

    found = verify_table(lake.lake, lake.spec).findings

    assert {each.kind for each in found} == {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}
    assert found[0].what == "146 rows without a partition or offset, but other writers added only 0 of them"


def test_rows_that_lost_their_offsets_in_a_table_of_one_file_are_found(tmp_path: Path) -> None:
    """The deletion rewrote the file, and so added as many rows as have no offset now."""
    lake = SmallLake(tmp_path, spec_of("orders"))
    lake.batch(Read("orders", 0, 0, 100))
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.compact()

    assert kinds(lake) == {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}


def test_open_inserts_and_deletes_together_are_clean(lake: SmallLake) -> None:
    lake.table.append(pa.table({"symbol": ["theirs"] * 5}))
    lake.table.delete("kafka_offset = 70")
    lake.table.delete("kafka_offset = 20")
    lake.compact()
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings
    assert verification.notes[0] == "5 rows without a partition or offset, inserted by another writer"


def test_an_altered_offset_is_found_although_others_removed_rows_of_another_partition(lake: SmallLake) -> None:
    lake.table.delete("kafka_partition = 1 and kafka_offset = 7")
    lake.compact(altered("kafka_offset", {70: 50}))

    verification = verify_table(lake.lake, lake.spec)

    assert [(each.kind, each.where) for each in verification.findings] == [(FindingKind.ALTERED_OFFSETS, "orders-0")]
    assert any(note.startswith("orders-1: missing: 1 row that Frazil wrote") for note in verification.notes)


def test_an_erasure_that_rewrote_files_excuses_no_sources_that_a_compaction_emptied(lake: SmallLake) -> None:
    """The erasure of one row adds and removes about a hundred."""
    lake.table.delete("kafka_partition = 1 and kafka_offset = 7")
    lake.compact(emptied("kafka_partition", "kafka_offset", rows=30))

    verification = verify_table(lake.lake, lake.spec)

    found = [each.what for each in verification.findings if each.kind is FindingKind.ROW_COUNT]
    assert "30 rows without a partition or offset, but other writers added only 0 of them" in found
    assert "missing: 31 rows that Frazil wrote, but other writers removed only 1 of them" in found
    assert not any("inserted" in note for note in verification.notes)


def test_rows_that_others_inserted_and_erased_again_excuse_no_emptied_sources(lake: SmallLake) -> None:
    insert(lake, 5)
    lake.state = lake.state.with_foreign(verify_table(lake.lake, lake.spec).foreign)
    lake.batch(Read("orders", 0, 100, 110))
    lake.table.delete("symbol = 'theirs'")
    lake.compact(emptied("kafka_partition", "kafka_offset", rows=5))

    assert FindingKind.LOST_ROWS in kinds(lake)


@pytest.mark.parametrize("before", [True, False])
def test_inserts_and_erasures_around_a_repair_of_columns_are_clean(lake: SmallLake, *, before: bool) -> None:
    def change() -> None:
        insert(lake, 5)
        lake.table.delete("kafka_partition = 1 and kafka_offset = 7")

    if before:
        change()
    make_again(lake, lake.spec.identifier, "kafka_offset")
    restore(lake, lake.spec.identifier)
    if not before:
        change()
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings
    assert verification.notes[0] == "5 rows without a partition or offset, inserted by another writer"
    assert (verification.foreign.unsourced_added, verification.foreign.sourced_removed) == (5, 1)


def test_an_erasure_that_loses_the_sources_of_a_column_made_again_is_found(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.table.delete("kafka_partition = 1 and symbol = 'S0'")
    lake.table.delete("kafka_partition = 0 and symbol = 'S0'")
    lake.restart()

    assert {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS} <= kinds(lake)


@pytest.mark.parametrize("metrics", ["full", "none"])
def test_rows_that_others_inserted_with_a_part_of_a_source_are_named(lake: SmallLake, metrics: str) -> None:
    with lake.table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.default": metrics})
    insert(lake, 4, kafka_partition=pa.array([0] * 4, pa.int32()))
    lake.table.delete("kafka_partition = 1 and kafka_offset = 7")
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings
    assert verification.notes[0] == "4 rows without a partition or offset, inserted by another writer"
    assert (verification.foreign.unsourced_added, verification.foreign.sourced_removed) == (4, 1)


def test_rows_that_others_only_marked_as_deleted_count_once(lake: SmallLake, tmp_path: Path) -> None:
    insert(lake, 5)
    rows = lake.table.scan().to_arrow()
    delete_rows(lake.table, tmp_path)
    lake.table.append(rows)
    lake.table.delete("kafka_partition = 1 and kafka_offset = 7")
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings
    assert verification.foreign.sourced_removed == 1


def batch(lake: SmallLake, start: int, end: int) -> None:
    """A batch that first counts what others changed, as `materialize` does."""
    lake.restart()
    at = standing(lake.view, pipeline=lake.spec.pipeline)
    lake.state = replace(at.state, foreign=count_foreign(at))
    lake.batch(Read("orders", 0, start, end))
    lake.restart()


def changed(lake: SmallLake) -> tuple[int, int]:
    """The rows without a source that others added, and those with one that they removed; nothing is wrong."""
    lake.restart()
    verification = verify_table(lake.lake, lake.spec)
    assert verification.clean, verification.findings
    return verification.foreign.unsourced_added, verification.foreign.sourced_removed


def test_marks_on_inserted_rows_of_a_mixed_file_excuse_no_emptied_sources(lake: SmallLake, tmp_path: Path) -> None:
    insert(lake, 10)
    lake.compact()
    batch(lake, 100, 110)
    file = next(task.file for task in lake.table.scan().plan_files() if task.file.record_count == 157)
    assert pq.read_table(file.file_path.removeprefix("file://"))["kafka_offset"][:10].null_count == 10

    delete_positions(lake.table, tmp_path, {file: range(8, 12)})
    assert changed(lake) == (8, 2)
    delete_positions(lake.table, tmp_path, {file: range(10)})
    assert changed(lake) == (0, 2)
    lake.compact(emptied("kafka_partition", "kafka_offset", rows=2))

    assert FindingKind.ROW_COUNT in kinds(lake)


def test_changes_that_others_took_back_excuse_no_emptied_sources(lake: SmallLake) -> None:
    """Each change and each return are in another batch."""
    insert(lake, 10)
    batch(lake, 100, 110)
    lake.table.delete("symbol = 'theirs'")
    batch(lake, 110, 120)
    erased = "kafka_partition = 1 and kafka_offset < 10"
    rows = lake.table.scan(row_filter=erased).to_arrow()
    lake.table.delete(erased)
    batch(lake, 120, 130)
    lake.table.append(rows)
    batch(lake, 130, 140)
    assert changed(lake) == (0, 0)

    lake.compact(emptied("kafka_partition", "kafka_offset", rows=10))

    assert {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS} <= kinds(lake)


@pytest.mark.parametrize("after_a_batch", [False, True])
def test_a_file_that_others_listed_twice_counts_twice(lake: SmallLake, *, after_a_batch: bool) -> None:
    insert(lake, 5)
    if after_a_batch:
        batch(lake, 100, 110)
    file = next(task.file for task in lake.table.scan().plan_files() if task.file.record_count == 5)
    add(lake, file, file)

    assert changed(lake) == (15, 0)


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.time32("ms"), pa.timestamp("ns", "Europe/Berlin")])
def test_a_file_of_others_with_a_type_that_iceberg_lacks_is_counted(
    lake: SmallLake, tmp_path: Path, kind: pa.DataType
) -> None:
    mapping = lake.table.schema().name_mapping.model_dump_json()
    with lake.table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.table({"symbol": ["a", "b"], "took": pa.array([1, 2], kind)}), path)
    add(lake, data_file(path, rows=2))

    foreign = count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))

    assert (foreign.unsourced_added, foreign.sourced_removed) == (2, 0)


def test_a_mapping_of_names_without_any_is_none(lake: SmallLake) -> None:
    with lake.table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": "[]"})

    parts = TableScan(lake.view, columns=("kafka_offset",)).between("kafka_offset", 0, 8)

    assert {n for part in parts for n in part.column("kafka_offset").to_pylist()} == {*range(8)}


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.uint64()], ids=str)
def test_a_file_of_others_with_a_type_that_iceberg_lacks_is_a_finding_and_other_checks_go_on(
    lake: SmallLake, kind: pa.DataType
) -> None:
    whole = lake.table.scan().to_arrow().slice(0, 2)
    with lake.table.transaction() as transaction:
        mapping = lake.table.schema().name_mapping.model_dump_json()
        transaction.set_properties({"schema.name-mapping.default": mapping})
    took = pa.array([None, None], kind)
    path = lake.folder / "theirs.parquet"
    plain = pa.table({name: whole.column(name) for name in whole.column_names} | {"took": took})
    pq.write_table(plain.replace_schema_metadata(None), path)
    add(lake, data_file(path, rows=2))

    verification = verify_table(lake.lake, lake.spec)

    assert [(each.kind, each.where) for each in verification.findings] == [
        (FindingKind.UNPROVABLE, f"file://{path}"),
        (FindingKind.UNPROVABLE, lake.spec.identifier),
    ]
    assert "took" in verification.findings[0].what or str(kind) in verification.findings[0].what
    assert [each.name for each in verification.checks if each.passed] == ["state", "dead-letter files"]


def data_file(path: Path, *, rows: int) -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    return file


def add(lake: SmallLake, *files: DataFile) -> None:
    """Another writer's commit that lists these data files."""
    with lake.table.transaction() as transaction, transaction.update_snapshot().fast_append() as commit:
        for file in files:
            commit.append_data_file(file)
    lake.restart()


@dataclass(frozen=True)
class Topic:
    """The records of the small table's rows, without those of some partitions and offsets."""

    without: frozenset[tuple[int, int]] = frozenset()

    def read(self, ranges: Sequence[OffsetRange], _: object) -> Iterator[Iterator[Records]]:
        return map(self._chunks, ranges)

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        offsets = [n for n in range(wanted.start, wanted.end) if (wanted.partition, n) not in self.without]
        noon = int(NOON.timestamp() * 1000)
        times = [noon + n * 3_600_000 for n in offsets]
        values = [struct.pack(">bIb", 0, 1, 4) + f"S{n % 7}".encode() for n in offsets]
        keys = [str(n).encode() for n in offsets]
        yield Records.of(offsets, times, keys, values, [None] * len(offsets), wanted.end)

    def side(self, ends: dict[int, int]) -> KafkaSide:
        registry = RegistryInMemory()
        registry.register("orders-value", record(a_field("symbol", "string")))
        partitions = {number: PartitionFacts(0, end) for number, end in ends.items()}
        return KafkaSide(TopicsInMemory({"orders": TopicFacts("orders", "id-orders", partitions)}), self, registry)


def test_removals_in_one_partition_do_not_excuse_a_missing_record_of_another(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path, spec_of("orders"))
    lake.batch(Read("orders", 0, 0, 30, gaps=(25,)), Read("orders", 1, 0, 30))
    lake.table.delete("kafka_partition = 1 and kafka_offset < 5")
    lake.restart()
    ends = {0: 30, 1: 30}

    as_read = verify_table(lake.lake, lake.spec, kafka=Topic(frozenset({(0, 25)})).side(ends))
    with_one_more = verify_table(lake.lake, lake.spec, kafka=Topic().side(ends))

    assert as_read.clean, as_read.findings
    assert [(each.kind, each.where, each.offsets) for each in with_one_more.findings] == [
        (FindingKind.MISSING_RECORD, "orders-0", (25,))
    ]


def test_rows_that_kafka_compacted_are_no_finding_where_others_removed_rows(tmp_path: Path) -> None:
    """The sums no longer prove that they were read, and Kafka has none of the removed rows either."""
    lake = SmallLake(tmp_path, spec_of("orders"))
    lake.batch(Read("orders", 0, 0, 30))
    lake.table.delete("kafka_offset = 5")
    lake.restart()

    verification = verify_table(lake.lake, lake.spec, kafka=Topic(frozenset({(0, 5), (0, 6)})).side({0: 30}))

    assert verification.clean, verification.findings
