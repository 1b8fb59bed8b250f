"""What becomes of each record of a range, with the broker and the registry in memory and files in a folder."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import assign_fresh_schema_ids
from values_of_tables import spec

from frazil.adapters.iceberg.types import to_partition_spec, to_schema
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.formats.open import open_decoder
from frazil.materialize.ingest import decoders, isolate, task
from frazil.materialize.ingest.task import ingest
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.layout import DEAD_LETTER_COLUMNS, metadata_columns
from frazil.model.columns import Column, ColumnType, Scalar, Struct
from frazil.model.errors import BadRecordLimitError, DefectError, IncompatibleSchemaError, RegistryError
from frazil.model.ingested import IngestTask, RangeResult, TaskContext, TaskResult, WriteTarget
from frazil.model.plan import OffsetRange, WriterSchemas
from frazil.model.progress import Counts, OffsetSums
from frazil.model.settings import RegistrySettings
from frazil.model.spec import TableSpec
from frazil.records import HeaderList, Records, UnreadableHeaders
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.fakes.reader_in_memory import ReaderInMemory, Sent

OLD = record(a_field("n", "int"))
NEW = record(a_field("m", "long", "n"), a_field("s", ["null", "string"]))


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


def _table(file: Any, columns: Sequence[str]) -> pa.Table:
    return pq.read_table(file.path.removeprefix("file://"), columns=list(columns) or None)


def _held(files: Sequence[Any], columns: Sequence[str]) -> list[Any]:
    rows = [row for file in files for row in _table(file, columns).to_pylist()]
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
        headers: Mapping[int, HeaderList] | None = None,
        stamps: Sequence[int | None] | None = None,
        partition_by: str | None = None,
        added_by_others: tuple[Column, ...] = (),
    ) -> Read:
        wanted = wanted or spec()
        about = metadata_columns(wanted, None if key_type is None else Column("key", key_type))
        columns = (*map_schema(parse_schema(NEW)).columns, *about)
        context = TaskContext(
            spec=wanted,
            batch_id="b",
            file_prefix="w-1",
            rows=target(tmp_path / "rows", columns, partition_by),
            dead_letters=target(tmp_path / "dead", (*DEAD_LETTER_COLUMNS, *added_by_others)),
            former_names={"m": ("n",), **(former_names or {})},
            schemas=WriterSchemas({i: registry.schemas[i] for i in values}, {i: registry.schemas[i] for i in keys}),
            kafka={},
            registry=RegistrySettings(""),
            storage={},
            source_ids={"orders": ("id-1", 2)},
        )
        whole = OffsetRange("orders", 0, 0, len(records), len(records), max_bytes)
        reader = ReaderInMemory(records, chunk, first_ms, headers or {}, stamps)
        return Read(ingest(IngestTask(context, (whole,)), reader=reader, registry=registry), tmp_path)

    return carry_out


def target(folder: Path, columns: Sequence[Column], partition_by: str | None = None) -> WriteTarget:
    schema = assign_fresh_schema_ids(to_schema(columns))
    partitions = to_partition_spec(schema, [partition_by] if partition_by else []).model_dump_json()
    return WriteTarget("lake.t", str(folder), schema.model_dump_json(), partitions, {})


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
    assert got.range.leader_epoch == 3


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
        "not_framed", "3 bytes, expected a header of 5", None,
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


def test_a_column_that_others_added_to_the_dead_letters_is_null(read: Any) -> None:
    got = read((b"k", b"no frame"), added_by_others=(Column("triaged", Scalar("boolean")),))

    assert got.dead("offset", "triaged") == [(0, None)]


@pytest.mark.parametrize(("limit", "batches"), [("GATHERED_LETTERS", 3), ("GATHERED_BYTES", 7), ("", 1)])
def test_dead_letters_of_many_chunks_are_written_together(
    read: Any, monkeypatch: pytest.MonkeyPatch, limit: str, batches: int
) -> None:
    sent = [(b"k", old(0) if n % 2 else b"bad %d" % n) for n in range(14)]
    headers: dict[int, HeaderList] = {2: None, 4: UnreadableHeaders("torn"), 6: [("a", b"b")]}
    at_once = read(*sent, headers=headers).dead()
    added: list[int] = []
    add = DataFileWriter.add

    def counting(files: DataFileWriter, batch: pa.RecordBatch) -> None:
        added.extend([batch.num_rows] if "reason" in batch.schema.names else [])
        add(files, batch)

    monkeypatch.setattr(DataFileWriter, "add", counting)
    if limit:
        monkeypatch.setattr(task, limit, 3 if limit == "GATHERED_LETTERS" else 1)

    got = read(*sent, headers=headers, chunk=2)

    assert (len(added), sum(added)) == (batches, 7)
    assert [_but_read_at(letter) for letter in got.dead()] == [_but_read_at(letter) for letter in at_once]
    assert got.range.counts == Counts(14, 7, dead_letters=7)


def test_columns_of_dead_letters_that_repeat_values_have_dictionaries_and_the_others_are_compressed(read: Any) -> None:
    got = read(*((b"%d" % n, b"bad %d" % n) for n in range(9)), (b"k", old(0)))

    (letters,), (rows,) = got.result.dead_letter_files, got.result.row_files
    headers = {"headers.list.element.key", "headers.list.element.value"}
    assert _compressed(letters) == {"offset", "timestamp", "key", "value", "detail", "read_at"} | headers
    assert _compressed(rows) == {each.path_in_schema for each in _column_chunks(rows)}
    assert _with_dictionaries(letters) >= {"topic", "reason", "batch_id", "table_uuid"}
    assert not _with_dictionaries(letters) & {"offset", "timestamp", "key", "value", "detail", "read_at"}
    assert _with_dictionaries(rows) >= {"m", "kafka_offset", "kafka_key"}


def _with_dictionaries(file: Any) -> set[str]:
    return {column.path_in_schema for column in _column_chunks(file) if column.has_dictionary_page}


def _compressed(file: Any) -> set[str]:
    return {column.path_in_schema for column in _column_chunks(file) if column.compression == "ZSTD"}


def _column_chunks(file: Any) -> list[Any]:
    group = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
    return [group.column(number) for number in range(group.num_columns)]


def _but_read_at(letter: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in letter.items() if name != "read_at"}


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


def test_a_range_tells_of_new_schemas_behind_its_end_up_to_an_id_that_is_not_valid(
    read: Any, registry: RegistryInMemory
) -> None:
    later = [registry.register(f"later-{n}", record(a_field("n"), name=f"L{n}")) for n in range(3)]
    framed_by = [framed(each.id, each.text, {"n": 1}) for each in later]
    behind = (framed_by[0], old(2), framed_by[1], framed_by[0], unknown(900), unknown(901), framed_by[2])

    got = read((b"k", new(0)), *((b"k", each) for each in behind), values=[1])

    assert (got.range.end, got.range.met_schema_ids) == (0, (2,))
    assert got.range.ahead_schema_ids == (later[0].id, later[1].id)
    assert (got.result.unknown_schema_ids, registry.asked.count(900), registry.asked.count(901)) == ((), 1, 0)


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
    assert only.counts == Counts(3, 2, dead_letters=1)


# --- records that the client or Frazil itself cannot cope with -------------------------------------------------------

BAD_HEADERS = UnreadableHeaders("a header key is not UTF-8: 0xff")


def keeping(*names: str, **changes: Any) -> TableSpec:
    wanted = spec(**changes)
    return replace(wanted, metadata=replace(wanted.metadata, keep=("partition", "offset", "key", *names)))


def test_unreadable_headers_are_no_matter_to_a_table_that_keeps_none(read: Any) -> None:
    got = read((b"k", new(0)), (b"k", b"bad"), headers={0: BAD_HEADERS, 1: BAD_HEADERS})

    assert got.range.counts == Counts(2, 1, dead_letters=1)
    (letter,) = got.dead("headers", "reason", "detail")
    assert letter == (
        None,
        "not_framed",
        f"3 bytes, expected a header of 5; the headers are left out: {BAD_HEADERS.problem}",
    )


def test_a_record_whose_headers_cannot_be_read_is_a_dead_letter_of_a_table_that_keeps_them(read: Any) -> None:
    sent = [(b"a", new(0)), (b"b", new(1)), (b"c", None), (b"d", new(3))]

    got = read(*sent, wanted=keeping("headers"), headers={1: BAD_HEADERS, 2: BAD_HEADERS, 3: None})

    assert got.rows("kafka_offset", "kafka_key") == [(0, "a"), (3, "d")]
    assert got.dead("offset", "key", "value", "headers", "reason", "detail", "path") == [
        (n, key, value, None, "unreadable_headers", BAD_HEADERS.problem, "kafka_headers")
        for n, (key, value) in list(enumerate(sent))[1:3]
    ]
    assert got.range.counts == Counts(4, 2, dead_letters=2)


def test_a_record_that_is_refused_for_its_headers_waits_for_no_schema(read: Any) -> None:
    got = read((b"k", old(0)), (b"k", new(1)), (b"k", new(2)), wanted=keeping("headers"), values=[1],
               headers={1: BAD_HEADERS})  # fmt: skip

    assert (got.range.end, got.range.counts) == (2, Counts(2, 1, dead_letters=1))


class Failing:
    """A decoder with a defect: it fails on some payloads, whatever else is in the chunk."""

    def __init__(self, decoder: Any, *payloads: bytes, times: int = 10**9) -> None:
        self.schema, self._decoder, self._payloads, self._times = decoder.schema, decoder, payloads, times

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Any:
        if self._times and any(each in self._payloads for each in payloads.to_pylist()):
            self._times -= 1
            raise ValueError("half a row")
        return self._decoder.decode(payloads, skip=skip)


class Crowded:
    """A decoder that has room for two payloads at a time, or for two `large` ones; `given` counts the payloads."""

    def __init__(self, decoder: Any, large: Collection[bytes] | None = None) -> None:
        self.schema, self._decoder, self._large = decoder.schema, decoder, large
        self.given: list[int] = []

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Any:
        self.given.append(len(payloads))
        large = [n for n, each in enumerate(payloads.to_pylist()) if self._large is None or each in self._large]
        return self._decoder.decode(payloads[: large[2] if len(large) > 2 else len(payloads)], skip=skip)


@pytest.mark.parametrize("values", [(1, 2), (1,)], ids=["all schemas", "a new schema in between"])
def test_a_chunk_that_takes_too_much_memory_is_decoded_in_parts(
    read: Any, monkeypatch: pytest.MonkeyPatch, values: Sequence[int]
) -> None:
    monkeypatch.setattr(decoders, "open_decoder", lambda schema, *_: Crowded(open_decoder(schema)))
    sent = [old(0), b"bad", old(1), old(2), None, new(3), new(4), old(5), new(6), unknown(9)]

    got = read(*((b"k", value) for value in sent), wanted=spec(on_tombstone="skip"), values=values)

    end = 10 if 2 in values else 5
    assert (got.range.end, got.range.gaps) == (end, 0)
    assert got.rows("m") == [0, 1, 2, 3, 4, 5, 6][: 7 if end == 10 else 3]
    assert got.dead("offset") == [1, 9][: 2 if end == 10 else 1]
    assert got.range.payload_bytes == sum(len(value or b"") + 1 for value in sent[:end])


@pytest.mark.parametrize(("large", "calls"), [(range(6), 12), (range(200), 120)], ids=["few", "all"])
def test_a_crowded_group_of_records_does_not_make_the_parts_after_it_small(
    read: Any, registry: RegistryInMemory, monkeypatch: pytest.MonkeyPatch, large: range, calls: int
) -> None:
    """Of 200 records in one chunk. Trying larger parts costs little where all records are large."""
    decoder = Crowded(open_decoder(registry.schemas[1]), {old(n) for n in large})
    monkeypatch.setattr(decoders, "open_decoder", lambda *_: decoder)

    got = read(*((b"k", old(n)) for n in range(200)), chunk=200)

    assert got.rows("m") == list(range(200))
    assert len(decoder.given) <= calls


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    def on(*payloads: bytes, **how: Any) -> None:
        monkeypatch.setattr(
            decoders, "open_decoder", lambda schema, *_: Failing(open_decoder(schema), *payloads, **how)
        )

    return on


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_a_record_on_which_frazil_fails_is_a_dead_letter_and_the_others_are_rows(
    read: Any, failing: Any, chunk: int
) -> None:
    failing(new(2), new(5))

    got = read(*((b"k", new(n)) for n in range(8)), chunk=chunk)

    assert got.rows("kafka_offset") == [0, 1, 3, 4, 6, 7]
    assert got.dead("offset", "reason", "detail", "value") == [
        (n, "defect", "ValueError: half a row", new(n)) for n in (2, 5)
    ]


def test_a_failure_that_comes_and_goes_names_the_offsets_and_is_not_tried_for_ever(read: Any, failing: Any) -> None:
    failing(new(1), times=1)

    with pytest.raises(DefectError, match="decoding orders-0, offsets 0 to 2: ValueError: half a row"):
        read(*((b"k", new(n)) for n in range(3)))


def test_records_that_fail_only_together_are_no_dead_letters(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = isolate.isolating

    def fail_together(act: Any, records: Records, *, where: str, **more: Any) -> Any:
        def limited(part: Records, refused: Any) -> Any:
            if len(part) - len(refused) > 3:
                raise ValueError("too many")
            return act(part, refused)

        return decode(limited, records, where=where)

    monkeypatch.setattr("frazil.materialize.ingest.decode.isolating", fail_together)

    with pytest.raises(DefectError, match="decoding orders-0, offsets 0 to 7: ValueError: too many"):
        read(*((b"k", new(n)) for n in range(8)))


def test_a_defect_that_meets_every_record_is_not_a_chunk_of_dead_letters(read: Any, failing: Any) -> None:
    failing(*(new(n) for n in range(30)))

    with pytest.raises(DefectError, match="decoding orders-0, offsets 0 to 29"):
        read(*((b"k", new(n)) for n in range(30)))


def test_a_defect_while_writing_names_the_offsets(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing_add(files: DataFileWriter, batch: pa.RecordBatch) -> None:
        raise OverflowError("no such date")

    monkeypatch.setattr(DataFileWriter, "add", failing_add)

    with pytest.raises(DefectError, match="writing orders-0, offset 0: OverflowError: no such date"):
        read((b"k", new(0)))


def test_a_field_that_the_table_has_no_column_for_is_refused_in_the_task(read: Any, registry: RegistryInMemory) -> None:
    more = record(a_field("m"), a_field("lost"))
    registry.register("orders-value", more)

    with pytest.raises(IncompatibleSchemaError, match=r"writer schema 4 .*\n.*lost: the table has no column for it"):
        read((b"k", framed(4, more, {"m": 1, "lost": 2})), values=[4])


WHOLE = st.builds(lambda n, s: framed(2, NEW, {"m": n, "s": s}), st.integers(-(2**63), 2**63 - 1), st.text())
BYTES = st.binary(max_size=12)
PAYLOADS = st.one_of(
    st.none(), BYTES, WHOLE, WHOLE.map(lambda whole: whole[:-1]),
    BYTES.map(lambda body: unknown(2) + body), BYTES.map(lambda body: unknown(99) + body),
)  # fmt: skip
STAMPS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 // 1000, -(2**63) // 1000 - 1]))
HEADERS = st.one_of(
    st.none(),
    st.just(BAD_HEADERS),
    st.lists(st.tuples(st.text(), st.one_of(st.none(), BYTES)), max_size=2),
)
ANY_RECORD = st.tuples(st.one_of(st.none(), BYTES, st.text().map(str.encode)), PAYLOADS, HEADERS, STAMPS)
KEYS = st.sampled_from(["none", "bytes", "string", "avro"])
PARTITIONS = st.sampled_from(["day(kafka_timestamp)", "hour(kafka_timestamp)", "truncate(3, s)", "s", "bucket(4, m)"])


def _dicts(read: Any, *columns: str) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in read(*columns)]


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(st.lists(ANY_RECORD, min_size=1, max_size=12), KEYS, PARTITIONS, st.booleans(), st.sampled_from([1, 3, 100]))
def test_whatever_is_in_a_record_it_is_a_row_or_a_dead_letter(
    read: Any,
    registry: RegistryInMemory,
    records: list[Any],
    key: str,
    partition_by: str,
    keeps_headers: bool,
    chunk: int,
) -> None:
    keep = ("timestamp", *(("headers",) if keeps_headers else ()))

    got = read(
        *((each[0], each[1]) for each in records),
        wanted=keeping(*keep, key=key),
        key_type=Scalar("long") if key == "avro" else None,
        chunk=chunk,
        headers={n: each[2] for n, each in enumerate(records)},
        stamps=[each[3] for each in records],
        partition_by=partition_by,
    )

    (result,) = got.result.ranges
    kept_headers = ("kafka_headers",) if keeps_headers else ()
    assert result.counts.balanced
    assert (result.counts.read, result.end) == (len(records), len(records))
    rows = {row["kafka_offset"]: row for row in _dicts(got.rows, "kafka_offset", "m", "s", *kept_headers)}
    dead = {letter["offset"]: letter for letter in _dicts(got.dead, "offset", "key", "value", "reason")}
    assert sorted([*rows, *dead]) == list(range(len(records)))
    for n, letter in dead.items():
        assert (letter["key"], letter["value"]) == records[n][:2]
        assert letter["reason"] != "defect"
    for n, (_, value, headers, _) in enumerate(records):
        if headers is BAD_HEADERS and keeps_headers:
            assert n in dead
        elif n in rows and keeps_headers:
            assert rows[n]["kafka_headers"] == (headers and [{"key": key, "value": value} for key, value in headers])
        if n in rows and value is not None:
            assert framed(2, NEW, {"m": rows[n]["m"], "s": rows[n]["s"]}) == value
