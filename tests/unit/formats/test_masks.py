"""Masks of Arrow arrays: each treatment of each type, in structs, lists and maps, and of slices."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.arrow import array_of, arrow_schema
from frazil.formats.avro import format as avro_format
from frazil.formats.decoder import Decoded
from frazil.formats.mapped import Mapped
from frazil.formats.masks.arrays import MaskedDecoder
from frazil.formats.masks.columns import Mask, mask_columns
from frazil.formats.masks.hashes import canonical, hashed, hashed_in_python
from frazil.formats.native import native_available
from frazil.formats.open import map_schema, open_decoder
from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.columns import Decimal as DecimalType
from frazil.model.policies import KEPT, Policies, Policy
from frazil.model.schemas import RegisteredSchema
from frazil.model.secret import NamedKey, Secret
from frazil.model.spec import FormatSettings

KEY = bytes(range(32))


def _text(key: bytes) -> Secret:
    return Secret(base64.b64encode(key).decode())


NAMED = NamedKey("k", _text(KEY))
DAY = dt.date(2026, 11, 23)
VALUES: list[tuple[ColumnType, object, bytes]] = [
    (Scalar("string"), "é", "é".encode()),
    (Scalar("binary"), b"\xff\0", b"\xff\0"),
    (Fixed(2), b"\xff\0", b"\xff\0"),
    (Scalar("uuid"), uuid.UUID(int=7).bytes, uuid.UUID(int=7).bytes),
    (Scalar("boolean"), True, b"true"),
    (Scalar("int"), -12, b"-12"),
    (Scalar("long"), -12, b"-12"),
    (DecimalType(5, 2), Decimal("1.50"), b"1.50"),
    (DecimalType(9, 2), Decimal("1.50"), b"1.50"),
    (Scalar("date"), DAY, str((DAY - dt.date(1970, 1, 1)).days).encode()),
    (Scalar("time"), 5, b"5"),
    (Scalar("timestamptz"), 1_500_000, b"1500000"),
]


class _Ready:
    """A decoder whose rows are there already."""

    def __init__(self, columns: tuple[Column, ...], rows: pa.RecordBatch) -> None:
        self.schema = arrow_schema(columns)
        self._rows = rows

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Decoded:
        del payloads, skip
        return Decoded(self._rows, ())


def masked(kind: ColumnType, values: list[Any], policies: dict[str, Policy], *, start: int = 0) -> list[Any]:
    columns = (Column("a", kind), Column("other", Scalar("long")))
    array = array_of(values, kind)
    rows = pa.RecordBatch.from_arrays([array, pa.nulls(len(values), pa.int64())], schema=arrow_schema(columns))
    found = mask_columns(Mapped(columns, (), record=""), Policies(tuple(policies.items())))
    assert not found.findings
    decoded = MaskedDecoder(_Ready(columns, rows.slice(start)), found, NAMED).decode(pa.array([], pa.large_binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(found.columns)
    return list(decoded.rows.column("a").to_pylist())


def digest(content: bytes) -> str:
    return hmac.new(KEY, content, "sha256").hexdigest()[:32]


def test_a_decoder_that_is_opened_again_hashes_with_the_key_that_is_given() -> None:
    """A key may have another value under the same id, which compares equal."""
    text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
    other = bytes(reversed(KEY))
    hashes = []
    for key in (KEY, other):
        settings = FormatSettings(
            policies=Policies((("a", Policy("hash")),)), hash_key=replace(NAMED, secret=_text(key))
        )
        decoder = open_decoder(RegisteredSchema(1, "AVRO", text), settings)
        hashes += decoder.decode(pa.array([b"\x02x"], pa.large_binary())).rows.column("a").to_pylist()

    assert hashes == [hmac.new(key, b"x", "sha256").hexdigest()[:32] for key in (KEY, other)]


def test_a_schema_is_parsed_once_for_all_tasks_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = RegisteredSchema(1, "AVRO", '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "long"}]}')
    first = open_decoder(schema)
    monkeypatch.setattr(avro_format, "parse_schema", None)

    assert open_decoder(replace(schema)) is first


@pytest.mark.parametrize(("kind", "value", "content"), VALUES, ids=str)
def test_a_hash_is_that_of_bytes_which_no_wider_type_changes(kind: ColumnType, value: object, content: bytes) -> None:
    assert masked(kind, [value, None, value], {"a": Policy("hash")}, start=1) == [None, digest(content)]


@pytest.mark.parametrize(("kind", "value", "content"), VALUES, ids=str)
def test_what_is_redacted_is_null_or_a_fixed_text(kind: ColumnType, value: object, content: bytes) -> None:
    del content
    expected = "[redacted]" if kind == Scalar("string") else None
    assert masked(kind, [value, None], {"a": Policy("redact")}) == [expected, None]


def test_a_beginning_is_of_characters_or_of_bytes() -> None:
    assert masked(Scalar("string"), ["éàü", "é", None], {"a": Policy("truncate", 2)}) == ["éà", "é", None]
    assert masked(Scalar("binary"), [b"abc", b"a", None], {"a": Policy("truncate", 2)}) == [b"ab", b"a", None]


def test_values_in_lists_structs_and_maps_are_masked_also_of_a_slice() -> None:
    kind = ListOf(Struct((Column("x", Scalar("string")), Column("y", Scalar("string")), Column("z", Scalar("long")))))
    rows = [[{"x": "no", "y": "no", "z": 0}], None, [], [{"x": "v", "y": "w", "z": 1}, None]]
    policies = {"a[].x": Policy("hash"), "a[].y": Policy("drop")}

    assert masked(kind, rows, policies, start=1) == [None, [], [{"x": digest(b"v"), "z": 1}, None]]
    in_maps = MapOf(Scalar("string"), ListOf(Scalar("string")))
    given_maps = [[("k", ["no"])], None, [("k", ["v", None]), ("l", None)]]
    expected = [None, [("k", [digest(b"v"), None]), ("l", None)]]
    assert masked(in_maps, given_maps, {"a{}": Policy("hash")}, start=1) == expected


def test_a_policy_of_a_struct_is_for_each_value_in_it_and_the_longer_path_counts() -> None:
    kind = Struct((Column("x", Scalar("string")), Column("y", Scalar("string")), Column("z", Scalar("long"))))
    policies = {"a": Policy("redact"), "a.y": Policy("none")}

    assert masked(kind, [{"x": "v", "y": "w", "z": 1}, None], policies) == [
        {"x": "[redacted]", "y": "w", "z": None},
        None,
    ]


def test_a_tag_that_keeps_a_record_keeps_nothing_that_another_tag_masks_in_it() -> None:
    inner = Struct((Column("x", Scalar("string"), tags=("PII",)), Column("y", Scalar("string"))))
    columns = (Column("a", inner, tags=("PUBLIC",)),)
    policies = Policies(tags=(("PII", Policy("redact")), ("PUBLIC", KEPT)))

    found = mask_columns(Mapped(columns, (), record=""), policies)

    assert found.masks["a"] == Mask(fields={"x": Mask(Policy("redact")), "y": None})
    assert mask_columns(Mapped(columns, (), record=""), replace(policies, columns=(("a", KEPT),))).masks["a"] is None


def test_json_text_of_protobuf_messages_needs_a_policy_of_its_own() -> None:
    definition = """
    syntax = "proto3";
    import "google/protobuf/struct.proto";
    message P { string ssn = 1; P boss = 2; google.protobuf.Struct more = 3; repeated google.protobuf.Value any = 4; }
    """
    schema = RegisteredSchema(id=1, format="PROTOBUF", text=definition)
    mapped = map_schema(schema, FormatSettings(policies=Policies((("ssn", Policy("drop")),))))

    refused = {finding.path for finding in mapped.findings}

    assert {"more", "any", "boss.more", "boss.any"} <= refused
    assert any(path.startswith("boss.boss") for path in refused - {"boss.boss.more", "boss.boss.any"})


needs_native = pytest.mark.skipif(
    not native_available(), reason="the native decoder is not built here (make setup builds it)"
)


@needs_native
@given(st.lists(st.none() | st.binary(max_size=200), max_size=20), st.binary(max_size=100), st.integers(0, 20))
def test_the_native_hash_is_that_of_the_standard_library(values: list[bytes | None], key: bytes, start: int) -> None:
    import frazil_native  # noqa: PLC0415 - it may not be built

    array = pa.array(values, pa.large_binary()).slice(start)

    assert frazil_native.keyed_hashes(array, key).to_pylist() == hashed_in_python(array, key).to_pylist()


@needs_native
@pytest.mark.parametrize("count", [1, 2, 3, 15, 16, 17, 18, 19, 32, 100, 256, 257, 600])
def test_values_that_are_hashed_at_once_have_the_hashes_of_each(count: int) -> None:
    import frazil_native  # noqa: PLC0415 - it may not be built

    values = [bytes([number % 256]) * (number * 37 % 60) for number in range(count)]
    array = pa.array([value for value in values for value in (value, None)], pa.large_binary())

    assert frazil_native.keyed_hashes(array, KEY).to_pylist() == hashed_in_python(array, KEY).to_pylist()


@pytest.mark.parametrize("length", [0, 54, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_the_ends_of_blocks_are_padded_right(length: int) -> None:
    array = pa.array([b"x" * length], pa.large_binary())

    assert hashed(array, KEY).to_pylist() == [digest(b"x" * length)]
    assert canonical(array).equals(array)


def _spelled(*, tags: tuple[str, ...] = ()) -> Mapped:
    """A union whose branch `n1_R` would be `R` without the other one."""
    inner = Struct((Column("x", Scalar("string"), tags=tags), Column("y", Scalar("string"))))
    branches = tuple(Column(f"n{n}_R", inner, spellings=(("R", f"n{n}_R"),)) for n in (1, 2))
    return Mapped((Column("u", Struct(branches, is_union=True)),), (), record="")


@pytest.mark.parametrize(
    ("policies", "first", "second"),
    [
        ({"u.R.x": "redact"}, "redact", "redact"),
        ({"u.n1_R.x": "redact"}, "redact", ""),
        ({"u.n1_R.x": "hash", "u.R.x": "redact"}, "hash", "redact"),
        ({"u.n1_R.x": "none", "u.R.x": "redact"}, "", "redact"),
        ({"u": "hash", "u.R.x": "none"}, "hash", "hash"),
        ({"u": "hash", "u.R.x": "redact"}, "redact", "redact"),
        ({"u": "redact", "u.R.x": "hash"}, "redact", "redact"),
        ({"u": "none", "u.R.x": "hash"}, "hash", "hash"),
    ],
)
def test_a_policy_by_another_spelling_of_a_branch_hides_what_no_policy_of_its_own_decides(
    policies: dict[str, str], first: str, second: str
) -> None:
    found = mask_columns(_spelled(), Policies(tuple((path, Policy(what)) for path, what in policies.items())))

    masks = {path: column.mask for path, column in walk(found.columns)}
    assert (found.findings, found.unmatched) == ((), ())
    assert (masks["u.n1_R.x"], masks["u.n2_R.x"]) == (first, second)


def test_a_policy_by_another_spelling_of_a_branch_does_not_weaken_a_tag() -> None:
    tagged = Policies((("u.R.x", Policy("truncate", 2)),), (("PII", Policy("redact")),))
    kept = Policies((("u.R.x", KEPT),), (("PII", Policy("redact")),))

    for policies in (tagged, kept):
        masks = {path: column.mask for path, column in walk(mask_columns(_spelled(tags=("PII",)), policies).columns)}
        assert (masks["u.n1_R.x"], masks["u.n2_R.x"]) == ("redact", "redact")
