"""Change events in JSON without a schema: the spec declares the row, and what else it has is kept."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from frazil.formats.debezium.declared import declared_changes, map_declared
from frazil.formats.debezium.logical_types import LOGICAL_TYPES
from frazil.formats.decoder import Decoded
from frazil.formats.json_values.shape import EXTRA
from frazil.model.change_events import PLACEHOLDER, POSITIONS, ChangeEvents
from frazil.model.columns import Scalar
from frazil.model.dead_letter import Reason
from frazil.model.declared import NAMED
from frazil.records import binary
from tests.fakes.debezium_samples import AT_MS, AT_US

FIELDS: dict[str, Any] = {
    "id": "long",
    "since": "io.debezium.time.Date",
    "at": "io.debezium.time.MicroTimestamp",
    "total": "decimal(10, 2)",
    "seen": ["io.debezium.time.ZonedTimestamp"],
    "notes": "string",
}


def event(op: str | None, source: dict[str, Any] | None = None, **images: Any) -> bytes:
    about = {"version": "3.2.0.Final", "connector": "postgresql", "ts_ms": AT_MS, **(source or {})}
    return json.dumps({"before": None, "after": None, **images, "source": about, "op": op, "ts_ms": 1}).encode()


def decoded(*payloads: bytes, settings: ChangeEvents | None = None, engine: Any = None) -> Decoded:
    return declared_changes(json.dumps(FIELDS), settings or ChangeEvents(), engine).decode(binary(list(payloads)))


def test_rows_have_the_declared_columns_and_what_is_not_declared(engine: Any) -> None:
    row = {"id": 1, "since": 19_675, "at": AT_US, "total": "BNI=", "seen": ["2023-11-14T22:13:20Z"], "phone": "1"}

    found = decoded(event("c", after=row), event("u", after={**row, "total": 1.5, "phone": None}), engine=engine)

    at = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
    expected = {
        "id": 1,
        "since": dt.date(2023, 11, 14),
        "at": at,
        "total": Decimal("12.34"),
        "seen": [at.replace(microsecond=0, tzinfo=dt.UTC)],
        "notes": None,
        "_extra": '{"phone":"1"}',
        "__op": "c",
        "__source_ts": at.replace(microsecond=123_000, tzinfo=dt.UTC),
    }
    assert found.rejects == ()
    assert found.rows.to_pylist()[0] == expected
    assert found.rows.select(["total", EXTRA]).to_pylist()[1] == {"total": Decimal("1.50"), EXTRA: '{"phone":null}'}
    assert found.undeclared == 2


def test_deletes_updates_and_other_records_are_told_apart(engine: Any) -> None:
    found = decoded(
        event("d", before={"id": 1}),
        event("c", after={"id": 2}),
        event("t"),
        event("m"),
        event("u"),
        event("x", after={"id": 3}),
        event("c"),
        engine=engine,
    )

    assert found.without_row.deletes.tolist() == [0]
    assert found.without_row.truncates.tolist() == [2]
    assert {reason: each.tolist() for reason, each in found.without_row.skipped.items()} == {"message": [3]}
    assert [each.indexes.tolist() for each in found.incomplete] == [[4]]
    assert [(each.index, each.reason) for each in found.rejects] == [
        (5, Reason.UNKNOWN_OPERATION),
        (6, Reason.MISSING_AFTER),
    ]
    assert (found.rows.column("id").to_pylist(), found.taken) == ([2, None], 7)


def test_what_is_no_change_event_is_rejected_in_its_place(engine: Any) -> None:
    found = decoded(
        b'{"schema": {}, "payload": {}}',
        b"{",
        event("c", after={"id": "1"}),
        event("c", after=json.dumps({"id": 1})),
        event("c", after={"id": 4, "since": 2**40}),
        event("c", after={"id": 5}),
        event(None, after={"id": 6}),
        engine=engine,
    )

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [
        (0, Reason.NOT_AN_ENVELOPE, ""),
        (1, Reason.TRUNCATED, ""),
        (2, Reason.WRONG_TYPE, "after.id"),
        (3, Reason.WRONG_TYPE, "after"),
        (4, Reason.OUT_OF_RANGE, "after.since"),
        (6, Reason.NOT_AN_ENVELOPE, ""),
    ]
    assert found.rows.column("id").to_pylist() == [5]


def test_soft_deletes_read_both_images(engine: Any) -> None:
    given = [event("d", before={"id": 1, "notes": "last"}), event("d", before={"id": "x"}), event("c", after={"id": 2})]

    found = decoded(*given, settings=ChangeEvents(soft_deletes=True), engine=engine)

    assert found.rows.select(["id", "notes", "__deleted"]).to_pylist() == [
        {"id": 1, "notes": "last", "__deleted": True},
        {"id": 2, "notes": None, "__deleted": False},
    ]
    assert [(each.index, each.path) for each in found.rejects] == [(1, "before.id")]


def test_values_that_an_event_lacks_stay(engine: Any) -> None:
    found = decoded(event("u", after={"id": 1, "notes": PLACEHOLDER}), engine=engine)

    ((incomplete),) = found.incomplete
    assert (incomplete.columns, incomplete.indexes.tolist()) == (("notes",), [0])


@pytest.mark.parametrize(
    ("connector", "source", "position"),
    [
        ("postgresql", {"lsn": 7}, [7]),
        ("mysql", {"connector": "mysql", "file": "b.000002", "pos": 4, "row": 1}, [2, 4, 1]),
        ("oracle", {"connector": "oracle", "scn": "12"}, [12]),
        ("mongodb", {"connector": "mongodb", "ord": 3}, [AT_MS, 3]),
    ],
)
def test_the_position_is_read(connector: str, source: dict[str, Any], position: list[int]) -> None:
    settings = ChangeEvents(connector=connector)

    found = decoded(event("c", source, after={"id": 1}), event("d", source, before={"id": 1}), settings=settings)

    assert found.rejects == ()
    assert [found.rows.column(name).to_pylist() for name in POSITIONS[connector]] == [[each] for each in position]
    assert [each.tolist() for each in found.without_row.delete_order] == [[each] for each in position]


def test_decoding_ends_early_where_the_items_of_an_image_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = declared_changes(json.dumps(FIELDS), ChangeEvents(), "python")
    payloads = binary([event("m"), *(event("c", after={"id": n, "seen": []}) for n in range(3))])
    images = decoder._decoder._image  # type: ignore[attr-defined]
    whole = images.decode

    def two(given: pa.Array) -> Decoded:
        return whole(given.slice(0, 2))  # type: ignore[no-any-return]

    monkeypatch.setattr(images, "decode", two)

    found = decoder.decode(payloads)

    assert (found.taken, found.rows.column("id").to_pylist()) == (3, [0, 1])


def test_the_types_that_can_be_declared_are_those_that_are_converted() -> None:
    converted = {name for name, each in LOGICAL_TYPES.items() if each.convert and isinstance(each.stored, Scalar)}

    assert set(NAMED) == converted - {"org.apache.kafka.connect.data.Timestamp"}


def test_the_columns_are_known_before_any_record() -> None:
    found = map_declared(json.dumps({"id": "long"}), ChangeEvents())

    assert ([each.name for each in found.columns], found.findings) == (["id", EXTRA, "__op", "__source_ts"], ())
    (clash,) = map_declared(json.dumps({"__op": "long"}), ChangeEvents()).findings
    assert "__op" in clash.problem
