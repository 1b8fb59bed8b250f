"""What a Delta log must say next, or why it may not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from delta_tables import NOON_MS, ONE, Footers, field, file, log, metadata, schema, view

from frazil.delta.plan import plan_log
from frazil.model.columns import Column, Scalar
from frazil.model.delta import (
    AddFile,
    BeginLog,
    ExtendLog,
    LoggedFile,
    LogIsCurrent,
    RemoveFile,
    ReplaceLog,
    TableFile,
    TableFiles,
    Withheld,
)

STATS = '{"numRecords":1,"minValues":{},"maxValues":{},"nullCount":{}}'
VENUE = schema((1, "id", "int"), (2, "symbol", "string"), (3, "venue", "string"))
RENAMED = schema((1, "number", "int"), (2, "symbol", "string"))
WIDENED = schema((1, "id", "long"), (2, "symbol", "string"))
DROPPED = schema((1, "id", "int"))
ANOTHER = schema((1, "id", "int"), (9, "symbol", "string"))


def test_a_table_without_a_snapshot_has_nothing_to_say() -> None:
    assert plan_log(view(), TableFiles(()), None, shapes=Footers()) is None


def test_a_log_begins_with_the_whole_snapshot() -> None:
    plan = plan_log(view("append"), TableFiles((file("a"), file("b"))), None, shapes=Footers())

    assert plan == BeginLog(1, metadata(ONE), (AddFile("data/a", 10, 5, STATS), AddFile("data/b", 10, 5, STATS)))


def test_the_same_snapshot_is_announced_once() -> None:
    footers = Footers()

    assert plan_log(view("append"), TableFiles((file("a"),)), log(1, "a"), shapes=footers) == LogIsCurrent(7, 1)
    assert footers.asked == []


@pytest.mark.parametrize(
    ("logged", "add", "remove"),
    [(("a", "stale"), [], ["data/stale"]), ((), ["data/a"], []), (("b",), ["data/a"], ["data/b"])],
    ids=["a file too many", "a file is missing", "both"],
)
def test_a_log_of_the_head_that_names_other_files_is_repaired(
    logged: tuple[str, ...], add: list[str], remove: list[str]
) -> None:
    plan = plan_log(view("append"), TableFiles((file("a"),)), log(1, *logged), shapes=Footers())

    assert isinstance(plan, ExtendLog)
    assert ([each.path for each in plan.add], [each.path for each in plan.remove]) == (add, remove)
    assert all(each.data_change for each in (*plan.add, *plan.remove))


def test_a_rename_without_a_new_snapshot_withholds_the_log() -> None:
    plan = plan_log(view("append", schema_json=RENAMED), TableFiles((file("a"),)), log(1, "a"), shapes=Footers())

    assert isinstance(plan, Withheld)
    assert plan.reason.startswith("the column id was renamed to number")


def test_a_new_column_without_a_new_snapshot_reaches_the_log() -> None:
    plan = plan_log(view("append", schema_json=VENUE), TableFiles((file("a"),)), log(1, "a"), shapes=Footers())

    assert isinstance(plan, ExtendLog)
    assert [json.loads(each)["name"] for each in plan.new_columns] == ["venue"]


def test_a_file_that_another_writer_encoded_differently_withholds_the_log() -> None:
    before = log(1, "a")
    unusual = replace(before, files=(*before.files, LoggedFile("data/~a", 10, is_removable=False)))

    plan = plan_log(view("append"), TableFiles((file("a"),)), unusual, shapes=Footers())

    assert plan == Withheld(1, "another writer added data/~a to the log, in an encoding that Frazil cannot remove")


def test_a_column_that_another_writer_added_withholds_the_log() -> None:
    before = log(1, "a")
    columns = json.loads(before.metadata.schema)
    columns["fields"].append({"name": "extra", "type": "string", "nullable": True, "metadata": {}})
    wider = replace(before, metadata=replace(before.metadata, schema=json.dumps(columns)))

    plan = plan_log(view("append"), TableFiles((file("a"),)), wider, shapes=Footers())

    assert plan == Withheld(1, "another writer added the column extra to the log")


def test_snapshots_that_were_missed_are_one_difference() -> None:
    footers = Footers()

    plan = plan_log(
        view("append", "append", "overwrite"), TableFiles((file("b"), file("c"))), log(1, "a", "b"), shapes=footers
    )

    added, removed = (AddFile("data/c", 10, 5, STATS),), (RemoveFile("data/a", 10, NOON_MS),)
    assert plan == ExtendLog(3, 7, metadata(ONE), added, removed)
    assert footers.asked == ["c"], "a file that the log names was looked at before"


@pytest.mark.parametrize(
    ("operations", "since", "changes"),
    [
        (("append", "replace"), 1, False),
        (("append", "replace", "replace"), 1, False),
        (("append", "replace", "append"), 1, True),
        (("append", "replace"), 77, True),
    ],
)
def test_only_compaction_is_no_change_of_rows(operations: tuple[str, ...], since: int, changes: bool) -> None:
    plan = plan_log(view(*operations), TableFiles((file("b"),)), log(since, "a"), shapes=Footers())

    assert isinstance(plan, ExtendLog)
    assert [each.data_change for each in (*plan.add, *plan.remove)] == [changes, changes]


def test_new_columns_come_with_the_difference() -> None:
    after = view("append", "append", schema_json=VENUE)

    plan = plan_log(after, TableFiles((file("a"), file("b"))), log(1, "a"), shapes=Footers(VENUE))

    assert isinstance(plan, ExtendLog)
    assert plan.metadata == metadata(VENUE)
    assert [json.loads(each)["name"] for each in plan.new_columns] == ["venue"]


def test_a_new_column_inside_a_struct_comes_as_the_whole_struct() -> None:
    def party(*fields: dict[str, object]) -> str:
        return schema((1, "id", "int"), (2, "party", {"type": "struct", "fields": list(fields)}))

    before, now = party(field(3, "name", "string")), party(field(3, "name", "string"), field(4, "city", "string"))

    plan = plan_log(
        view("append", "append", schema_json=now),
        TableFiles((file("a"),)),
        log(1, "a", schema_json=before),
        shapes=Footers(),
    )

    assert isinstance(plan, ExtendLog)
    [column] = [json.loads(each) for each in plan.new_columns]
    assert [each["name"] for each in column["type"]["fields"]] == ["name", "city"]


def test_a_new_column_under_nested_lists_and_maps_comes_as_the_whole_column() -> None:
    def nested(*fields: dict[str, object]) -> str:
        struct = {"type": "struct", "fields": list(fields)}
        inner = {"type": "list", "element-id": 21, "element": struct, "element-required": False}
        by_name = {"type": "map", "key-id": 22, "key": "string", "value-id": 23, "value": struct}
        return schema(
            (1, "legs", {"type": "list", "element-id": 24, "element": inner, "element-required": False}),
            (2, "tags", {"type": "list", "element-id": 25, "element": by_name, "element-required": False}),
            (3, "same", "long"),
        )

    before, now = nested(field(30, "n", "long")), nested(field(30, "n", "long"), field(31, "m", "long"))

    plan = plan_log(
        view("append", "append", schema_json=now), TableFiles(()), log(1, schema_json=before), shapes=Footers()
    )

    assert isinstance(plan, ExtendLog)
    assert [json.loads(each)["name"] for each in plan.new_columns] == ["legs", "tags"]


@pytest.mark.parametrize(
    ("schema_json", "said"),
    [
        (RENAMED, "the column id was renamed to number"),
        (WIDENED, "the column id changed from integer to long"),
        (DROPPED, "the column symbol was dropped"),
        (ANOTHER, "the column symbol was dropped, and another column took its name"),
    ],
)
def test_older_files_that_would_be_misread_withhold_the_snapshot(schema_json: str, said: str) -> None:
    after, footers = view("append", "append", schema_json=schema_json), Footers(schema_json)

    kept = plan_log(after, TableFiles((file("a"), file("b"))), log(1, "a"), shapes=footers)
    never_logged = plan_log(after, TableFiles((file("b"),)), None, shapes=Footers(ONE))
    rewritten = plan_log(after, TableFiles((file("b"),)), log(1, "a"), shapes=footers)

    advice = "rewrite all files (Iceberg's `rewrite_data_files` with `rewrite-all`)"
    assert isinstance(kept, Withheld)
    assert kept.reason == f"{said}, and the old columns remain in 1 file: {advice}"
    assert isinstance(never_logged, Withheld)
    assert never_logged.reason == f"{said}, and s3://lake/trades/data/b still has the old columns: {advice}"
    assert rewritten == ReplaceLog(2, 7, metadata(schema_json), (AddFile("data/b", 10, 5, STATS),))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (TableFiles((file("a"),), position_deletes=2), "rows are removed by delete files: the log waits"),
        (TableFiles((file("a"),), equality_deletes=1), "rows are removed by delete files: the log waits"),
        (TableFiles((file("a", format="ORC"),)), "s3://lake/trades/data/a is not a Parquet file"),
        (TableFiles((file("a", path=None),)), "s3://lake/trades/data/a is outside the table's folder"),
    ],
)
def test_what_reader_version_1_has_no_words_for(files: TableFiles, said: str) -> None:
    plan = plan_log(view("append"), files, None, shapes=Footers())

    assert isinstance(plan, Withheld)
    assert plan.reason.startswith(said)


def test_a_file_without_field_ids_is_not_guessed_at() -> None:
    plan = plan_log(view("append"), TableFiles((file("a"),)), None, shapes=Footers(None))

    assert plan == Withheld(1, "s3://lake/trades/data/a has columns without Iceberg field ids")


@pytest.mark.parametrize("change", [{"reader_version": 3, "writer_version": 7}, {"writer_version": 5}])
def test_a_log_that_somebody_has_put_to_another_version_is_left_alone(change: dict[str, int]) -> None:
    before = log(1, "a")
    foreign = replace(before, metadata=replace(before.metadata, **change))

    plan = plan_log(view("append", "append"), TableFiles((file("a"),)), foreign, shapes=Footers())

    assert isinstance(plan, Withheld)
    assert plan.reason.startswith("another writer changed the log to reader version")


def test_a_log_that_somebody_has_partitioned_is_left_alone() -> None:
    before = log(1, "a")
    foreign = replace(before, metadata=replace(before.metadata, partition_columns=("symbol",)))

    plan = plan_log(view("append", "append"), TableFiles((file("b"),)), foreign, shapes=Footers())

    assert plan == Withheld(2, "another writer gave the log the partition columns symbol")


def test_a_type_without_a_place_withholds_with_its_path() -> None:
    inside = {"type": "list", "element-id": 3, "element": "time", "element-required": False}

    plan = plan_log(view("append", schema_json=schema((1, "at", inside))), TableFiles(()), None, shapes=Footers())

    assert plan == Withheld(1, "the column at[] is a time, which Delta's reader version 1 has no type for")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("id", Scalar("uuid")), "the column id is a uuid, which Delta has no type for: write it as a string"),
        (Column("a b", Scalar("int")), "the column a b contains a character that Delta does not allow in names"),
    ],
)
def test_a_column_that_the_table_grew_and_delta_has_no_place_for_withholds(column: Column, said: str) -> None:
    grown = replace(view("append"), columns=(Column("n", Scalar("long")), column))

    withheld = plan_log(grown, TableFiles(()), None, shapes=Footers())

    assert isinstance(withheld, Withheld)
    assert withheld.reason.startswith(said)


def test_statistics_are_those_that_mean_the_same_in_both() -> None:
    columns = schema(
        (1, "id", "int"), (2, "day", "date"), (3, "at", "timestamptz"), (4, "name", "string"), (5, "x", "double")
    )
    bounds = {
        1: (-5).to_bytes(4, "little", signed=True),
        2: (20_000).to_bytes(4, "little"),
        3: (1_500_000).to_bytes(8, "little"),
        4: "ä".encode(),
        5: bytes(8),
    }
    full = file("a", null_value_counts={1: 0, 5: 1, 99: 3}, lower_bounds=bounds, upper_bounds=bounds)
    late = replace(full, upper_bounds=_too_late(bounds))

    plan = plan_log(view("append", schema_json=columns), TableFiles((full, late)), None, shapes=Footers(columns))

    assert isinstance(plan, BeginLog)
    assert json.loads(plan.add[0].stats) == {
        "numRecords": 1,
        "minValues": {"id": -5, "day": "2024-10-04", "at": "1970-01-01T00:00:01.500000Z", "name": "ä"},
        "maxValues": {"id": -5, "day": "2024-10-04", "at": "1970-01-01T00:00:01.500000Z", "name": "ä"},
        "nullCount": {"id": 0, "x": 1},
    }
    assert json.loads(plan.add[1].stats) == {"numRecords": 1}


def _too_late(bounds: dict[int, bytes]) -> dict[int, bytes]:
    """An instant after the year 9999, and text that was cut inside of a character."""
    return {**bounds, 3: (2**62).to_bytes(8, "little"), 4: b"\xc3"}


def test_a_file_may_lack_columns_that_came_later() -> None:
    files: tuple[TableFile, ...] = (file("a"),)

    assert isinstance(
        plan_log(view("append", schema_json=VENUE), TableFiles(files), None, shapes=Footers(ONE)), BeginLog
    )
