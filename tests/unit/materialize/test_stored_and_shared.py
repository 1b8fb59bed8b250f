"""The state as text and back, the sharing out of ranges, and the names that a table's own columns take."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from values_of_tables import NOW, SPEC, names, progress, spec, state

from frazil.materialize.changed_spec.applied_spec import applied_by, ever_kept, spec_property
from frazil.materialize.ingest.distribute import SMALL_BATCH, tasks_of
from frazil.materialize.layout import DEAD_LETTER_COLUMNS, metadata_columns, name_clashes, unreadable
from frazil.model import summary
from frazil.model.columnar import pack, unpack
from frazil.model.columns import Column, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.errors import StateLostError
from frazil.model.ingested import IngestTask
from frazil.model.plan import BatchPlan, OffsetRange, WriterSchemas
from frazil.model.progress import (
    Counts,
    Fitted,
    ForeignChanges,
    Observation,
    ObservedTopic,
    OffsetSums,
    PartitionProgress,
    SourceProgress,
    TableState,
)
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.snapshot import Snapshot
from frazil.model.spec import MetadataColumns
from frazil.model.summary import (
    FORMAT_VERSION,
    STATE_BYTES,
    STATE_CHECKSUM,
    VERSION,
    StoredState,
    checksum,
    receipt_in,
    state_in,
    store,
)

STORED = Path(__file__).parent / "stored"

FULL = TableState(
    pipeline="lake.orders<-orders,returns",
    epoch=12,
    writer="w",
    batch_id="b",
    sources=(
        SourceProgress(
            "orders",
            "id",
            2,
            {
                11: PartitionProgress(3, 5, 2**62, Counts(9, 1, 2, 3, 2, 1), OffsetSums(2**64 - 1, 7), 4, 214),
                2: PartitionProgress(0, 0, 0),
            },
        ),
        SourceProgress("returns", None, 0, {}),
    ),
    complete_through=NOW,
    observations=(
        Observation(NOW, (ObservedTopic("orders", 2, {2: 9, 11: 2**40}), ObservedTopic("returns", 0, {0: 1}))),
        Observation(NOW + timedelta(microseconds=1), ()),
    ),
    schema_ids=(1, 2**31),
    key_schema_ids=(3,),
    fitted=Fitted("a1", {1: "b2", 2**31: "c3"}, {3: "d4"}),
    skipped_by_reason={"tombstone": 4},
    foreign=ForeignChanges(2, 5, 6, ("append 1", "delete 2"), 4, 3),
)


RECEIPT = Receipt(
    table="lake.orders",
    epoch=1,
    batch_id="b",
    ranges=(RangeReceipt("orders", 0, 1, 2, Counts(1, 1), 0), RangeReceipt("orders", 1, 5, 7, Counts(2, 2), 1)),
    counts=Counts(3, 3),
    skipped_by_reason={},
    dead_letters_by_reason={"truncated": 1},
    payload_bytes=1,
    file_bytes=2,
    files=1,
    truncated_nanos=0,
    complete_through=NOW,
    foreign=("append 1",),
    seconds={"ingest": 0.25},
)


def carrier(stored: StoredState) -> Snapshot:
    return Snapshot(1, None, "append", stored.summary, NOW, "snap.avro", lambda: stored.document)


@pytest.mark.parametrize("kept", [FULL, state({0: progress(0, 7)}), state(topic_id=None)])
def test_a_state_survives_storing(kept: TableState) -> None:
    stored = store(kept)

    assert state_in(carrier(stored)) == kept
    assert receipt_in(carrier(stored)) is None
    assert all(isinstance(value, str) for value in stored.summary.values())


def test_a_receipt_survives_storing() -> None:
    assert receipt_in(carrier(store(FULL, RECEIPT))) == RECEIPT


@pytest.mark.parametrize("partitions", [1, 1000])
def test_the_summary_takes_a_few_hundred_bytes_whatever_the_number_of_partitions(partitions: int) -> None:
    figures = (PartitionProgress(n, n, 2**40 + n, Counts(n, n), OffsetSums(n**6, n**7)) for n in range(partitions))
    stored = store(replace(FULL, sources=(SourceProgress("orders", "id", 0, dict(enumerate(figures))),)), RECEIPT)

    assert len(json.dumps(dict(stored.summary))) < 400


def stored_by_a_release(version: str) -> StoredState:
    """What a release wrote: never to be changed, since users' tables hold such documents."""
    there = json.loads((STORED / f"state-{version}.json").read_text())
    document = zlib.compress(json.dumps(there["document"]).encode())
    size = {STATE_BYTES: str(len(document)), STATE_CHECKSUM: checksum(document)}
    return StoredState({**there["summary"], **size}, document)


@pytest.mark.parametrize("version", ["2"])
def test_the_state_that_a_release_stored_is_read_for_ever(version: str) -> None:
    snapshot = carrier(stored_by_a_release(version))

    assert state_in(snapshot) == FULL
    assert receipt_in(snapshot) == RECEIPT


def test_a_state_of_an_earlier_format_version_is_read_by_its_own_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = carrier(stored_by_a_release("2"))
    two = summary._READERS[2]
    monkeypatch.setattr(summary, "FORMAT_VERSION", "10")
    monkeypatch.setattr(summary, "_READERS", {2: two, 10: two})

    assert state_in(earlier) == FULL
    assert store(FULL).summary[VERSION] == "10"
    assert state_in(carrier(store(FULL))) == FULL


def test_every_format_version_has_a_stored_example() -> None:
    assert FORMAT_VERSION in {path.stem.removeprefix("state-") for path in STORED.glob("state-*.json")}


def test_a_name_that_this_release_does_not_know_is_refused_and_not_left_out() -> None:
    """A newer release wrote it, or a field was renamed: without it the state would say zero."""
    there = json.loads((STORED / "state-2.json").read_text())
    counts = there["document"]["state"]["sources"]["partitions"][0]["values"]["counts"]
    counts["rows_added"] = counts.pop("rows")
    document = zlib.compress(json.dumps(there["document"]).encode())
    size = {STATE_BYTES: str(len(document)), STATE_CHECKSUM: checksum(document)}

    with pytest.raises(StateLostError, match="Counts has no field rows_added") as refused:
        state_in(carrier(StoredState({**there["summary"], **size}, document)))

    assert "or a newer one" in refused.value.hint


@dataclass(frozen=True)
class Older:
    number: int


@dataclass(frozen=True)
class Newer:
    number: int
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class Several:
    """Instances on their own, in a sequence, and in a mapping."""

    one: Newer
    many: tuple[Newer, ...]
    by_id: Mapping[int, Newer]


def test_a_field_with_a_default_can_be_added_to_what_is_stored() -> None:
    column = pack(tuple[Older, ...], (Older(1), Older(2)))
    packed = {"one": pack(Older, Older(1)), "many": column, "by_id": pack(Mapping[int, Older], {7: Older(1)})}

    assert unpack(Several, packed) == Several(Newer(1), (Newer(1), Newer(2)), {7: Newer(1)})


# --- sharing out ----------------------------------------------------------------------------------------------------


def tasks(lengths: list[int], parallelism: int) -> tuple[IngestTask, ...]:
    ranges = tuple(OffsetRange("orders", n, 0, length, length, 1) for n, length in enumerate(lengths))
    plan = BatchPlan("t", "b", 1, state(), ranges, WriterSchemas({}, {}), ())
    return tasks_of(plan, None, parallelism=parallelism)  # type: ignore[arg-type]


def loads(shared: tuple[IngestTask, ...]) -> list[int]:
    return sorted(sum(each.end - each.start for each in task.ranges) for task in shared)


def test_a_small_batch_is_one_task() -> None:
    assert loads(tasks([SMALL_BATCH // 2] * 2, parallelism=8)) == [SMALL_BATCH]
    assert len(tasks([SMALL_BATCH // 2, SMALL_BATCH // 2 + 1], parallelism=8)) == 2


def test_tasks_are_about_equally_long() -> None:
    assert loads(tasks([70_000, 10_000, 30_000, 30_000], parallelism=2)) == [70_000, 70_000]
    assert loads(tasks([100_000, 1, 1], parallelism=8)) == [1, 1, 100_000]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.integers(1, 8))
def test_every_range_goes_to_one_task_and_no_task_is_overfull(lengths: list[int], parallelism: int) -> None:
    shared = tasks(lengths, parallelism)

    assert sorted(each.partition for task in shared for each in task.ranges) == list(range(len(lengths)))
    if len(shared) > 1:
        assert max(loads(shared)) <= sum(lengths) / len(shared) + max(lengths)


# --- names ----------------------------------------------------------------------------------------------------------


def about(*keep: str, key: str = "string", prefix: str = "kafka_", key_type: Scalar | None = None) -> dict[str, str]:
    wanted = spec(metadata=MetadataColumns(prefix, keep), key=key)
    return {column.name: str(column.type) for column in metadata_columns(wanted, key_type)}


def test_every_metadata_column_has_its_type() -> None:
    every = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "schema_id",
             "leader_epoch", "value")  # fmt: skip

    assert about(*every, prefix="_k_") == {
        "_k_topic": "string",
        "_k_partition": "int",
        "_k_offset": "long",
        "_k_timestamp": "timestamptz",
        "_k_timestamp_type": "string",
        "_k_key": "string",
        "_k_headers": "list<struct<key: string, value: binary>>",
        "_k_schema_id": "int",
        "_k_leader_epoch": "int",
        "_k_value": "binary",
    }


@pytest.mark.parametrize(
    ("key", "known", "expected"),
    [
        ("bytes", None, {"kafka_key": "binary"}),
        ("string", None, {"kafka_key": "string"}),
        ("avro", Scalar("long"), {"kafka_key": "long"}),
        ("avro", None, {}),
        ("none", None, {}),
    ],
)
def test_the_key_column_has_the_type_of_the_key(key: str, known: Scalar | None, expected: dict[str, str]) -> None:
    assert about("key", key=key, key_type=known) == expected


@pytest.mark.parametrize("name", ["kafka_offset", "KAFKA_Offset", "kafka_key"])
def test_a_field_with_the_name_of_a_metadata_column_is_a_finding(name: str) -> None:
    (finding,) = name_clashes((Column(name, Scalar("long")), Column("n", Scalar("long"))), SPEC)

    assert (finding.path, finding.problem) == (name, f"the name clashes with the metadata column {name.lower()}")


def test_a_key_column_that_is_still_to_come_has_its_name_reserved() -> None:
    field = (Column("kafka_key", Scalar("long")),)

    assert len(name_clashes(field, spec(key="avro"))) == 1
    assert name_clashes(field, spec(key="none")) == ()
    assert name_clashes(field, spec(metadata=MetadataColumns("kafka_", ("partition", "offset")))) == ()
    assert name_clashes((Column("n", Struct(field)),), SPEC) == ()


@pytest.mark.parametrize(("first", "reserved"), [("string", True), ("none", False)])
@pytest.mark.parametrize("keep", [("offset", "key"), ("offset",)])
def test_a_key_column_of_the_past_has_its_name_reserved(first: str, reserved: bool, keep: tuple[str, ...]) -> None:
    """Its old values are in the table, and nothing compares them any more."""
    before = applied_by(spec(key=first, metadata=MetadataColumns("kafka_", ("offset", "key"))))
    now = spec(key="none", metadata=MetadataColumns("kafka_", keep))
    properties = spec_property(applied_by(now, before))

    found = name_clashes((Column("kafka_key", Scalar("string")),), ever_kept(now, properties))

    assert bool(found) is reserved


def test_a_time_at_any_depth_is_a_finding_where_spark_must_read() -> None:
    time = Scalar("time")
    columns = (
        Column("opens", time),
        Column("closes", Scalar("timestamp")),
        Column("breaks", ListOf(Struct((Column("begins", MapOf(Scalar("string"), time)),)))),
    )

    found = unreadable(columns, spec(readers=("duckdb", "spark")))

    assert [finding.path for finding in found] == ["opens", "breaks[].begins"]
    assert "remove spark from `readers`" in found[0].problem
    assert unreadable(columns, spec(readers=("snowflake", "athena", "duckdb"))) == ()


def test_dead_letter_columns_are_final() -> None:
    assert names(DEAD_LETTER_COLUMNS) == [
        "topic", "topic_id", "generation", "partition", "offset", "timestamp", "key", "value", "headers", "reason",
        "detail", "path", "schema_id", "batch_id", "read_at", "table_uuid",
    ]  # fmt: skip


def test_paths_tell_structs_lists_and_maps_apart() -> None:
    inner = Struct((Column("b", Scalar("int")),))
    columns = (Column("a", ListOf(inner)), Column("m", MapOf(Scalar("string"), ListOf(inner))))

    assert [path for path, _ in walk(columns)] == ["a", "a[].b", "m", "m{}[].b"]
