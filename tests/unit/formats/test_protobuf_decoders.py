"""Both decoders and google.protobuf agree on random schemas and values, and on payloads that were damaged."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from protobuf_random import filled, has_unread_entries, mutated, random_schema, row_of, same
from protobuf_samples import FIRST, payload

from frazil.formats.decoder import Decoded
from frazil.formats.protobuf.mapping import map_schema
from frazil.formats.protobuf.open import open_decoder
from frazil.formats.protobuf.schema import ProtobufSchema, parse_schema
from frazil.model.dead_letter import Reason, Reject
from frazil.records import binary
from tests.sampling import examples

STRICTER = (Reason.BAD_TAG, Reason.OUT_OF_RANGE)
"""google.protobuf takes a field with another wire type for an unknown one, and does not check times."""
TOO_MANY_BITS = "a varint has more than 64 bits"
"""google.protobuf drops the bits."""


def comparable(decoded: Decoded) -> tuple[str, tuple[Reject, ...], int]:
    return repr(decoded.rows.to_pylist()), decoded.rejects, decoded.truncated_nanos


def rows_of(decoded: Decoded) -> list[dict[str, Any]]:
    return decoded.rows.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(examples(100, 5000)))
def test_columns_are_what_google_reads(seed: int, native: None) -> None:
    random = Random(seed)
    schema = random_schema(random)
    made = [filled(random, GetMessageClass(schema.message)()) for _ in range(3)]

    assert map_schema(schema).findings == ()
    for engine in ("native", "fallback"):
        decoded = open_decoder(schema, engine).decode(binary(list(map(payload, made))))
        assert decoded.rejects == ()
        assert all(map(same, rows_of(decoded), map(row_of, made))), (engine, rows_of(decoded), made)


@pytest.mark.parametrize("seed", range(examples(100, 5000)))
def test_damaged_payloads_are_judged_alike(seed: int, native: None) -> None:
    random = Random(seed)
    schema = random_schema(random)
    whole = [filled(random, GetMessageClass(schema.message)()).SerializeToString() for _ in range(3)]
    damaged = [mutated(random, random.choice(whole)) for _ in range(20)]

    by_engine = [
        open_decoder(schema, engine).decode(binary([FIRST + each for each in damaged]))
        for engine in ("native", "fallback")
    ]

    assert comparable(by_engine[0]) == comparable(by_engine[1])
    assert by_engine[0].rows.schema.equals(by_engine[1].rows.schema)
    hold_against_google(schema, damaged, by_engine[0])


def hold_against_google(schema: ProtobufSchema, damaged: list[bytes], decoded: Decoded) -> None:
    rows = iter(rows_of(decoded))
    rejects = {each.index: each for each in decoded.rejects}
    assert decoded.taken == len(damaged)
    for index, each in enumerate(damaged):
        read = read_by_google(schema, each)
        if index not in rejects:
            row = next(rows)
            assert read is not None, (each, row)
            assert same(row, row_of(read)) or has_unread_entries(read), (each, row, read)
        elif rejects[index].reason not in STRICTER and rejects[index].detail != TOO_MANY_BITS:
            assert read is None, (each, rejects[index], read)


def read_by_google(schema: ProtobufSchema, data: bytes) -> Any:
    try:
        return GetMessageClass(schema.message).FromString(data)
    except DecodeError:
        return None


@pytest.mark.parametrize("engine", ["native", "fallback"])
def test_hostile_payloads_are_all_accounted_for(engine: Any, native: None) -> None:
    count = {"native": 100_000, "fallback": 2_000}[engine]
    random = Random(7)
    schema = parse_schema(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
        " message Row { string s = 1; repeated int64 n = 2; map<string, M> m = 3; oneof o { M a = 4; bool b = 5; }"
        " google.protobuf.Timestamp t = 6; repeated M l = 7; } message M { bytes b = 1; M2 m = 2; fixed32 f = 3; }"
        " message M2 { repeated string s = 1; optional double d = 2; }"
    )
    whole = [filled(random, GetMessageClass(schema.message)()).SerializeToString() for _ in range(50)]
    hostile = [FIRST + mutated(random, random.choice(whole)) for _ in range(count // 2)]
    hostile += [random.randbytes(random.randint(0, 40)) for _ in range(count // 2)]

    decoded = open_decoder(schema, engine).decode(binary(hostile))

    assert decoded.taken == count
    assert decoded.rows.num_rows > count // 20
    assert len({each.reason for each in decoded.rejects}) > 6
    decoded.rows.validate(full=True)
