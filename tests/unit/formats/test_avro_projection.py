"""Rows with some of a schema's columns: the same values as those of all columns, and the same rejects."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from avro_samples import REPEATABLE, Json, Sampler, broken, parsed, rows_of, schemas
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from frazil.formats.avro.mapping import columns_of
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.projection import only
from frazil.formats.avro.shape import shape_of
from frazil.model.columns import Column, Struct, walk
from frazil.records import binary
from tests.sampling import examples


def record(name: str, **fields: Json) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}


INNER = record("Inner", a="int", b="string", c=["null", record("Innermost", d="long")])
OUTER = record("Outer", x=["null", INNER], y={"type": "array", "items": "Inner"}, z="string", u=["int", "string"])


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (["z"], "z: string"),
        (["x.b", "x.c"], "x: struct<b: string, c: struct<d: long>>"),
        (["x.c.d", "z"], "x: struct<c: struct<d: long>>, z: string"),
        (["x.none", "none", "y.a", "z.a", "u.int"], ""),
        (["u"], "u: struct<int: int, string: string>"),
    ],
)
def test_columns_are_chosen_by_path(wanted: list[str], left: str) -> None:
    shape, _ = shape_of(parsed(OUTER))

    assert ", ".join(f"{each.name}: {each.type}" for each in columns_of(only(shape, wanted))) == left


@settings(REPEATABLE, max_examples=examples(100, 3000))
@given(schemas(), st.integers(0, 2**32 - 1))
def test_values_and_rejects_are_those_of_all_columns(schema: Json, seed: int) -> None:
    avro, rng = parsed(schema), random.Random(seed)
    shape, findings = shape_of(avro)
    paths = [path for path, _ in walk(columns_of(shape)) if "[" not in path and "{" not in path]
    assume(not findings and paths)
    wanted = rng.sample(paths, rng.randint(1, len(paths)))
    whole_payloads = [Sampler(avro, rng).payload() for _ in range(6)]
    payloads = binary([*whole_payloads, *(broken(each, rng) for each in whole_payloads)])
    columns = columns_of(only(shape, wanted))

    whole = open_decoder(avro).decode(payloads)
    for engine in (None, "fallback"):
        part = open_decoder(avro, engine, wanted).decode(payloads)

        assert part.rejects == whole.rejects
        assert rows_of(part.rows) == rows_of(chosen(whole.rows, columns))
        part.rows.validate(full=True)


def chosen(rows: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    arrays = [part_of(rows.column(each.name), each) for each in columns]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=[each.name for each in columns])


def part_of(array: pa.Array, column: Column) -> pa.Array:
    if not (isinstance(column.type, Struct) and pa.types.is_struct(array.type)):
        return array
    if len(column.type.columns) == array.type.num_fields and column.type.is_union:
        return array
    children = [part_of(array.field(each.name), each) for each in column.type.columns]
    names = [each.name for each in column.type.columns]
    return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())


def test_the_native_decoder_skips_values_of_every_type(native: None) -> None:
    del native

    assert open_decoder(parsed(OUTER), "native", ["x.c"]).schema.names == ["x"]


ENDLESS, ZERO = b"\x80", b"\x00"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("int", b"\x01" + b"\x02" * 9),
        ("int", b"\xff\xff\xff\xff\x0f"),  # the least int there is
        ("int", b"\xff\xff\xff\xff\x1f"),  # one bit more
        ("int", ENDLESS * 4 + ZERO),
        ("int", ENDLESS * 5 + ZERO),  # a zero of six bytes
        ("long", ENDLESS * 7 + b"\x01"),
        ("long", ENDLESS * 8 + b"\x01"),
        ("long", b"\xff" * 9 + b"\x01"),  # the least long there is
        ("long", b"\xff" * 9 + b"\x02"),  # one bit more
        ("long", ENDLESS * 10 + ZERO),
        ("long", b"\xff" * 3),  # the payload ends inside
        ("boolean", b"\x02"),
        ("string", b"\x04ab"),
        ("string", "\x04\u00e9".encode()),
        ("string", b"\x04\xc3("),  # no UTF-8
        ("string", b"\x03ab"),  # a negative length
        ("string", b"\x80\x01" + b"a" * 64),
        ("string", b"\x80\x01" + b"a" * 60),  # too short
        ("bytes", b"\x04\xc3("),
        ("double", b"\x00" * 7),
        (["null", "long"], b"\x00"),
        (["null", "long"], b"\x02\x04"),
        (["long", "null"], b"\x02"),
        (["long", "null"], b"\x00\x04"),
        (["null", "long"], b"\x04"),  # no such branch
        (["null", "long"], b"\x80\x00"),  # branch 0, in two bytes
        (["null", "long"], b""),
    ],
)
@pytest.mark.parametrize("after", [b"\x02", b"\x02" * 12])
def test_a_skipped_value_is_judged_as_the_rules_say(native: None, kind: Json, payload: bytes, after: bytes) -> None:
    """With few and with many bytes behind it: numbers are read eight bytes at a time where there are as many."""
    del native
    kept = {f"k{index}": "long" for index in range(len(after))}
    schema, payloads = parsed(record("R", skipped=kind, **kept)), binary([payload + after])

    native_rows = open_decoder(schema, "native", ["k0"]).decode(payloads)
    by_the_rules = open_decoder(schema, "fallback", ["k0"]).decode(payloads)

    assert native_rows.rejects == by_the_rules.rejects
    assert rows_of(native_rows.rows) == rows_of(by_the_rules.rows)
