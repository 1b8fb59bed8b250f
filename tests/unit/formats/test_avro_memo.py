"""Fields that were read before: the same result as reading them anew, in less time and in bounded memory."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from avro_samples import REPEATABLE, Json, parsed, record_of, schemas, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.formats.avro import schema as schema_module
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.memo import Memo
from frazil.formats.avro.schema import MOST_TEXT, parse_schema
from frazil.formats.avro.shape import MAX_COLUMNS, MAX_NESTING
from tests.sampling import examples

Everything = tuple[object, ...]


def read(schema: Json) -> Everything:
    avro = parse_schema(text_of(schema))
    return avro.text, avro.root, avro.named, avro.ignored, map_schema(avro)


def read_anew(schema: Json) -> Everything:
    with patch.dict(schema_module._FIELDS, clear=True), patch.object(schema_module, "_uses_names", lambda _: True):
        return read(schema)


def nested(levels: int, innermost: Json) -> Json:
    inner = innermost
    for level in range(levels):
        inner = {"type": "record", "name": f"N{level}", "fields": [{"name": "f0", "type": inner}]}
    return inner


@settings(REPEATABLE, max_examples=examples(60, 5000))
@given(st.lists(schemas(recursive=True), min_size=1, max_size=3), st.integers(0, 3))
def test_fields_read_before_are_the_same_as_fields_read_anew(versions: list[Json], levels: int) -> None:
    wanted = [versions[0], *versions, nested(levels, versions[-1])]

    assert [read(each) for each in wanted] == [read_anew(each) for each in wanted]


def test_a_field_of_two_versions_is_read_once() -> None:
    first, second = record_of(["null", "int"]), record_of(["null", "int"], "string")

    (before,), (after, _) = map_schema(parsed(first)).columns, map_schema(parsed(second)).columns

    assert after is before


def test_a_name_is_resolved_in_each_schema_anew() -> None:
    uses = {"type": "record", "name": "Row", "fields": [{"name": "side", "type": ["null", "Side"]}]}
    sides: list[Json] = [
        {"type": "enum", "name": "Side", "symbols": ["BUY"]},
        {"type": "fixed", "name": "Side", "size": 4},
    ]

    types = [str(map_schema(parse_schema(text_of(uses), [text_of(side)])).columns[0].type) for side in sides]

    assert types == ["string", "fixed(4)"]


def test_a_field_that_had_no_room_is_read_anew() -> None:
    last = {"name": f"f{MAX_COLUMNS + 5}", "type": "long"}
    wide = {"type": "record", "name": "Wide", "fields": [*record_of(*["int"] * (MAX_COLUMNS + 5))["fields"], last]}
    assert map_schema(parsed(wide)).findings

    (column,) = map_schema(parsed({"type": "record", "name": "Row", "fields": [last]})).columns

    assert str(column.type) == "long"


@pytest.mark.parametrize("leaf", ["duration", "uuid", "timestamp-nanos", "no-such-type"])
def test_a_note_is_made_for_each_version(leaf: str) -> None:
    base: dict[str, Json] = {"duration": {"type": "fixed", "name": "D", "size": 12}, "uuid": {"type": "string"}}
    field = {**base.get(leaf, {"type": "long"}), "logicalType": leaf}

    first, second = (map_schema(parsed(record_of(field, "int"))).notes for _ in range(2))

    assert first == second != ()


def test_limits_count_fields_read_before() -> None:
    """The same field is at the top, where there is room, and where there is none."""
    deep = {"type": "array", "items": {"type": "array", "items": "int"}}
    wide = {**record_of(*["int"] * (MAX_COLUMNS + 1)), "name": "Wide"}

    for schema in (record_of(deep), nested(MAX_NESTING - 1, record_of(deep)), record_of("int"), wide):
        assert read(schema) == read_anew(schema)
    assert map_schema(parsed(nested(MAX_NESTING - 1, record_of(deep)))).findings
    assert map_schema(parsed(wide)).findings


def test_the_memo_is_bounded() -> None:
    memo: Memo[list[int], int] = Memo(most=2)
    keys = [[0], [1], [2]]

    for key in keys:
        memo.put(key, key[0])

    assert [memo.get(key) for key in keys] == [None, None, 2]
    assert memo.get([2]) is None  # equal, and another object


def test_fields_with_long_texts_are_not_kept() -> None:
    before = len(schema_module._FIELDS)

    parse_schema(
        text_of({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "doc": "x" * MOST_TEXT}]})
    )

    assert len(schema_module._FIELDS) == before
