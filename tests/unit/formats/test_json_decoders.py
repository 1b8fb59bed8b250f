"""Two decoders of JSON, one answer: rows, types and rejects are the same, and every payload is accounted for."""

from __future__ import annotations

import json
import random

import pytest
from avro_samples import REPEATABLE, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from json_samples import Json, Sampler, broken, fields, row_of, schemas
from pyiceberg.io.pyarrow import schema_to_pyarrow

from frazil.adapters.iceberg.types import to_schema
from frazil.formats.arrow import arrow_schema
from frazil.formats.json_values.open import open_decoder
from frazil.formats.json_values.shape import columns_of
from frazil.formats.native import Engine
from frazil.records import binary
from tests.sampling import examples

SEEDS = st.integers(0, 2**32)


def payloads(schema: Json, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Some that are whole, and some made from these that mostly are not."""
    rng = random.Random(seed)
    whole = [Sampler(rng).payload(schema) for _ in range(6)]
    return whole, [broken(payload, rng) for payload in whole for _ in range(5)]


@pytest.mark.usefixtures("native")
@settings(REPEATABLE, max_examples=examples(150, 5000))
@given(schemas(), SEEDS)
def test_both_decoders_agree_on_all_payloads(schema: Json, seed: int) -> None:
    row = row_of(schema)
    if not columns_of(row):
        return
    native, fallback = open_decoder(row, "native"), open_decoder(row, "fallback")
    whole, mixed = payloads(schema, seed)

    for given_payloads in (whole, mixed, whole + mixed):
        ours, theirs = native.decode(binary(given_payloads)), fallback.decode(binary(given_payloads))

        assert ours.rejects == theirs.rejects
        assert (ours.truncated_nanos, ours.undeclared) == (theirs.truncated_nanos, theirs.undeclared)
        assert rows_of(ours.rows) == rows_of(theirs.rows)
        assert ours.rows.schema.equals(theirs.rows.schema, check_metadata=True)
        ours.rows.validate(full=True)


@settings(REPEATABLE, max_examples=examples(60, 2000))
@given(schemas(), SEEDS)
def test_every_whole_payload_is_a_row(schema: Json, seed: int) -> None:
    row = row_of(schema)
    whole, mixed = payloads(schema, seed)

    for engine in ("fallback", None):
        decoder = open_decoder(row, engine)
        assert decoder.decode(binary(whole)).rejects == ()
        decoded = decoder.decode(binary(mixed))
        assert decoded.rows.num_rows == len(mixed) - len(decoded.rejects)
        assert decoded.rows.schema.equals(arrow_schema(columns_of(row)), check_metadata=True)


@settings(REPEATABLE, max_examples=examples(100, 2000))
@given(schemas(), SEEDS)
def test_only_what_the_standard_library_reads_becomes_a_row(schema: Json, seed: int) -> None:
    """The library accepts more: NaN, duplicate keys, halves of surrogate pairs, and any type."""
    _, mixed = payloads(schema, seed)
    decoded = open_decoder(row_of(schema)).decode(binary(mixed))
    rejected = {reject.index for reject in decoded.rejects}

    for index, payload in enumerate(mixed):
        if index not in rejected:
            json.loads(payload.decode())
    for reject in decoded.rejects:
        if reject.reason in ("truncated", "bad_json", "trailing_bytes"):
            with pytest.raises(ValueError, match=r".*"):
                json.loads(mixed[reject.index].decode(), parse_constant=refuse_constant)


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def test_decoded_columns_have_the_types_of_the_tables_files() -> None:
    """A column of another type would be copied for each chunk and each writer schema."""
    schema = fields(a={"type": "array", "items": {"type": "string"}}, m={"type": "object", "additionalProperties": {}})
    row = row_of(schema)
    stored = schema_to_pyarrow(to_schema(columns_of(row)))

    for engine in ("fallback", None):
        rows = open_decoder(row, engine).decode(binary([])).rows

        assert [str(each).replace(" not null", "") for each in rows.schema.types] == [
            str(each).replace(" not null", "").replace("element", "item") for each in stored.types
        ]


WIDE = fields(
    id={"type": "integer"},
    name={"type": "string"},
    at={"type": "string", "format": "date-time"},
    price={"type": "number"},
    lines={"type": "array", "items": fields(n={"type": "integer"}, note={"type": "string"})},
    by={"type": "object", "additionalProperties": {"type": "number"}},
    any={},
)


@pytest.mark.parametrize(("engine", "count"), [("native", 100_000), ("fallback", 3_000)])
def test_each_of_many_hostile_payloads_is_a_row_or_a_reject(
    engine: Engine, count: int, request: pytest.FixtureRequest
) -> None:
    if engine == "native":
        request.getfixturevalue("native")
    rng = random.Random(7)
    sampler = Sampler(rng)
    whole = [sampler.payload(WIDE) for _ in range(200)]
    hostile = [broken(whole[n % len(whole)], rng) for n in range(2_000)]
    given_payloads = [hostile[rng.randrange(len(hostile))] for _ in range(count)]

    decoded = open_decoder(row_of(WIDE), engine).decode(binary(given_payloads))

    assert decoded.taken == count
    indexes = [reject.index for reject in decoded.rejects]
    assert indexes == sorted(set(indexes))
    assert count // 3 < len(indexes) < count
    decoded.rows.validate(full=True)
