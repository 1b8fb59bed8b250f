"""Fields that were read before: the same result as reading them anew, in less time and in bounded memory."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from avro_samples import ANNOTATED, REPEATABLE, Json, parsed, record_of, schemas, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.formats.avro import schema as schema_module
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.memo import Memo
from frazil.formats.avro.schema import MOST_TEXT, parse_schema
from frazil.formats.avro.shape import expand
from frazil.formats.limits import MAX_COLUMNS, MAX_NESTING
from frazil.model.errors import IncompatibleSchemaError
from tests.sampling import examples

Everything = tuple[object, ...]


def read(schema: Json, *references: Json) -> Everything:
    try:
        avro = parse_schema(text_of(schema), map(text_of, references))
    except IncompatibleSchemaError as refused:
        return (str(refused),)
    return avro.text, avro.root, list(avro.named.items()), avro.ignored, map_schema(avro), expand(avro)


def read_anew(schema: Json, *references: Json) -> Everything:
    with patch.dict(schema_module._FIELDS, clear=True), patch.object(schema_module, "MOST_TEXT", 0):
        return read(schema, *references)


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


NAMES = ("X", "Y", "Z", "a.X")
ABOUT: list[Json] = [{}, {}, {"namespace": "a"}, {"namespace": ""}, {"aliases": ["V"]}]
BODIES: list[Json] = [
    {"type": "enum", "symbols": ["A"]},
    {"type": "enum", "symbols": ["B", "C"]},
    {"type": "fixed", "size": 3},
    {"type": "fixed", "size": 12, "logicalType": "duration"},
]
LEAVES = st.sampled_from(["int", "null", "Row", *NAMES, *ANNOTATED])
DEFINITIONS = st.builds(
    lambda name, about, body: {"name": name, **about, **body},
    st.sampled_from(NAMES),
    st.sampled_from(ABOUT),
    st.sampled_from(BODIES),
)


def _larger(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(
        inner.map(lambda each: ["null", each]),
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "map", "values": each}),
        st.builds(
            lambda name, about, types: {**record_of(*types), "name": name, **about},
            st.sampled_from(NAMES),
            st.sampled_from(ABOUT),
            st.lists(inner, max_size=3),
        ),
    )


TYPES = st.recursive(st.one_of(LEAVES, DEFINITIONS), _larger, max_leaves=5)


@st.composite
def versions_with_names(draw: st.DrawFn) -> list[tuple[Json, ...]]:
    """Schemas with references, made from few types, so that texts and names are met again elsewhere."""
    pool = draw(st.lists(TYPES, min_size=1, max_size=6))
    fields = st.lists(st.sampled_from(pool), min_size=1, max_size=4)

    def version() -> tuple[Json, ...]:
        references = [{**record_of(*draw(fields)), "name": "Ref"}] if draw(st.booleans()) else []
        return {**record_of(*draw(fields)), **draw(st.sampled_from(ABOUT)), "name": "Row"}, *references

    return [version() for _ in range(4)]


@settings(REPEATABLE, max_examples=examples(100, 10_000))
@given(versions_with_names())
def test_named_types_read_before_are_the_same_as_those_read_anew(versions: list[tuple[Json, ...]]) -> None:
    assert [read(*each) for each in versions] == [read_anew(*each) for each in versions]


ENUM: Json = {"type": "enum", "name": "X", "symbols": ["A"]}
INNER: Json = {"type": "record", "name": "Y", "fields": [{"name": "x", "type": ENUM}]}


@pytest.mark.parametrize(
    "versions",
    [
        [(record_of(ENUM, "X"),), (record_of("string", "X"),)],
        [(record_of(ENUM, "X"),), (record_of({**ENUM, "symbols": ["B"]}, "X"),)],
        [(record_of(ENUM, "X"),), (record_of({**ENUM, "symbols": ["B"]}, ENUM),)],
        [(record_of(INNER),), (record_of("X", "Y"), {**record_of(INNER), "name": "Ref"})],
        [({**record_of(ENUM, "X"), "namespace": "a"},), ({**record_of(ENUM, "X"), "namespace": "b"},)],
        [(record_of({**INNER, "fields": [{"name": "row", "type": ["null", "Row"]}]}, ["null", "Y"]),)] * 2,
    ],
    ids=["undefined", "otherwise", "twice", "used before its definition", "namespace", "recursive"],
)
def test_what_a_name_means_is_part_of_a_fields_text(versions: list[tuple[Json, ...]]) -> None:
    assert [read(*each) for each in versions] == [read_anew(*each) for each in versions]


def test_a_field_of_two_versions_is_read_once() -> None:
    types: list[Json] = [["null", "int"], INNER, ["null", "X"], {"type": "string", "logicalType": "uuid"}]

    before, after = map_schema(parsed(record_of(*types))).columns, map_schema(parsed(record_of(*types, "int"))).columns

    assert all(one is other for one, other in zip(before, after[:-1], strict=True))


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
