"""Rows that others inserted or removed excuse as many differences as their commits explain, and no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.types import IntegerType, LongType

from frazil.proof.verification import FindingKind
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake, altered, spec_of


def make_again(lake: SmallLake, **types: object) -> None:
    """Drop columns and add them, as another writer does; the values stay in the files."""
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        for name in types:
            update.delete_column(name)
    with lake.table.update_schema() as update:
        for name, kind in types.items():
            update.add_column(name, kind)
    lake.restart()


def kinds(lake: SmallLake) -> set[FindingKind]:
    return {each.kind for each in verify_table(lake.lake, lake.spec).findings}


def test_rows_that_lost_their_offsets_are_not_taken_for_inserted_ones(lake: SmallLake) -> None:
    """One open deletion must not excuse that all rows lost what traces them."""
    lake.table.delete("kafka_offset = 70")
    make_again(lake, kafka_offset=LongType())
    lake.compact()

    verification = verify_table(lake.lake, lake.spec)

    found = [each.what for each in verification.findings if each.kind is FindingKind.LOST_ROWS]
    assert "146 rows lack a part of their topic, partition and offset: another writer changed them" in found
    assert any("97 of 97 rows are missing" in each for each in found)
    assert not any("inserted" in note for note in verification.notes)


def test_more_rows_without_a_source_than_others_added_are_found(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 70")
    make_again(lake, kafka_partition=IntegerType(), kafka_offset=LongType())
    lake.compact()

    found = verify_table(lake.lake, lake.spec).findings

    assert {each.kind for each in found} == {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}
    assert found[0].what == "146 rows have no partition or offset, but other writers added only 39 rows"


def test_rows_that_lost_their_offsets_in_a_table_of_one_file_are_found(tmp_path: Path) -> None:
    """The deletion rewrote the file, so others added as many rows as have no offset now."""
    lake = SmallLake(tmp_path, spec_of("orders"))
    lake.batch(Read("orders", 0, 0, 100))
    lake.table.delete("kafka_offset = 70")
    make_again(lake, kafka_offset=LongType())
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
