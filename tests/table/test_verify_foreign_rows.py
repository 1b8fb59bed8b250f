"""Rows that others inserted or removed excuse as many differences as their commits explain, and no more."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from frazil.model.plan import OffsetRange, PartitionFacts, TopicFacts
from frazil.proof.verification import FindingKind
from frazil.records import Records, binary
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record
from tests.table.column_changes import make_again
from tests.table.small_lake import NOON, Read, SmallLake, altered, spec_of


def kinds(lake: SmallLake) -> set[FindingKind]:
    return {each.kind for each in verify_table(lake.lake, lake.spec).findings}


def test_rows_that_lost_their_offsets_are_not_taken_for_inserted_ones(lake: SmallLake) -> None:
    """One open deletion must not excuse that all rows lost what traces them."""
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.compact()

    verification = verify_table(lake.lake, lake.spec)

    found = [each.what for each in verification.findings if each.kind is FindingKind.LOST_ROWS]
    assert "146 rows lack a part of their topic, partition and offset: another writer changed them" in found
    assert any("97 of 97 rows are missing" in each for each in found)
    assert not any("inserted" in note for note in verification.notes)


def test_more_rows_without_a_source_than_others_added_are_found(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_partition", "kafka_offset")
    lake.compact()

    found = verify_table(lake.lake, lake.spec).findings

    assert {each.kind for each in found} == {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}
    assert found[0].what == "146 rows have no partition or offset, but other writers added only 39 rows"


def test_rows_that_lost_their_offsets_in_a_table_of_one_file_are_found(tmp_path: Path) -> None:
    """The deletion rewrote the file, so others added as many rows as have no offset now."""
    lake = SmallLake(tmp_path, spec_of("orders"))
    lake.batch(Read("orders", 0, 0, 100))
    lake.table.delete("kafka_offset = 70")
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.compact()

    assert kinds(lake) == {FindingKind.LOST_ROWS}


def test_open_inserts_and_deletes_together_are_clean(lake: SmallLake) -> None:
    lake.table.append(pa.table({"symbol": ["theirs"] * 5}))
    lake.table.delete("kafka_offset = 70")
    lake.table.delete("kafka_offset = 20")
    lake.compact()
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings
    assert verification.notes[0] == "5 rows have no partition or offset: another writer inserted them"


def test_an_altered_offset_is_found_although_others_removed_rows_of_another_partition(lake: SmallLake) -> None:
    lake.table.delete("kafka_partition = 1 and kafka_offset = 7")
    lake.compact(altered("kafka_offset", {70: 50}))

    verification = verify_table(lake.lake, lake.spec)

    assert [(each.kind, each.where) for each in verification.findings] == [(FindingKind.ALTERED_OFFSETS, "orders-0")]
    assert any(note.startswith("orders-1: 1 rows that Frazil wrote are gone") for note in verification.notes)


@dataclass(frozen=True)
class Topic:
    """The records of the small table's rows, without those of some partitions and offsets."""

    without: frozenset[tuple[int, int]] = frozenset()

    def read(self, wanted: OffsetRange, _: object) -> Iterator[Records]:
        offsets = [n for n in range(wanted.start, wanted.end) if (wanted.partition, n) not in self.without]
        noon = int(NOON.timestamp() * 1000)
        times = [noon + n * 3_600_000 for n in offsets]
        values = [struct.pack(">bIb", 0, 1, 4) + f"S{n % 7}".encode() for n in offsets]
        keys = binary([str(n).encode() for n in offsets])
        yield Records(offsets, times, keys, binary(values), [None] * len(offsets), wanted.end)

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
