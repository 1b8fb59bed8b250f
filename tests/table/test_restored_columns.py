"""Restoring dropped columns brings back all values and loses none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import BinaryType, LongType, StringType

from frazil.adapters.iceberg.restore import restore_columns
from frazil.proof.verification import FindingKind
from frazil.verify.table import verify_table
from tests.position_deletes import delete_rows
from tests.table.column_changes import make_again, merge_restored, restore
from tests.table.small_lake import Read, SmallLake


def change(lake: SmallLake, where: str, act: Callable[[UpdateSchema], object]) -> None:
    with table(lake, where).update_schema(allow_incompatible_changes=True) as update:
        act(update)


def drop(lake: SmallLake, where: str, *columns: str | tuple[str, ...]) -> None:
    change(lake, where, lambda update: [update.delete_column(column) for column in columns])


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
    first = table(lake, "dead letters").schema().find_field("key").field_id
    make_again(lake, lake.spec.dead_letters_identifier, "key")
    drop(lake, "dead letters", "value")

    assert set(restore_columns(table(lake, "dead letters"))) == {f"key_{first}", "value"}
    assert restore_columns(table(lake, "dead letters")) == ()
    merge_restored(table(lake, "dead letters"))
    assert values(lake, "dead letters", "key", "value") == before


def test_a_column_comes_back_with_its_values_without_a_new_snapshot(lake: SmallLake) -> None:
    before, snapshot = values(lake, "rows", "symbol"), table(lake, "rows").metadata.current_snapshot_id
    drop(lake, "rows", "symbol")

    assert restore_columns(lake.table) == ("symbol",)
    assert (values(lake, "rows", "symbol"), table(lake, "rows").metadata.current_snapshot_id) == (before, snapshot)


def test_a_column_that_was_made_again_twice_gets_the_values_of_both(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.batch(Read("orders", 0, 100, 110))
    make_again(lake, lake.spec.identifier, "kafka_offset")
    lake.batch(Read("orders", 0, 110, 120))

    assert len(restore_columns(lake.table)) == 2
    merge_restored(lake.table)
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean


def test_a_column_of_another_type_leaves_its_name_to_the_restored_one(lake: SmallLake) -> None:
    make_again(lake, lake.spec.identifier, "kafka_offset", kind=StringType())
    found = verify_table(lake.lake, lake.spec).findings
    assert any("rename the column" in each.what for each in found)

    (restored,) = restore_columns(lake.table)
    change(lake, "rows", lambda update: update.rename_column("kafka_offset", "theirs"))
    change(lake, "rows", lambda update: update.rename_column(restored, "kafka_offset"))

    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean


def test_a_field_within_a_column_comes_back_where_it_was(lake: SmallLake) -> None:
    letters = table(lake, "dead letters")
    rows = letters.scan().to_arrow()
    headers = [[{"key": "trace", "value": b"1"}], *[None] * (len(rows) - 1)]
    at = rows.schema.get_field_index("headers")
    letters.overwrite(rows.set_column(at, rows.schema.field(at), [headers]))
    before = values(lake, "dead letters", "headers")
    drop(lake, "dead letters", ("headers", "element", "value"))

    assert restore_columns(table(lake, "dead letters")) == ("headers.element.value",)
    assert values(lake, "dead letters", "headers") == before

    drop(lake, "dead letters", ("headers", "element", "value"))
    drop(lake, "dead letters", "headers")
    assert set(restore_columns(table(lake, "dead letters"))) == {"headers", "headers.element.value"}
    assert values(lake, "dead letters", "headers") == before


def test_values_of_rows_that_are_only_marked_as_deleted_hide_nothing(lake: SmallLake, tmp_path: Path) -> None:
    """An engine that merges on read copies values into new files and marks the old rows."""
    letters = table(lake, "dead letters")
    rows = letters.scan().to_arrow()
    make_again(lake, lake.spec.dead_letters_identifier, "detail")
    before = verify_table(lake.lake, lake.spec)

    delete_rows(table(lake, "dead letters"), tmp_path)
    table(lake, "dead letters").append(rows)
    lake.restart()

    assert {each.kind for each in before.findings} == {FindingKind.UNPROVABLE}
    after = verify_table(lake.lake, lake.spec)
    assert after.clean, after.findings


@pytest.mark.parametrize(
    ("where", "column", "kind"), [("rows", "kafka_offset", LongType()), ("dead letters", "value", BinaryType())]
)
def test_a_column_that_was_renamed_made_again_and_dropped_gets_its_values_back(
    lake: SmallLake, where: str, column: str, kind: Any
) -> None:
    before, first = values(lake, where, column), table(lake, where).schema().find_field(column).field_id
    change(lake, where, lambda update: update.rename_column(column, "theirs"))
    change(lake, where, lambda update: update.add_column(column, kind))
    drop(lake, where, "theirs")

    assert restore_columns(table(lake, where)) == (f"{column}_{first}",)
    merge_restored(table(lake, where))
    assert values(lake, where, column) == before
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean


def test_a_column_has_its_first_name_again_whatever_it_was_called_in_between(lake: SmallLake) -> None:
    """Iceberg uses the id of a schema again, so that the ids do not show which name was the last."""
    before = values(lake, "rows", "kafka_offset")
    change(lake, "rows", lambda update: update.rename_column("kafka_offset", "theirs"))
    change(lake, "rows", lambda update: update.rename_column("theirs", "kafka_offset"))
    drop(lake, "rows", "kafka_offset")

    assert restore_columns(lake.table) == ("kafka_offset",)
    assert values(lake, "rows", "kafka_offset") == before


def test_columns_that_swapped_their_names_keep_their_values_apart(lake: SmallLake) -> None:
    before = values(lake, "rows", "symbol")
    first = table(lake, "rows").schema().find_field("symbol").field_id
    drop(lake, "rows", "symbol")
    change(lake, "rows", lambda update: update.rename_column("kafka_offset", "symbol"))

    assert restore_columns(lake.table) == (f"symbol_{first}",)
    assert [{"symbol": row[f"symbol_{first}"]} for row in values(lake, "rows", f"symbol_{first}")] == before


@pytest.mark.parametrize("earlier", ["a deletion", "a restore"])
def test_rows_that_lost_their_source_in_a_rewrite_are_not_taken_for_inserted_ones(
    lake: SmallLake, earlier: str
) -> None:
    """What others removed and added before must not excuse it, and the files no longer have the values."""
    if earlier == "a deletion":
        lake.table.delete("kafka_offset == 7 and kafka_partition == 1")
    else:
        make_again(lake, lake.spec.identifier, "kafka_offset")
        restore(lake, lake.spec.identifier)
    lake.restart()
    assert verify_table(lake.lake, lake.spec).clean

    make_again(lake, lake.spec.identifier, "kafka_partition", "kafka_offset")
    lake.compact()

    kinds = {each.kind for each in verify_table(lake.lake, lake.spec).findings}
    assert kinds & {FindingKind.UNPROVABLE, FindingKind.LOST_ROWS}
