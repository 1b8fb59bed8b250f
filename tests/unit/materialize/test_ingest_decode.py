"""What becomes of each record of a range, with the broker and the registry in memory and files in a folder."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors_in_memory import RegistryInMemory, a_field, record
from pyiceberg.schema import assign_fresh_schema_ids
from values_of_tables import spec

from jobs.adapters.iceberg_types import to_schema
from jobs.formats.avro.mapping import map_schema
from jobs.formats.avro.schema import parse_schema
from jobs.materialize.ingest.task import ingest
from jobs.materialize.layout import DEAD_LETTER_COLUMNS, metadata_columns
from jobs.model.columns import Column, ColumnType, Scalar, Struct
from jobs.model.errors import BadRecordLimitError, RegistryError
from jobs.model.ingested import IngestTask, RangeResult, TaskContext, TaskResult, WriteTarget
from jobs.model.plan import OffsetRange, WriterSchemas
from jobs.model.progress import Counts, OffsetSums
from jobs.model.records import Records, Wanted
from jobs.model.spec import RegistrySettings, TableSpec

OLD = record(a_field("n", "int"))
NEW = record(a_field("m", "long", "n"), a_field("s", ["null", "string"]))
Sent = tuple[bytes | None, bytes | None]


@dataclass
class ReaderInMemory:
    """One partition; `chunk` records are handed on at a time. None is an offset without a record."""

    records: Sequence[Sent | None]
    chunk: int = 1_000
    first_ms: int = 1_000

    def read(self, wanted_range: OffsetRange, wanted: Wanted) -> Iterator[Records]:
        del wanted
        for start in range(wanted_range.start, wanted_range.end, self.chunk):
            end = min(start + self.chunk, wanted_range.end)
            held = [(n, r) for n in range(start, end) if (r := self.records[n]) is not None]
            yield Records(
                offsets=[n for n, _ in held],
                timestamps_ms=[self.first_ms + n if n != 1 else None for n, _ in held],
                keys=[r[0] for _, r in held],
                values=[r[1] for _, r in held],
                headers=[[("h", b"\xff"), ("h", None)] for _ in held],
                next_offset=end,
                last_leader_epoch=3 if held else None,
            )


@pytest.fixture
def registry() -> RegistryInMemory:
    made = RegistryInMemory()
    made.register("orders-value", OLD)
    made.register("orders-value", NEW)
    made.register("other", "{}", schema_format="JSON")
    return made


def framed(schema_id: int, text: str, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), value)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


def old(n: int) -> bytes:
    return framed(1, OLD, {"n": n})


def new(n: int) -> bytes:
    return framed(2, NEW, {"m": n, "s": "x"})


def unknown(schema_id: int) -> bytes:
    return struct.pack(">bI", 0, schema_id)


@dataclass
class Read:
    """What a task returned, and what is in its files."""

    result: TaskResult
    folder: Path

    @property
    def range(self) -> RangeResult:
        (only,) = self.result.ranges
        assert only.counts.balanced
        assert only.counts.rows == sum(file.rows for file in self.result.row_files) == len(self.rows())
        assert only.counts.dead_letters == len(self.dead())
        return only

    def rows(self, *columns: str) -> list[Any]:
        return _held(self.result.row_files, columns)

    def dead(self, *columns: str) -> list[Any]:
        return _held(self.result.dead_letter_files, columns)


def _held(files: Sequence[Any], columns: Sequence[str]) -> list[Any]:
    rows = [row for file in files for row in pq.read_table(file.path.removeprefix("file://")).to_pylist()]
    return (
        [tuple(row[c] for c in columns) if len(columns) > 1 else row[columns[0]] for row in rows] if columns else rows
    )


@pytest.fixture
def read(registry: RegistryInMemory, tmp_path: Path) -> Any:
    def carry_out(
        *records: Sent | None,
        wanted: TableSpec | None = None,
        values: Sequence[int] = (1, 2),
        keys: Sequence[int] = (),
        key_type: ColumnType | None = None,
        chunk: int = 1_000,
        max_bytes: int = 10**9,
        first_ms: int = 1_000,
        former_names: dict[str, tuple[str, ...]] | None = None,
    ) -> Read:
        wanted = wanted or spec()
        about = metadata_columns(wanted, key_type)
        columns = (*map_schema(parse_schema(NEW)).columns, *about)
        context = TaskContext(
            spec=wanted,
            batch_id="b",
            file_prefix="w-1",
            rows=target(tmp_path / "rows", columns),
            dead_letters=target(tmp_path / "dead", DEAD_LETTER_COLUMNS),
            former_names={"m": ("n",), **(former_names or {})},
            schemas=WriterSchemas({i: registry.schemas[i] for i in values}, {i: registry.schemas[i] for i in keys}),
            kafka={},
            registry=RegistrySettings(""),
            storage={},
            source_ids={"orders": ("id-1", 2)},
        )
        whole = OffsetRange("orders", 0, 0, len(records), len(records), max_bytes)
        reader = ReaderInMemory(records, chunk, first_ms)
        return Read(ingest(IngestTask(context, (whole,)), reader=reader, registry=registry), tmp_path)

    return carry_out


def target(folder: Path, columns: Sequence[Column]) -> WriteTarget:
    schema = assign_fresh_schema_ids(to_schema(columns))
    return WriteTarget("lake.t", str(folder), schema.model_dump_json(), '{"spec-id": 0, "fields": []}', {})


def test_rows_of_several_schemas_keep_the_order_of_offsets(read: Any) -> None:
    got = read((b"k", new(0)), (b"k", old(1)), None, (None, new(3)), (b"k", old(4)), (b"k", old(5)))

    assert got.rows("m", "s", "kafka_offset", "kafka_schema_id", "kafka_key") == [
        (0, "x", 0, 2, "k"),
        (1, None, 1, 1, "k"),
        (3, "x", 3, 2, None),
        (4, None, 4, 1, "k"),
        (5, None, 5, 1, "k"),
    ]
    assert (got.range.counts, got.range.gaps, got.range.end) == (Counts(5, 5), 1, 6)
    assert got.range.sums == OffsetSums(0 + 1 + 3 + 4 + 5, 0 + 1 + 9 + 16 + 25)
    assert (got.range.latest_ms, got.range.leader_epoch) == (1_005, 3)


@pytest.mark.parametrize(
    ("policy", "counts", "skipped", "dead"),
    [
        ("row", Counts(3, 3), {}, {}),
        ("skip", Counts(3, 2, skipped=1), {"tombstone": 1}, {}),
        ("dead_letter", Counts(3, 2, dead_letters=1), {}, {"null_value": 1}),
    ],
)
def test_tombstones_become_what_the_spec_says(
    read: Any, policy: str, counts: Counts, skipped: dict[str, int], dead: dict[str, int]
) -> None:
    got = read((b"k", new(0)), (b"k", None), (b"k", new(2)), wanted=spec(on_tombstone=policy))

    assert got.range.counts == counts
    assert (got.range.skipped_by_reason, got.range.dead_letters_by_reason) == (skipped, dead)
    if policy == "row":
        assert got.rows("m", "kafka_offset", "kafka_schema_id")[1] == (None, 1, None)


@pytest.mark.parametrize("policy", ["dead_letter", "skip"])
def test_bad_records_are_dead_letters_or_skipped_and_tombstones_go_their_own_way(read: Any, policy: str) -> None:
    wanted = spec(on_bad_record=policy, on_tombstone="dead_letter")

    got = read((b"k", b"bad"), (b"k", None), (b"k", new(2)), (b"k", new(3)[:-1]), wanted=wanted)

    bad = {"not_framed": 1, "bad_length": 1}
    assert got.range.skipped_by_reason == ({} if policy == "dead_letter" else bad)
    assert got.range.dead_letters_by_reason == (
        {**bad, "null_value": 1} if policy == "dead_letter" else {"null_value": 1}
    )


def test_a_dead_letter_holds_the_record_byte_for_byte(read: Any) -> None:
    got = read((b"\xff", new(0)), (b"k", b"bad"), wanted=spec(key="bytes"))

    (letter,) = got.dead()
    assert (letter["key"], letter["value"], letter["headers"]) == (
        b"k",
        b"bad",
        [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}],
    )
    assert (letter["topic"], letter["topic_id"], letter["generation"]) == ("orders", "id-1", 2)
    assert (letter["partition"], letter["offset"], letter["timestamp"]) == (0, 1, None)
    assert (letter["reason"], letter["detail"], letter["schema_id"]) == (
        "not_framed", "3 bytes, a header has 5", None,
    )  # fmt: skip


def test_the_first_bad_record_stops_the_task_where_the_spec_says_so(read: Any) -> None:
    with pytest.raises(BadRecordLimitError, match="the record orders-0 offset 1 cannot become a row: not_framed"):
        read((b"k", new(0)), (b"k", b"bad"), wanted=spec(on_bad_record="stop"))


KEY = record(a_field("id", "int"), name="K")


@pytest.mark.parametrize(
    ("key", "sent", "reasons"),
    [
        ("string", [b"\xff", "é".encode(), None, b"ok\xc3"], ["bad_utf8", "bad_utf8"]),
        ("bytes", [b"\xff", None], []),
        ("none", [b"\xff", None], []),
        ("avro", [b"raw", unknown(99), unknown(3), b"\0\0\0\0\x04", None], ["not_framed", "unknown_schema_id",
                                                                           "wrong_schema_type", "truncated"]),
    ],
)  # fmt: skip
def test_keys_that_cannot_be_read_are_bad_keys(
    read: Any, registry: RegistryInMemory, key: str, sent: list[bytes | None], reasons: list[str]
) -> None:
    registry.register("orders-key", KEY)
    struct_key = Struct((Column("id", Scalar("int")),)) if key == "avro" else None

    got = read(*((each, new(0)) for each in sent), wanted=spec(key=key), keys=[4], key_type=struct_key)

    assert [(letter["reason"], letter["detail"].partition(":")[0]) for letter in got.dead()] == [
        ("bad_key", reason) for reason in reasons
    ]
    assert got.range.counts.rows == len(sent) - len(reasons)


def test_a_bad_value_with_a_bad_key_is_one_dead_letter(read: Any) -> None:
    got = read((b"\xff", b"bad"), (b"\xff", new(1)), (b"k", new(2)))

    assert [letter["reason"] for letter in got.dead()] == ["not_framed", "bad_key"]
    assert got.range.counts == Counts(3, 1, dead_letters=2)


def test_former_names_of_keys_are_not_those_of_values(read: Any, registry: RegistryInMemory) -> None:
    registry.register("orders-key", record(a_field("id", "int"), name="K"))
    key = framed(4, KEY, {"id": 7})
    renamed = Struct((Column("order_id", Scalar("long")), Column("m", Scalar("long"))))

    got = read(
        (key, new(0)), wanted=spec(key="avro"), keys=[4], key_type=renamed, former_names={"kafka_key.order_id": ("id",)}
    )

    assert got.rows("kafka_key") == [{"order_id": 7, "m": None}]


# --- where a range ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_a_range_ends_exactly_before_a_schema_that_the_plan_does_not_know(read: Any, chunk: int) -> None:
    got = read((b"k", old(0)), (b"k", b"bad"), (b"k", old(2)), (b"k", new(3)), (b"k", old(4)), values=[1], chunk=chunk)

    assert (got.range.end, got.range.stopped_by, got.range.met_schema_ids) == (3, "schema", (2,))
    assert (got.range.counts, got.rows("kafka_offset")) == (Counts(3, 2, dead_letters=1), [0, 2])
    assert got.range.gaps == 0


def test_a_range_whose_first_record_has_to_wait_reads_nothing(read: Any) -> None:
    got = read((b"k", new(0)), (b"k", old(1)), values=[1])

    assert (got.range.end, got.range.counts, got.result.row_files) == (0, Counts(), ())


def test_gaps_before_a_record_that_has_to_wait_are_read(read: Any) -> None:
    got = read((b"k", old(0)), None, None, (b"k", new(3)), values=[1])

    assert (got.range.end, got.range.gaps) == (3, 2)


def test_a_new_key_schema_ends_the_range_as_well_and_the_first_of_both_counts(
    read: Any, registry: RegistryInMemory
) -> None:
    registry.register("orders-key", KEY)
    key = framed(4, KEY, {"id": 7})

    got = read((None, old(0)), (key, old(1)), (None, new(2)), wanted=spec(key="avro"), values=[1])

    assert (got.range.end, got.range.met_key_schema_ids, got.range.met_schema_ids) == (1, (4,), ())


def test_ids_that_do_not_exist_are_dead_letters_and_asked_for_once(read: Any, registry: RegistryInMemory) -> None:
    got = read(*((b"k", unknown(900 + n % 3)) for n in range(9)), (b"k", unknown(3)), (b"k", unknown(2**31)), chunk=4)

    assert got.range.dead_letters_by_reason == {"unknown_schema_id": 10, "wrong_schema_type": 1}
    assert got.result.unknown_schema_ids == (900, 901, 902)
    assert registry.asked == [900, 901, 902, 3]


def test_a_range_ends_where_the_look_ups_are_spent(read: Any) -> None:
    got = read(*((b"k", unknown(1_000 + n)) for n in range(150)), chunk=40)

    assert (got.range.end, got.range.stopped_by) == (100, "lookups")
    assert got.range.counts == Counts(100, dead_letters=100)
    assert (got.range.met_schema_ids, len(got.result.unknown_schema_ids)) == ((), 100)


def test_a_registry_that_is_down_fails_the_task(read: Any, registry: RegistryInMemory) -> None:
    registry.down = True

    with pytest.raises(RegistryError):
        read((b"k", unknown(900)))


@pytest.mark.parametrize(("chunk", "more", "read_to"), [(2, 0, 3), (100, 0, 3), (100, 1, 4), (1, -1, 3), (100, -99, 1)])
def test_a_range_ends_with_the_record_that_reaches_its_bytes(read: Any, chunk: int, more: int, read_to: int) -> None:
    size = len(new(0)) + len(b"k")

    got = read(*((b"k", new(n)) for n in range(10)), chunk=chunk, max_bytes=3 * size + more)

    assert (got.range.end, got.range.stopped_by, got.range.counts) == (read_to, "bytes", Counts(read_to, read_to))
    assert got.range.payload_bytes == read_to * size


def test_a_range_whose_last_record_reaches_its_bytes_is_read_to_its_end(read: Any) -> None:
    got = read(*((b"k", new(n)) for n in range(3)), max_bytes=3 * (len(new(0)) + 1))

    assert (got.range.end, got.range.stopped_by) == (3, "end")


def test_the_whole_range_may_be_gaps(read: Any) -> None:
    got = read(None, None, None)

    assert (got.range.end, got.range.gaps, got.range.counts, got.range.stopped_by) == (3, 3, Counts(), "end")


def test_columns_about_the_record_follow_the_rows_that_are_left(read: Any) -> None:
    keep = ("topic", "partition", "offset", "timestamp", "key", "headers", "schema_id", "value")
    wanted = spec()

    got = read(
        (b"a", b"bad"), (b"b", new(1)), (b"c", old(2)),
        wanted=replace(wanted, metadata=replace(wanted.metadata, keep=keep)),
    )  # fmt: skip

    about = got.rows("kafka_topic", "kafka_partition", "kafka_offset", "kafka_key", "kafka_schema_id", "kafka_value")
    assert about == [("orders", 0, 1, "b", 2, new(1)), ("orders", 0, 2, "c", 1, old(2))]
    assert got.rows("kafka_timestamp")[0] is None
    assert got.rows("kafka_headers")[0] == [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]


@pytest.mark.parametrize(("first_ms", "micros"), [(10**15, 10**18), (2**62, None), (-(2**62), None)])
def test_no_timestamp_of_a_record_stops_a_batch(read: Any, first_ms: int, micros: int | None) -> None:
    got = read((b"k", new(0)), (b"k", new(1)), (b"k", b"bad"), first_ms=first_ms)

    (only,), (file,) = got.result.ranges, got.result.row_files
    stamps = pq.read_table(file.path.removeprefix("file://"))["kafka_timestamp"].cast(pa.int64()).to_pylist()
    assert stamps == [micros, None]
    assert (only.counts, only.latest_ms) == (Counts(3, 2, dead_letters=1), first_ms + 2)
