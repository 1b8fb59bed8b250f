"""What other engines did to the columns and files of a table is named, and not taken for lost rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyiceberg.types import IcebergType, LongType, StringType

from frazil.adapters.iceberg.scan import LiveFiles, live_files
from frazil.dead_letters import list_dead_letters
from frazil.materialize.dead_letters import ensure_dead_letters
from frazil.materialize.state import standing
from frazil.model.changes import AddColumn
from frazil.model.columns import Scalar
from frazil.model.errors import ForeignTableError
from frazil.model.snapshot import TableView
from frazil.model.spec import MetadataColumns
from frazil.proof.verification import FindingKind
from frazil.verify.against_kafka import KafkaSide, lacking_metadata
from frazil.verify.letters import LETTER, LetterScan, dead_letter_scan
from frazil.verify.table import verify_table
from frazil.verify.window import _side
from tests.table.column_changes import make_again, restore
from tests.table.small_lake import Read, SmallLake, spec_of


def test_a_metadata_column_that_was_dropped_is_named(lake: SmallLake) -> None:
    def lacking() -> list[tuple[FindingKind, str]]:
        here = standing(lake.view, pipeline=lake.spec.pipeline)
        return [(each.kind, each.what.partition(",")[0]) for each in lacking_metadata(lake.spec, here)]

    assert lacking() == []
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("kafka_key").delete_column("kafka_timestamp")
    assert lacking() == [
        (FindingKind.NO_COLUMN, "the table has no column kafka_timestamp"),
        (FindingKind.NO_COLUMN, "the table has no column kafka_key"),
    ]


@pytest.mark.parametrize(("change", "fate"), [("rename", "renamed to theirs"), ("drop", "dropped")])
def test_rows_before_a_traced_column_was_made_again_are_not_called_lost(
    lake: SmallLake, change: str, fate: str
) -> None:
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("kafka_offset", "theirs") if change == "rename" else update.delete_column("kafka_offset")
    lake.lake.change_schema(lake.view, [AddColumn("kafka_offset", Scalar("long"))], {})

    verification = verify_table(lake.lake, lake.spec)

    assert [each.kind for each in verification.findings] == [FindingKind.UNPROVABLE]
    assert f"the column kafka_offset was {fate} by another writer and made again" in verification.findings[0].what
    assert verification.notes == ()


@pytest.mark.parametrize("where", ["rows", "dead letters"])
def test_a_file_in_another_format_is_unprovable(lake: SmallLake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_orc = lake.view.uuid if where == "rows" else lake.dead_view.uuid

    def live(view: TableView, snapshot_id: int) -> LiveFiles:
        there = live_files(view, snapshot_id)
        data = there.data if view.uuid != in_orc else tuple(replace(file, format="ORC") for file in there.data)
        return replace(there, data=data)

    monkeypatch.setattr("frazil.verify.files.live_files", live)

    findings = verify_table(lake.lake, lake.spec).findings

    assert {each.kind for each in findings} == {FindingKind.UNPROVABLE}
    counted = "2 files" if where == "rows" else "1 file"
    assert findings[0].what.startswith(f"{counted} of another writer in the format ORC, expected PARQUET")


@pytest.mark.parametrize("column", ["offset", "key"])
@pytest.mark.parametrize(("change", "fate"), [("rename", "renamed to theirs"), ("drop", "dropped")])
def test_a_column_that_the_dead_letters_lost_is_named(lake: SmallLake, column: str, change: str, fate: str) -> None:
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    with dead.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column(column, "theirs") if change == "rename" else update.delete_column(column)

    verification = verify_table(lake.lake, lake.spec, kafka=cast("KafkaSide", object()))
    found = [(each.kind, each.what) for each in verification.findings]

    assert {kind for kind, _ in found} == {FindingKind.UNPROVABLE}
    assert f"the column {column} was {fate} by another writer" in found[0][1]
    with pytest.raises(ForeignTableError, match=f"lacks the column {column}, which"):
        list_dead_letters(lake.lake, lake.spec, limit=3)


@pytest.mark.parametrize("column", ["offset", "key"])
@pytest.mark.parametrize(("change", "fate"), [("rename", "renamed to theirs"), ("drop", "dropped")])
def test_a_column_of_dead_letters_that_was_made_again_is_named(
    lake: SmallLake, column: str, change: str, fate: str
) -> None:
    """The visible snapshot has the schema from before, which readers of the table do not see."""
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    with dead.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column(column, "theirs") if change == "rename" else update.delete_column(column)
    lake.lake.change_schema(lake.dead_view, [AddColumn(column, Scalar("long" if column == "offset" else "binary"))], {})

    verification = verify_table(lake.lake, lake.spec, kafka=cast("KafkaSide", object()))

    assert {each.kind for each in verification.findings} == {FindingKind.UNPROVABLE}
    found = [each.what for each in verification.findings]
    assert f"the column {column} was {fate} by another writer and made again" in found[0]


@pytest.mark.parametrize("column", ["offset", "key", "headers"])
def test_a_column_that_was_made_again_while_there_were_no_dead_letters_does_not_keep_later_ones_from_the_proof(
    empty_lake: SmallLake, column: str
) -> None:
    make_again(empty_lake, empty_lake.spec.dead_letters_identifier, column)
    empty_lake.batch(Read("orders", 0, 0, 10, dead=(3,)))

    verification = verify_table(empty_lake.lake, empty_lake.spec)

    assert verification.clean, verification.findings


@pytest.mark.parametrize("column", ["offset", "key", "batch_id"])
def test_dead_letters_whose_column_was_made_again_are_proven_once_their_values_are_copied(
    lake: SmallLake, column: str
) -> None:
    make_again(lake, lake.spec.dead_letters_identifier, column)
    lake.batch(Read("orders", 0, 100, 110, dead=(104, 107)))
    before = verify_table(lake.lake, lake.spec)

    restore(lake, lake.spec.dead_letters_identifier)

    assert {each.kind for each in before.findings} == {FindingKind.UNPROVABLE}
    after = verify_table(lake.lake, lake.spec)
    assert after.clean, after.findings


def test_rows_whose_column_was_made_again_are_proven_once_their_values_are_copied(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.batch(Read("orders", 0, 100, 110))
    before = verify_table(lake.lake, lake.spec)

    restore(lake, lake.spec.identifier)

    assert {each.kind for each in before.findings} == {FindingKind.UNPROVABLE}
    after = verify_table(lake.lake, lake.spec)
    assert after.clean, after.findings


def test_rows_that_others_inserted_do_not_make_a_column_unprovable_that_was_made_again_while_empty(
    empty_lake: SmallLake,
) -> None:
    make_again(empty_lake, empty_lake.spec.identifier, "kafka_offset")
    empty_lake.batch(Read("orders", 0, 0, 10))
    empty_lake.table.append(pa.table({"symbol": ["theirs"]}))
    empty_lake.restart()

    verification = verify_table(empty_lake.lake, empty_lake.spec)

    assert verification.clean, verification.findings


@pytest.mark.parametrize("column", ["topic", "generation", "table_uuid", "partition", "offset"])
def test_dead_letters_whose_values_were_lost_are_not_proven(lake: SmallLake, column: str) -> None:
    """They may be of another table, or of a topic that was replaced."""
    make_again(lake, lake.spec.dead_letters_identifier, column)
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    dead.overwrite(dead.scan().to_arrow())
    lake.restart()

    findings = verify_table(lake.lake, lake.spec).findings

    assert {each.kind for each in findings} == {FindingKind.DEAD_LETTER_COUNT}
    assert findings[0].what.startswith("2 dead letters without table, topic, generation, partition or offset")


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_a_field_that_the_headers_of_dead_letters_lost_is_named(lake: SmallLake, change: str) -> None:
    """Dead letters after it would lose what their headers hold."""
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    value = ("headers", "element", "value")
    with dead.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column(value, "theirs") if change == "rename" else update.delete_column(value)
    lake.restart()

    findings = verify_table(lake.lake, lake.spec, kafka=cast("KafkaSide", object())).findings

    assert {each.kind for each in findings} == {FindingKind.UNPROVABLE}
    assert "the column headers[].value was renamed or dropped by another writer" in findings[0].what
    with pytest.raises(ForeignTableError, match=r"lacks the column headers\[\].value, which"):
        ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))


def test_a_field_that_others_added_to_the_headers_of_dead_letters_is_not_compared(lake: SmallLake) -> None:
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    with dead.update_schema() as update:
        update.add_column(("headers", "element", "theirs"), StringType())
    lake.restart()

    scan = dead_letter_scan(lake.dead_view, ("orders", 0), generation=0, rows_uuid=lake.view.uuid, snapshot_id=None)
    side = _side(list(LetterScan(scan, None).between("offset", 0, 1_000)), "offset", LETTER)

    assert side.offsets.tolist() == [10, 21]


def test_a_field_that_kept_headers_lost_is_named(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path, spec_of("orders", metadata=MetadataColumns(keep=("partition", "offset", "headers"))))
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(("kafka_headers", "element", "value"))
    here = standing(lake.view, pipeline=lake.spec.pipeline)

    assert [each.what.partition(",")[0] for each in lacking_metadata(lake.spec, here)] == [
        "the table has no column kafka_headers[].value"
    ]


def test_dead_letters_that_were_rewritten_under_another_name_are_read_by_the_present_one(lake: SmallLake) -> None:
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    with dead.update_schema() as update:
        update.rename_column("offset", "theirs")
    dead.overwrite(dead.scan().to_arrow())
    with dead.update_schema() as update:
        update.rename_column("theirs", "offset")

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings


def test_a_table_without_keys_needs_no_column_for_them_whatever_was_read_before(lake: SmallLake) -> None:
    spec = replace(lake.spec, key="none")
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("kafka_key")
    here = standing(lake.view, pipeline=lake.spec.pipeline)
    here = replace(here, state=replace(here.state, key_schema_ids=(7,)))

    assert list(lacking_metadata(spec, here)) == []
    assert [each.kind for each in lacking_metadata(replace(spec, key="avro"), here)] == [FindingKind.NO_COLUMN]


@pytest.mark.parametrize("column", ["kafka_partition", "kafka_offset"])
def test_a_traced_column_of_another_type_is_named(lake: SmallLake, column: str) -> None:
    was = str(lake.table.schema().find_type(column))
    make_again(lake, lake.spec.identifier, column, kind=StringType())
    overwrite_with(lake, lake.spec.identifier, column, "7")

    findings = verify_table(lake.lake, lake.spec, kafka=cast("KafkaSide", object())).findings

    assert {each.kind for each in findings} == {FindingKind.UNPROVABLE}
    assert f"the column {column} has the type string, expected {was}" in findings[0].what


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ("generation", StringType(), "int"),
        ("table_uuid", LongType(), "string"),
        ("topic", LongType(), "string"),
        ("offset", StringType(), "long"),
        ("key", StringType(), "binary"),
    ],
)
def test_a_column_of_dead_letters_of_another_type_is_named(
    lake: SmallLake, column: str, kind: IcebergType, expected: str
) -> None:
    make_again(lake, lake.spec.dead_letters_identifier, column, kind=kind)
    overwrite_with(lake, lake.spec.dead_letters_identifier, column, "7" if isinstance(kind, StringType) else 7)

    findings = verify_table(lake.lake, lake.spec, kafka=cast("KafkaSide", object())).findings

    assert {each.kind for each in findings} == {FindingKind.UNPROVABLE}
    assert f"the column {column} has the type {kind}, expected {expected}" in findings[0].what
    with pytest.raises(ForeignTableError, match=f"the column {column} has the type {kind}, expected {expected}"):
        ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))


def test_a_traced_number_that_another_writer_widened_is_read(lake: SmallLake) -> None:
    with lake.table.update_schema() as update:
        update.update_column("kafka_partition", LongType())
    lake.restart()

    verification = verify_table(lake.lake, lake.spec)

    assert verification.clean, verification.findings


def overwrite_with(lake: SmallLake, identifier: str, column: str, value: object) -> None:
    table = lake.lake.catalog.load_table(identifier)
    rows = table.scan().to_arrow()
    at = rows.schema.get_field_index(column)
    field = rows.schema.field(at)
    table.overwrite(rows.set_column(at, field, pa.array([value] * len(rows), field.type)))
    lake.restart()
