"""Tasks that divide the records of a topic between the tables of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policed_tables import LETTER_KEY
from test_ingest_decode import BAD_HEADERS, framed, target, unknown
from values_of_tables import spec

from frazil.formats import unpacking
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.formats.framing import group_by_schema_id
from frazil.formats.unpacking import decode_group
from frazil.materialize.ingest.decoders import SchemasById, UnknownIds
from frazil.materialize.ingest.isolate import Refused
from frazil.materialize.ingest.routing import Divided, Router
from frazil.materialize.ingest.table_rows import Chunk, TableDecoder, TableRows
from frazil.materialize.ingest.task import ingest
from frazil.materialize.layout import DEAD_LETTER_COLUMNS, metadata_columns
from frazil.model.errors import BadRecordLimitError
from frazil.model.ingested import IngestTask, RouteRows, RouteTarget, TaskContext, TaskResult, WriteTarget
from frazil.model.plan import OffsetRange, WriterSchemas
from frazil.model.policies import Policies, Policy
from frazil.model.progress import Counts, OffsetSums
from frazil.model.routes import FieldCondition, HeaderCondition, Route
from frazil.model.schemas import ExcludedSchemas
from frazil.model.settings import RegistrySettings
from frazil.model.spec import DEFAULT_SETTINGS, MetadataColumns, TableSpec
from frazil.records import HeaderList, Headers
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.fakes.reader_in_memory import ReaderInMemory, Sent

ORDER = record(a_field("n", "int"), name="shop.Order")
REFUND = record(a_field("n", "int"), a_field("why", "string"), name="shop.Refund")
OTHER = record(a_field("n", "int"), name="shop.Other")
PAID = record(
    a_field("n", "int"),
    a_field("kind", ["null", {"type": "enum", "name": "Kind", "symbols": ["new", "old", "odd"]}]),
    a_field("at", {"type": "record", "name": "At", "fields": [a_field("open", "boolean"), a_field("price", "double")]}),
    name="shop.Paid",
)
REFUNDED = HeaderCondition("type", "refund")
ORDERS, REFUNDS = Route("orders", "shop.Order"), Route("refunds", headers=(REFUNDED,))
AS_REFUND: HeaderList = [("type", b"refund")]


@pytest.fixture
def registry() -> RegistryInMemory:
    made = RegistryInMemory()
    for text in (ORDER, REFUND, OTHER):
        made.register("events-value", text)
    return made


def order(n: int) -> bytes:
    return framed(1, ORDER, {"n": n})


def refund(n: int) -> bytes:
    return framed(2, REFUND, {"n": n, "why": "x"})


def other(n: int) -> bytes:
    return framed(3, OTHER, {"n": n})


class Group:
    """The files of a task that reads one range for the tables `orders` and `refunds`."""

    def __init__(self, result: TaskResult) -> None:
        self.result = result
        (self.range,) = result.ranges

    def offsets(self) -> list[list[int]]:
        return [_column(files, "kafka_offset") for files in (each.files for each in self.result.route_files)]

    def dead(self) -> list[tuple[int, str]]:
        files = self.result.dead_letter_files
        return list(zip(_column(files, "offset"), _column(files, "reason"), strict=True))


def _column(files: Sequence[Any], name: str) -> list[Any]:
    return [value for file in files for value in pq.read_table(file.path.removeprefix("file://"))[name].to_pylist()]


@pytest.fixture
def read(registry: RegistryInMemory, tmp_path: Path) -> Callable[..., Group]:
    def carry_out(
        *values: bytes | None,
        headers: Mapping[int, HeaderList] | None = None,
        keys: Sequence[bytes | None] | None = None,
        routes: Sequence[Route] = (ORDERS, REFUNDS),
        wanted: TableSpec | None = None,
        own: Mapping[str, TableSpec] | None = None,
        known: Sequence[int] = (1, 2, 3),
        excluded: ExcludedSchemas | None = None,
    ) -> Group:
        wanted = wanted or spec()
        schemas = WriterSchemas({i: registry.schemas[i] for i in known}, {})
        specs = {route.table: (own or {}).get(route.table, wanted) for route in routes}
        tables = tuple(
            RouteTarget(route, specs[route.table], _rows(tmp_path, specs[route.table], route), {}) for route in routes
        )
        context = TaskContext(
            spec=wanted,
            batch_id="b",
            file_prefix="w-1",
            rows=tables[0].rows,
            dead_letters=target(tmp_path / "dead", DEAD_LETTER_COLUMNS),
            former_names={},
            schemas=schemas,
            kafka={},
            registry=RegistrySettings(""),
            storage={},
            source_ids={"events": ("id-1", 1)},
            excluded=excluded or ExcludedSchemas(),
            routes=tables,
        )
        sent: list[Sent | None] = list(zip(keys or [b"k"] * len(values), values, strict=True))
        whole = OffsetRange("events", 0, 0, len(sent), len(sent), 10**9)
        reader = ReaderInMemory(sent, 1_000, headers={n: (headers or {}).get(n, []) for n in range(len(sent))})
        return Group(ingest(IngestTask(context, (whole,)), reader=reader, registry=registry))

    return carry_out


def _rows(folder: Path, wanted: TableSpec, route: Route) -> WriteTarget:
    columns = {each.name: each for text in (REFUND, PAID) for each in map_schema(parse_schema(text)).columns}.values()
    return target(folder / route.table, (*columns, *metadata_columns(wanted, None)))


def test_the_first_route_whose_conditions_hold_takes_the_record(read: Any) -> None:
    got = read(order(0), refund(1), order(2), headers={1: AS_REFUND, 2: AS_REFUND})

    assert (got.offsets(), got.dead()) == ([[0, 2], [1]], [])
    assert got.range.counts == Counts(3, 3)
    assert got.range.sums == OffsetSums(0 + 1 + 2, 0 + 1 + 4)
    assert got.range.routes == (RouteRows(2, OffsetSums(2, 4)), RouteRows(1, OffsetSums(1, 1)))
    assert got.result.row_files == ()


def test_a_record_that_no_route_takes_is_one_dead_letter(read: Any) -> None:
    got = read(order(0), other(1), refund(2), b"bad", unknown(9))

    assert got.offsets() == [[0], []]
    assert got.dead() == [(1, "no_route"), (2, "no_route"), (3, "not_framed"), (4, "unknown_schema_id")]
    assert got.range.counts == Counts(5, 1, dead_letters=4)
    assert sum(each.rows for each in got.range.routes) == got.range.counts.rows


def test_a_record_that_no_route_takes_is_skipped_or_stops_the_task_where_the_spec_says_so(read: Any) -> None:
    got = read(order(0), other(1), wanted=spec(on_bad_record="skip"))

    assert (got.range.skipped_by_reason, got.range.counts) == ({"no_route": 1}, Counts(2, 1, skipped=1))
    with pytest.raises(BadRecordLimitError, match="the record events-0 offset 1 cannot become a row: no_route: no"):
        read(order(0), other(1), wanted=spec(on_bad_record="stop"))


@pytest.mark.parametrize(
    ("policy", "dead", "skipped"),
    [
        ("row", [(0, "null_value")], {}),
        ("skip", [], {"tombstone": 2}),
        ("dead_letter", [(0, "null_value"), (1, "null_value")], {}),
    ],
)
def test_a_tombstone_has_no_schema_and_may_have_a_header(
    read: Any, policy: str, dead: list[tuple[int, str]], skipped: dict[str, int]
) -> None:
    got = read(None, None, headers={1: AS_REFUND}, wanted=spec(on_tombstone=policy))

    assert (got.dead(), got.range.skipped_by_reason) == (dead, skipped)
    assert got.offsets() == [[], [1] if policy == "row" else []]


def test_only_the_last_header_of_a_key_counts(read: Any) -> None:
    given = {0: [("type", b"refund"), ("type", b"x")], 1: [("type", b"x"), ("type", b"refund")], 2: [("type", None)]}

    got = read(refund(0), refund(1), refund(2), headers=given)

    assert (got.offsets(), got.dead()) == ([[], [1]], [(0, "no_route"), (2, "no_route")])


def test_a_bad_record_of_a_route_is_one_dead_letter_and_no_row(read: Any) -> None:
    got = read(order(0)[:-1], order(1), refund(2)[:-1], headers={2: AS_REFUND})

    assert (got.offsets(), [offset for offset, _ in got.dead()]) == ([[1], []], [0, 2])
    assert got.range.counts == Counts(3, 1, dead_letters=2)


def test_a_bad_key_is_refused_once_whatever_the_number_of_tables(read: Any) -> None:
    got = read(order(0), refund(1), other(2), headers={1: AS_REFUND}, keys=[b"k", b"\xff", b"\xff"])

    assert (got.offsets(), got.dead()) == ([[0], []], [(1, "bad_key"), (2, "no_route")])


def test_records_of_an_excluded_schema_are_not_routed(read: Any) -> None:
    got = read(order(0), refund(1), headers={1: AS_REFUND}, excluded=ExcludedSchemas(values=frozenset({2})))

    assert (got.offsets(), got.dead()) == ([[0], []], [(1, "refused_schema")])


def test_the_range_ends_before_a_schema_that_the_plan_does_not_know(read: Any) -> None:
    got = read(order(0), other(1), refund(2), order(3), headers={2: AS_REFUND}, known=(1, 3))

    assert (got.offsets(), got.dead()) == ([[0], []], [(1, "no_route")])
    assert (got.range.end, got.range.stopped_by, got.range.met_schema_ids) == (2, "schema", (2,))


def test_headers_that_a_route_reads_can_refuse_a_record_of_a_table_without_headers(read: Any) -> None:
    plain = spec(metadata=MetadataColumns(keep=("partition", "offset")))

    got = read(order(0), refund(1), headers={0: BAD_HEADERS, 1: AS_REFUND}, wanted=plain)

    assert (got.offsets(), got.dead()) == ([[], [1]], [(0, "unreadable_headers")])


def test_a_defect_on_one_record_is_one_dead_letter_of_the_group(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = TableDecoder.decode

    def failing(self: TableDecoder, chunk: Chunk, refused: Refused) -> TableRows:
        if 2 in chunk.records.offsets.to_pylist() and chunk.records.values[2 - chunk.records.first_offset].is_valid:
            raise ValueError("cannot")
        return decode(self, chunk, refused)

    monkeypatch.setattr(TableDecoder, "decode", failing)

    got = read(order(0), refund(1), order(2), order(3), headers={1: AS_REFUND})

    assert (got.offsets(), got.dead()) == ([[0, 3], [1]], [(2, "defect")])


def test_dead_letters_of_a_group_are_encrypted_if_one_route_has_policies(read: Any) -> None:
    masked = replace(spec(), policies=Policies(columns=(("n", Policy("redact")),)), dead_letter_key=LETTER_KEY)

    got = read(other(0), own={"refunds": masked})

    (value,) = _column(got.result.dead_letter_files, "value")
    assert other(0) not in value
    assert len(value) > len(other(0))


CONDITIONS = [
    (FieldCondition("kind", ("new",)), [0]),
    (FieldCondition("kind", ("old", "new")), [0, 1, 4]),
    (FieldCondition("n", ("1", "2")), [1, 2]),
    (FieldCondition("at.open", ("true",)), [1, 3]),
    (FieldCondition("at.price", ("0.5",)), []),
    (FieldCondition("at", ("new",)), []),
    (FieldCondition("kind.open", ("true",)), []),
    (FieldCondition("gone", ("new",)), []),
]


def paid(n: int, kind: str | None, *, is_open: bool) -> bytes:
    return framed(4, PAID, {"n": n, "kind": kind, "at": {"open": is_open, "price": 0.5}})


@pytest.fixture
def payments(registry: RegistryInMemory) -> list[bytes]:
    registry.register("events-value", PAID)
    kinds = ("new", "old", None, "odd", "old")
    return [paid(n, kind, is_open=n % 2 == 1) for n, kind in enumerate(kinds)]


@pytest.mark.parametrize(("condition", "taken"), CONDITIONS, ids=str)
def test_a_route_by_field_takes_the_records_that_have_one_of_its_values(
    read: Any, payments: list[bytes], condition: FieldCondition, taken: list[int]
) -> None:
    got = read(*payments, routes=(Route("paid", fields=(condition,)),), known=(4,))

    assert got.offsets() == [taken]
    assert got.dead() == [(n, "no_route") for n in range(5) if n not in taken]
    assert got.range.counts == Counts(5, len(taken), dead_letters=5 - len(taken))


def test_routes_by_field_leave_records_to_later_routes_and_each_is_counted_once(
    read: Any, payments: list[bytes]
) -> None:
    routes = (
        Route("news", fields=(FieldCondition("kind", ("new",)), FieldCondition("n", ("0", "1")))),
        Route("paid", "shop.Paid", fields=(FieldCondition("at.open", ("true",)),)),
        Route("refunds", headers=(REFUNDED,)),
        ORDERS,
    )
    values = (*payments, order(5), None, b"bad", payments[0][:-1], payments[2])

    got = read(*values, routes=routes, headers={2: AS_REFUND, 6: AS_REFUND, 8: AS_REFUND}, known=(1, 4))

    assert got.offsets() == [[0], [1, 3], [2, 6], [5]]
    reasons = dict(got.dead())
    assert sorted(reasons) == [4, 7, 8, 9]
    assert (reasons[4], reasons[7], reasons[9]) == ("no_route", "not_framed", "no_route")
    assert got.range.counts == Counts(10, 6, dead_letters=4)
    assert sum(each.rows for each in got.range.routes) == 6


def test_a_record_that_cannot_be_decoded_is_refused_for_that(read: Any, payments: list[bytes]) -> None:
    by_field = Route("paid", fields=(FieldCondition("kind", ("new", "old", "odd")),))

    got = read(payments[0], payments[1][:-1], payments[4], routes=(by_field,), known=(4,))

    assert (got.offsets(), got.dead()) == ([[0, 2]], [(1, "truncated")])


def test_fields_are_compared_before_any_mask(read: Any, payments: list[bytes]) -> None:
    policies = Policies(columns=(("kind", Policy("drop")), ("n", Policy("redact"))))
    masked = replace(spec(), value_settings=replace(spec().value_settings, policies=policies))
    conditions = (FieldCondition("kind", ("old",)), FieldCondition("n", ("4",)))

    got = read(*payments, routes=(Route("orders", fields=conditions),), known=(4,), wanted=masked)

    assert got.offsets() == [[4]]
    assert _column(got.result.route_files[0].files, "n") == [None]


def test_fields_of_many_records_are_judged_in_parts(
    read: Any, payments: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "decode_group", _two_at_a_time)

    got = read(*payments, order(5), *payments, routes=(Route("paid", fields=CONDITIONS[1][:1]),), known=(1, 4))

    assert got.offsets() == [[0, 1, 4, 6, 7, 10]]


def _two_at_a_time(decoder: Any, payloads: Any, group: Any) -> Any:
    return decode_group(decoder, payloads.slice(0, 2), group)


@given(
    st.lists(st.tuples(st.sampled_from([None, 1, 2, 3, 9, "bad"]), st.sampled_from([None, "a", "b"])), max_size=40),
    st.lists(
        st.builds(
            Route,
            st.just("t"),
            st.sampled_from([None, "shop.Order", "shop.Refund"]),
            st.sampled_from([(), (HeaderCondition("k", "a"),), (HeaderCondition("k", "b"),)]),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_each_record_is_in_one_route_or_refused(records: list[tuple[Any, str | None]], routes: list[Route]) -> None:
    divided, names = _divided(records, routes)

    for index, (_, header) in enumerate(records):
        name = names[index]
        fits = [
            place
            for place, route in enumerate(routes)
            if name != "refused"
            and route.schema in (None, name)
            and all(condition.value == header for condition in route.headers)
        ]
        assert divided.route_of[index] == (fits[0] if fits else -1)
        assert (index in divided.rejects) is not bool(fits)
    held = [_indexes(part, len(records)) for part in divided.framed]
    assert held == [divided.taken_by(place).tolist() for place in range(len(routes))]


def _divided(records: list[tuple[Any, str | None]], routes: list[Route]) -> tuple[Divided, list[str | None]]:
    registry = RegistryInMemory()
    for text in (ORDER, REFUND, OTHER):
        registry.register("events-value", text)
    values = [None if kind is None else b"bad" if kind == "bad" else unknown(kind) for kind, _ in records]
    headers = Headers.of([[] if value is None else [("k", value.encode())] for _, value in records])
    schemas = SchemasById("avro", dict(registry.schemas), UnknownIds(registry))
    router = Router(routes, schemas, [DEFAULT_SETTINGS] * len(routes))
    names = {None: None, 1: "shop.Order", 2: "shop.Refund", 3: "shop.Other", 9: "refused", "bad": "refused"}
    payloads = pa.array(values, pa.large_binary())
    divided = router.divide(payloads, group_by_schema_id(payloads), headers)
    return divided, [names[kind] for kind, _ in records]


def _indexes(part: Any, count: int) -> list[int]:
    found = list(part.nulls)
    for group in part.groups:
        found += range(count) if group.indexes is None else group.indexes.tolist()
    return sorted(found)
