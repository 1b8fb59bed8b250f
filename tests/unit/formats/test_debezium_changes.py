"""Envelopes of Debezium as changes: which record is a row, a delete, or none, and which values stay as stored."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder as open_avro
from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import read_schema
from frazil.formats.debezium.changes import Changes, Envelopes, no_envelopes
from frazil.formats.debezium.envelope import kind_of
from frazil.formats.debezium.unavailable import unavailable
from frazil.formats.json_values.open import open_decoder as open_json
from frazil.formats.json_values.shape import columns_of
from frazil.model.change_events import POSITIONS, ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError
from frazil.records import binary
from tests.fakes.connect_samples import STRING, Schema, array, avro_payload, avro_schema, json_record, optional, struct
from tests.fakes.debezium_samples import (
    AT_US,
    FLATTENED,
    HEARTBEAT,
    MONGODB,
    MYSQL,
    ORDER,
    POSTGRES,
    SCHEMA_CHANGE,
    TRANSACTION_END,
    UNAVAILABLE,
    Event,
    envelope,
    mongodb,
    mysql,
    order,
    postgres,
)

BY_KEY, SOFT = ChangeEvents(), ChangeEvents(soft_deletes=True)
AT = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
A_UUID = "6c84fb90-12c4-11e1-840d-7b25c5ee775a"


@pytest.fixture(params=["avro", "json"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_of_postgres_have_their_columns_and_those_about_the_change(form: str) -> None:
    whole = order(1, day=dt.date(2023, 11, 14), ref=A_UUID, total=Decimal("12.34"), tags=["a", None], counts=[1])
    given = [postgres(op, after={**whole, "day": 19_675}) for op in "rcu"]

    found = changes(form, POSTGRES, given)

    assert found.rows.to_pylist() == [
        {
            **order(1, placed=AT, notes=None, photo=None),
            **{"day": dt.date(2023, 11, 14), "ref": UUID(A_UUID), "total": Decimal("12.34")},
            **{"tags": ["a", None], "counts": [1]},
            **{"__op": op, "__source_ts": AT.replace(tzinfo=dt.UTC)},
        }
        for op in "rcu"
    ]
    assert kinds(found) == ["row", "row", "row"]


def test_rows_of_mysql_have_their_columns(form: str) -> None:
    row = {"id": 7, "email": "a@b.c", "kind": "new", "seen": "2023-11-14T22:13:20Z", "alarm": 3_600_000_000}

    found = changes(form, MYSQL, [mysql("c", after=row)])

    assert found.rows.drop_columns(["__op", "__source_ts"]).to_pylist() == [
        {**row, "seen": AT.replace(microsecond=0, tzinfo=dt.UTC), "alarm": dt.time(1)}
    ]


def test_deletes_and_tombstones_take_rows_out(form: str) -> None:
    given = [postgres("c", after=order(1)), postgres("d", before=order(1)), None]

    found = changes(form, POSTGRES, given)

    assert kinds(found) == ["row", "delete", "delete"]
    assert found.rows.column("id").to_pylist() == [1]
    assert found.skipped == {}


def test_tombstones_are_skipped_if_the_source_orders(form: str) -> None:
    found = changes(form, POSTGRES, [postgres("d", before=order(1)), None], ChangeEvents(connector="postgresql"))

    assert kinds(found) == ["delete"]
    assert skipped(found) == {"tombstone": 1}


def test_the_position_in_the_log_belongs_to_rows_and_deletes(form: str) -> None:
    given = [postgres("m", lsn=1), postgres("c", after=order(1), lsn=2), postgres("t", lsn=3), postgres("d", lsn=4)]

    found = changes(form, POSTGRES, given, ChangeEvents(connector="postgresql"))

    assert found.rows.column("__position_lsn").to_pylist() == [2]
    assert [each.tolist() for each in found.delete_position] == [[4]]


def test_a_position_that_cannot_be_read_rejects_its_record(form: str) -> None:
    given = [mysql("t"), mysql("c", after={"id": 1, "email": ""}), mysql("m"), mysql("c", after={"id": 2, "email": ""})]
    for each in given[:3]:
        each["source"]["file"] = "?"

    found = changes(form, MYSQL, given, ChangeEvents(connector="mysql"))

    assert [(each.index, each.path) for each in found.rejects] == [(0, "source.file"), (1, "source.file")]
    assert (found.indexes.tolist(), found.truncates.tolist(), skipped(found)) == ([3], [], {"message": 1})
    assert [found.rows.column(name).to_pylist() for name in POSITIONS["mysql"]] == [[3], [4], [0]]


def test_the_source_must_have_the_fields_of_its_connector() -> None:
    with pytest.raises(IncompatibleSchemaError, match="no field source"):
        changes("avro", POSTGRES, [], ChangeEvents(connector="mysql"))


def test_a_field_of_the_position_must_have_the_type_that_its_connector_gives_it() -> None:
    source = struct("io.debezium.connector.yugabytedb.Source", connector=STRING, lsn=STRING)
    schema = envelope("s.t", struct("s.t.Value", **ORDER), source)

    with pytest.raises(IncompatibleSchemaError, match=r"source\.lsn is string, .* is long or int"):
        changes("avro", schema, [], ChangeEvents(connector="postgresql"))


def test_soft_deletes_keep_the_row_and_mark_it(form: str) -> None:
    given = [postgres("c", after=order(1)), postgres("d", before=order(1, notes="last")), None]

    found = changes(form, POSTGRES, given, SOFT)

    assert kinds(found) == ["row", "keeps"]
    assert found.rows.select(["id", "notes", "__op", "__deleted"]).to_pylist() == [
        {"id": 1, "notes": None, "__op": "c", "__deleted": False},
        {"id": 1, "notes": "last", "__op": "d", "__deleted": True},
    ]
    assert skipped(found) == {"tombstone": 1}


def test_a_changed_primary_key_is_a_delete_and_a_row(form: str) -> None:
    given = [postgres("d", before=order(1)), None, postgres("c", after=order(2))]

    found = changes(form, POSTGRES, given)

    assert kinds(found) == ["delete", "delete", "row"]
    assert found.rows.column("id").to_pylist() == [2]


def test_truncates_are_told_apart_and_messages_are_skipped(form: str) -> None:
    found = changes(form, POSTGRES, [postgres("c", after=order(1)), postgres("t"), postgres("m")])

    assert (kinds(found), found.truncates.tolist(), skipped(found)) == (["row"], [1], {"message": 1})


def test_other_operations_and_rows_that_are_missing_are_rejects(form: str) -> None:
    given = [postgres("x", after=order(1)), postgres("c"), postgres("u", after=order(2)), postgres("r")]

    found = changes(form, POSTGRES, given)

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [
        (0, Reason.UNKNOWN_OPERATION, "op"),
        (1, Reason.MISSING_AFTER, "after"),
        (3, Reason.MISSING_AFTER, "after"),
    ]
    assert found.indexes.tolist() == [2]


def test_a_value_that_its_type_does_not_have_rejects_its_record(form: str) -> None:
    bad = mysql("c", after={"id": 1, "email": "", "alarm": 86_400_000_000})
    given = [mysql("t"), bad, mysql("c", after={"id": 2, "email": ""})]

    found = changes(form, MYSQL, given)

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [(1, Reason.OUT_OF_RANGE, "after.alarm")]
    assert (found.indexes.tolist(), found.rows.column("id").to_pylist()) == ([2], [2])


def test_an_update_without_the_row_keeps_the_stored_one(form: str) -> None:
    given = [postgres("c", after=order(1, notes="a")), postgres("u"), postgres("d")]

    found = changes(form, POSTGRES, given)

    assert kinds(found) == ["row", "keeps", "delete"]
    assert found.rows.column("notes").to_pylist() == ["a", None]


def test_an_update_that_only_describes_the_change_is_a_reject(form: str) -> None:
    described = {"updatedFields": "{}", "removedFields": None}
    given = [mongodb("u", update=described), mongodb("u", after="{}", update=described), mongodb("d", update=described)]

    found = changes(form, MONGODB, given)

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [
        (0, Reason.PARTIAL_UPDATE, "updateDescription")
    ]
    assert kinds(found) == ["row", "delete"]


def test_unavailable_values_of_each_type_are_marked(form: str) -> None:
    given = [
        postgres("u", after=order(1, notes="x", tags=["y"], counts=[3])),
        postgres("u", after=order(2, **UNAVAILABLE)),
        postgres("u", after=order(3, counts=UNAVAILABLE["counts"][:-1], tags=[*UNAVAILABLE["tags"]] * 2)),
        None,
    ]

    found = changes(form, POSTGRES, given)

    assert {name: marks.tolist() for name, marks in found.unavailable.items()} == {
        name: [False, True, False] for name in UNAVAILABLE
    }
    assert found.rows.select(list(UNAVAILABLE)).to_pylist()[1] == dict.fromkeys(UNAVAILABLE)
    assert found.rows.column("notes").to_pylist() == ["x", None, None]
    assert found.rows.column("counts").to_pylist()[0] == [3]


def test_marks_belong_to_the_rows_that_are_left(form: str) -> None:
    late = {"id": 1, "email": "", "alarm": -1}
    given = [mysql("u", after=late), mysql("u", after={"id": 2, "email": "__debezium_unavailable_value"})]

    found = changes(form, MYSQL, given)

    assert {name: marks.tolist() for name, marks in found.unavailable.items()} == {"email": [True]}


def test_the_placeholder_can_be_another_one(form: str) -> None:
    given = [postgres("u", after=order(1, notes="?", photo=b"?", counts=[63]))]

    found = changes(form, POSTGRES, given, ChangeEvents(placeholder=b"?"))

    assert list(found.unavailable) == ["notes", "photo", "counts"]


def test_placeholders_in_arrays_of_uuids_and_in_maps_are_found() -> None:
    uuids = pa.array([["6b0f6a4c-4c5d-3b8c-a4e2-cd3f2d1b0f00"], [java_uuid()], None], pa.large_list(pa.large_string()))
    maps = pa.array([[("__u", "__u")], [("a", "__u")], None, []], pa.map_(pa.large_string(), pa.large_string()))

    assert unavailable(uuids, b"__debezium_unavailable_value").tolist() == [False, True, False]
    assert unavailable(maps, b"__u").tolist() == [True, False, False, False]
    assert unavailable(maps[1:], b"__u").tolist() == [False, False, False]


def java_uuid() -> str:
    """Return what Java's `UUID.nameUUIDFromBytes` makes of the placeholder: version 3, variant 2, of its MD5."""
    import hashlib  # noqa: PLC0415 - the definition, beside its use

    digest = bytearray(hashlib.md5(b"__debezium_unavailable_value", usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(digest)))


def test_further_fields_are_kept_under_their_path(form: str) -> None:
    found = changes(
        form, POSTGRES, [postgres("c", after=order(1), lsn=9)], ChangeEvents(kept=("source.lsn", "transaction.id"))
    )

    assert found.rows.select(["__source_lsn", "__transaction_id"]).to_pylist() == [
        {"__source_lsn": 9, "__transaction_id": None}
    ]


def test_a_field_that_envelopes_lack_cannot_be_kept() -> None:
    with pytest.raises(IncompatibleSchemaError, match="no field source"):
        changes("avro", POSTGRES, [], ChangeEvents(kept=("source.scn",)))


def test_a_column_cannot_have_the_name_of_one_about_the_change() -> None:
    row = struct("s.t.Value", id={"type": "int32"}, **{"__OP": {"type": "string"}})
    schema = struct("s.t.Envelope", before=optional(row), after=optional(row), op={"type": "string"})

    with pytest.raises(IncompatibleSchemaError, match="__OP"):
        changes("avro", schema, [])


def test_envelopes_without_a_source_have_no_time_of_the_change(form: str) -> None:
    row = struct("s.t.Value", ids=optional(array({"type": "int32"})))
    schema = struct("s.t.Envelope", before=optional(row), after=optional(row), op={"type": "string"})

    found = changes(form, schema, [{"op": "c", "after": {"ids": [1]}, "before": None}])

    assert found.rows.to_pylist() == [{"ids": [1], "__op": "c", "__source_ts": None}]


def test_no_records_are_no_changes(form: str) -> None:
    for settings in (BY_KEY, SOFT):
        found = changes(form, POSTGRES, [], settings) if form == "avro" else None

        assert found is None or (len(found.rows), found.skipped, found.rejects) == (0, {}, ())


def test_every_record_is_counted_once(form: str) -> None:
    given: list[Event | None] = [
        postgres("c", after=order(1)), postgres("x"), postgres("d"), None, postgres("t"), postgres("m"),
        postgres("u"), postgres("c"), postgres("u", after=order(1, ref="x")),
    ]  # fmt: skip

    for settings in (BY_KEY, SOFT, ChangeEvents(connector="postgresql")):
        found = changes(form, POSTGRES, given, settings)

        places = [len(found.indexes), len(found.deletes), len(found.truncates), sum(skipped(found).values())]
        assert sum(places) + len(found.rejects) == len(given)
        assert found.rows.num_rows == len(found.indexes)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (POSTGRES, "envelope"),
        (MYSQL, "envelope"),
        (MONGODB, "envelope"),
        (HEARTBEAT, "heartbeat"),
        (TRANSACTION_END, "transaction"),
        (SCHEMA_CHANGE, "schema_change"),
        (FLATTENED, "other"),
    ],
)
def test_records_are_told_apart_by_their_schema(schema: Schema, kind: str) -> None:
    avro = map_schema(parse_schema(avro_schema(schema)))
    embedded = read_schema(schema_text(schema))

    assert kind_of(avro.columns, avro.record) == kind
    assert kind_of(columns_of(embedded.row), embedded.name) == kind


def test_records_of_other_schemas_are_rejects() -> None:
    assert [(each.index, each.reason) for each in no_envelopes(2)] == [
        (0, Reason.NOT_AN_ENVELOPE),
        (1, Reason.NOT_AN_ENVELOPE),
    ]


def test_the_time_of_the_change_is_of_milliseconds_if_there_are_no_others(form: str) -> None:
    given = postgres("c", after=order(1))
    given["source"] |= {"ts_us": None, "ts_ms": AT_US // 1000}

    found = changes(form, POSTGRES, [given])

    assert found.rows.column("__source_ts").to_pylist() == [AT.replace(microsecond=123_000, tzinfo=dt.UTC)]


def kinds(found: Changes) -> list[str]:
    """Return what rows and deletes are, in the order of their records."""
    words = dict.fromkeys(found.deletes.tolist(), "delete")
    words |= dict(zip(found.indexes.tolist(), np.where(found.keeps_row, "keeps", "row").tolist(), strict=True))
    return [word for _, word in sorted(words.items())]


def skipped(found: Changes) -> dict[str, int]:
    return {reason: len(indexes) for reason, indexes in found.skipped.items()}


def changes(form: str, schema: Schema, given: list[Event | None], settings: ChangeEvents = BY_KEY) -> Changes:
    """Decode events, of which None is a tombstone, in one of the two forms, and return their changes."""
    values = [each for each in given if each is not None]
    rows, envelopes = (_from_avro if form == "avro" else _from_json)(schema, values, settings)
    is_tombstone = np.array([each is None for each in given], np.bool_)
    places = np.where(is_tombstone, -1, np.cumsum(~is_tombstone) - 1)
    return envelopes.changes(rows.take(pa.array(places, mask=is_tombstone)), is_tombstone)


def _from_avro(schema: Schema, values: list[Event], settings: ChangeEvents) -> tuple[pa.RecordBatch, Envelopes]:
    avro = parse_schema(avro_schema(schema))
    envelopes = Envelopes(map_schema(avro).columns, connect_types(avro), settings)
    decoded = open_avro(avro).decode(binary([avro_payload(schema, each) for each in values]))
    assert not decoded.rejects
    return decoded.rows, envelopes


def _from_json(schema: Schema, values: list[Event], settings: ChangeEvents) -> tuple[pa.RecordBatch, Envelopes]:
    records = binary([json_record(schema, each) for each in values])
    (same,) = by_schema(records)
    assert same.schema is not None
    embedded = read_schema(same.schema)
    envelopes = Envelopes(columns_of(embedded.row), embedded.types, settings)
    decoded = open_json(embedded.row).decode(same.payloads(records))
    assert not decoded.rejects
    return decoded.rows, envelopes


def schema_text(schema: Schema) -> str:
    (same,) = by_schema(binary([json_record(schema, None)]))
    assert same.schema is not None
    return same.schema
