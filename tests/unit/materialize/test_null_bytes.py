"""Columns of fixed size that a writer's schema lacks: their nulls take room, so that few rows are decoded at once."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest

from frazil.formats.framing import group_by_schema_id
from frazil.formats.open import open_decoder
from frazil.formats.placement import place_by_name
from frazil.materialize.ingest import payloads
from frazil.materialize.ingest.payloads import CrowdedError, Part, decode_framed
from frazil.model.schemas import RegisteredSchema
from frazil.records import binary
from tests.fakes.clients_in_memory import a_field, record

PLAIN = record(a_field("n", "int"))
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
LISTS = record(a_field("items", {"type": "array", "items": ITEM}))
MAPS = record(a_field("items", {"type": "map", "values": ITEM}))
WIDE = pa.field("hash", pa.binary(1_000))
FLAT = pa.schema([("n", pa.int32()), WIDE])
IN_STRUCT = pa.schema([("n", pa.int32()), ("s", pa.struct([WIDE, WIDE.with_name("other")]))])
IN_LIST = pa.schema([("items", pa.list_(pa.struct([("n", pa.int32()), WIDE])))])
IN_MAP = pa.schema([("items", pa.map_(pa.large_string(), pa.struct([("n", pa.int32()), WIDE])))])


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MOST_NULL_BYTES", 10_000)


def _framed(schema: str, value: Any, *, schema_id: int = 1) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


def _decode(values: Sequence[bytes | None], schema: str, target: pa.Schema) -> Part:
    decoder = open_decoder(RegisteredSchema(1, "AVRO", schema))
    return decode_framed(
        binary(values),
        group_by_schema_id(binary(values)),
        cast("Any", SimpleNamespace(decoder=lambda _: decoder)),
        target=target,
        place=lambda _, given: place_by_name(given, target, {}),
        nulls_are_rows=True,
    )


PLAINS: list[bytes | None] = [_framed(PLAIN, {"n": n}) for n in range(100)]
WITH_ITEMS: list[bytes | None] = [_framed(LISTS, {"items": [{"n": 1}] * 5})] * 100
WITH_ENTRIES: list[bytes | None] = [_framed(MAPS, {"items": {name: {"n": 1} for name in "abcde"}})] * 100


@pytest.mark.parametrize(
    ("values", "schema", "target", "fitting"),
    [
        (PLAINS, PLAIN, FLAT, 10),
        (PLAINS, PLAIN, IN_STRUCT, 5),
        (WITH_ITEMS, LISTS, IN_LIST, 2),
        (WITH_ENTRIES, MAPS, IN_MAP, 2),
        ([None] * 100, PLAIN, FLAT, 10),
    ],
    ids=["column", "struct", "list", "map", "tombstones"],
)
def test_as_many_rows_as_their_nulls_have_room_for(
    values: list[bytes | None], schema: str, target: pa.Schema, fitting: int
) -> None:
    with pytest.raises(CrowdedError) as crowded:
        _decode(values, schema, target)

    assert crowded.value.fitting == fitting
    assert len(_decode(values[:fitting], schema, target).columns[0]) == fitting


def test_rows_of_many_schemas_are_taken_to_be_like_those_that_were_seen() -> None:
    """The schemas after the one that is too much have rows of the same size."""
    target = pa.schema([*((f"n{n}", pa.int32()) for n in range(10)), WIDE])
    schemas = [record(a_field(f"n{n}", "int")) for n in range(10)]
    decoders = {n: open_decoder(RegisteredSchema(n, "AVRO", schema)) for n, schema in enumerate(schemas)}
    values = [_framed(schemas[n % 10], {f"n{n % 10}": n}, schema_id=n % 10) for n in range(100)]

    with pytest.raises(CrowdedError) as crowded:
        decode_framed(
            binary(values),
            group_by_schema_id(binary(values)),
            cast("Any", SimpleNamespace(decoder=decoders.__getitem__)),
            target=target,
            place=lambda _, given: place_by_name(given, target, {}),
            nulls_are_rows=True,
        )

    assert crowded.value.fitting == 3, "rows of several schemas are held three times"


def test_one_row_is_decoded_whatever_its_nulls_take() -> None:
    target = pa.schema([("n", pa.int32()), ("hash", pa.binary(20_000))])

    with pytest.raises(CrowdedError) as crowded:
        _decode(PLAINS[:2], PLAIN, target)

    assert crowded.value.fitting == 1
    assert _decode(PLAINS[:1], PLAIN, target).columns[1].null_count == 1


def test_columns_of_other_types_take_no_more_room() -> None:
    target = pa.schema([("n", pa.int32()), ("id", pa.uuid()), ("text", pa.string()), ("amount", pa.decimal128(38, 2))])

    assert len(_decode(PLAINS, PLAIN, target).columns[0]) == 100
