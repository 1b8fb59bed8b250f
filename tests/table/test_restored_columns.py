"""Restoring dropped columns brings back all values, or changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, LongType, StringType, UUIDType

from frazil.adapters.iceberg.restore import restore_columns
from frazil.model.errors import ForeignTableError
from frazil.proof.verification import FindingKind
from frazil.verify.table import verify_table
from tests.table.column_changes import make_again, mark_all_deleted, restore
from tests.table.small_lake import Read, SmallLake

CASES = [
    ("rows", ("kafka_partition", "kafka_offset")),
    ("dead letters", ("key", "value", "offset", "headers")),
]


def identifier(lake: SmallLake, where: str) -> str:
    return lake.spec.identifier if where == "rows" else lake.spec.dead_letters_identifier


def table(lake: SmallLake, where: str) -> Table:
    return lake.lake.catalog.load_table(identifier(lake, where))


def values(lake: SmallLake, where: str, *columns: str) -> list[dict[str, Any]]:
    return sorted(table(lake, where).scan(selected_fields=columns).to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize(("where", "columns"), CASES)
def test_all_columns_that_were_made_again_are_named_and_restored_at_once(
    lake: SmallLake, where: str, columns: tuple[str, ...]
) -> None:
    before = values(lake, where, *columns)
    make_again(lake, identifier(lake, where), *columns)

    (found,) = (each for each in verify_table(lake.lake, lake.spec).findings if "made them again" in each.what)
    restore(lake, identifier(lake, where))

    assert found.kind is FindingKind.UNPROVABLE
    assert all(f"{name} (dropped)" in found.what for name in columns if name != "headers")  # which has no values
    assert values(lake, where, *columns) == before
    after = verify_table(lake.lake, lake.spec)
    assert after.clean, after.findings


def test_columns_that_are_still_missing_and_others_are_restored_together(lake: SmallLake) -> None:
    before = values(lake, "dead letters", "key", "value")
    make_again(lake, lake.spec.dead_letters_identifier, "key")
    with table(lake, "dead letters").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("value")

    assert set(restore_columns(table(lake, "dead letters"))) == {"key", "value"}
    assert values(lake, "dead letters", "key", "value") == before
    assert restore_columns(table(lake, "dead letters")) == ()


def test_a_column_that_was_made_again_twice_gets_the_values_of_both(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.batch(Read("orders", 0, 100, 110))
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.batch(Read("orders", 0, 110, 120))

    assert restore_columns(lake.table) == ("kafka_offset",)
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean


def test_values_are_lost_only_where_they_are_given_up(lake: SmallLake) -> None:
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("symbol")
    make_again(lake, lake.spec.identifier, "kafka_offset")

    assert restore_columns(lake.table, give_up=["symbol"]) == ("kafka_offset",)
    assert "symbol" not in lake.table.schema().column_names


def test_a_column_of_another_type_is_refused_and_nothing_is_changed(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset", kind=StringType())
    head = lake.view.head

    with pytest.raises(ForeignTableError, match="kafka_offset is string, was long") as refused:
        restore_columns(lake.table)

    assert refused.value.hint.startswith("drop these columns and restore again")
    lake.restart()
    assert lake.view.head == head


def test_a_field_within_a_column_that_would_be_lost_is_refused(lake: SmallLake) -> None:
    """`headers` is there under its id; a field in it is not."""
    letters = table(lake, "dead letters")
    rows = letters.scan().to_arrow()
    headers = [[{"key": "trace", "value": b"1"}]] * len(rows)
    at = rows.schema.get_field_index("headers")
    letters.overwrite(rows.set_column(at, rows.schema.field(at), [headers]))
    make_again(lake, lake.spec.dead_letters_identifier, "headers")
    assert restore_columns(table(lake, "dead letters")) == ("headers",)
    assert values(lake, "dead letters", "headers") == [{"headers": each} for each in headers]

    with table(lake, "dead letters").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(("headers", "element", "value"))
    make_again(lake, lake.spec.dead_letters_identifier, "key")

    with pytest.raises(ForeignTableError, match=r"would lose the values of headers\.element\.value"):
        restore_columns(table(lake, "dead letters"))
    assert restore_columns(table(lake, "dead letters"), give_up=["headers.element.value"]) == ("key",)


def test_values_of_rows_that_are_only_marked_as_deleted_hide_nothing(lake: SmallLake, tmp_path: Path) -> None:
    """An engine that merges on read copies values into new files and marks the old rows."""
    letters = table(lake, "dead letters")
    rows = letters.scan().to_arrow()
    make_again(lake, lake.spec.dead_letters_identifier, "detail")
    before = verify_table(lake.lake, lake.spec)

    mark_all_deleted(table(lake, "dead letters"), tmp_path)
    table(lake, "dead letters").append(rows)
    lake.restart()

    assert {each.kind for each in before.findings} == {FindingKind.UNPROVABLE}
    after = verify_table(lake.lake, lake.spec)
    assert after.clean, after.findings


@pytest.mark.parametrize(
    ("where", "column", "kind"), [("rows", "kafka_offset", LongType()), ("dead letters", "value", BinaryType())]
)
def test_a_renamed_column_that_was_made_again_gets_its_values_back(
    lake: SmallLake, where: str, column: str, kind: Any
) -> None:
    """The finding says to drop the renamed column: then its values belong to the column with its first name."""
    before = values(lake, where, column)
    for change in (
        lambda update: update.rename_column(column, "theirs"),
        lambda update: update.add_column(column, kind),
        lambda update: update.delete_column("theirs"),
    ):
        with table(lake, where).update_schema(allow_incompatible_changes=True) as update:
            change(update)

    assert restore_columns(table(lake, where)) == (column,)
    assert values(lake, where, column) == before
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean


def test_a_column_that_had_the_names_of_two_present_ones_is_refused(lake: SmallLake) -> None:
    for change in (
        lambda update: update.rename_column("kafka_offset", "theirs"),
        lambda update: update.rename_column("theirs", "mine"),
        lambda update: update.delete_column("mine"),
        lambda update: update.add_column("kafka_offset", LongType()),
        lambda update: update.add_column("theirs", LongType()),
    ):
        with lake.table.update_schema(allow_incompatible_changes=True) as update:
            change(update)

    with pytest.raises(ForeignTableError, match="was called kafka_offset and theirs"):
        restore_columns(lake.table)


def test_a_dropped_column_of_uuids_is_restored(lake: SmallLake) -> None:
    with lake.table.update_schema() as update:
        update.add_column("id", UUIDType())
    rows = lake.table.scan().to_arrow()
    at = rows.schema.get_field_index("id")
    ids = pa.array([bytes(16)] * len(rows), pa.binary(16)).cast(rows.schema.field(at).type)
    lake.table.overwrite(rows.set_column(at, rows.schema.field(at), ids))
    make_again(lake, lake.spec.identifier, "id", kind=UUIDType())

    assert restore_columns(lake.table) == ("id",)
    assert lake.table.scan(selected_fields=("id",)).to_arrow()["id"].null_count == 0


@pytest.mark.parametrize("earlier", ["a deletion", "a restore"])
def test_rows_that_lost_their_source_in_a_rewrite_are_not_taken_for_inserted_ones(
    lake: SmallLake, earlier: str
) -> None:
    """What others removed and added before must not excuse it, and the files no longer have the values."""
    if earlier == "a deletion":
        lake.table.delete("kafka_offset == 7 and kafka_partition == 1")
    else:
        make_again(lake, lake.spec.identifier, "kafka_offset")
        restore_columns(lake.table)
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean

    make_again(lake, lake.spec.identifier, "kafka_partition", "kafka_offset")
    lake.compact()

    kinds = {each.kind for each in verify_table(lake.lake, lake.spec).findings}
    assert kinds & {FindingKind.UNPROVABLE, FindingKind.LOST_ROWS}
