"""Which columns a writer schema becomes, and which schemas become none."""

from __future__ import annotations

import pytest
from avro_samples import Json, parsed, record_of, text_of

from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.formats.limits import MAX_COLUMNS, MAX_NESTING
from frazil.model.schemas import SchemaFinding


def logical(base: str, name: str, **more: Json) -> Json:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Json) -> Json:
    return {"type": "fixed", "name": "F", "size": size, **more}


def record(name: str, *types: Json) -> Json:
    return {**record_of(*types), "name": name}


TABLE = [
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "long"),
    ("float", "float"),
    ("double", "double"),
    ("string", "string"),
    ("bytes", "binary"),
    (fixed(3), "fixed(3)"),
    (logical("bytes", "decimal", precision=9, scale=2), "decimal(9, 2)"),
    (logical("bytes", "decimal"), "binary"),
    (fixed(8, logicalType="decimal", precision=18), "decimal(18, 0)"),
    (logical("string", "uuid"), "string"),
    (fixed(16, logicalType="uuid"), "uuid"),
    (logical("int", "date"), "date"),
    (logical("int", "time-millis"), "time"),
    (logical("long", "time-micros"), "time"),
    (logical("long", "timestamp-millis"), "timestamptz"),
    (logical("long", "timestamp-micros"), "timestamptz"),
    (logical("long", "timestamp-nanos"), "timestamptz"),
    (logical("long", "local-timestamp-millis"), "timestamp"),
    (logical("long", "local-timestamp-micros"), "timestamp"),
    (logical("long", "local-timestamp-nanos"), "timestamp"),
    (fixed(12, logicalType="duration"), "fixed(12)"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
    ({"type": "array", "items": ["null", "int"]}, "list<int>"),
    ({"type": "map", "values": "long"}, "map<string, long>"),
    (record("N", "int", "string"), "struct<f0: int, f1: string>"),
    (["null", "int"], "int"),
    (["int", "null"], "int"),
    (["int"], "int"),
    (["null", "int", "string"], "struct<int: int, string: string>"),
    (["int", {"type": "array", "items": "int"}], "struct<int: int, array: list<int>>"),
    (["null", record("a.X", "int"), fixed(2)], "struct<X: struct<f0: int>, F: fixed(2)>"),
    (["null", record("a.X", "int"), record("b.x", "long")], "struct<a_X: struct<f0: int>, b_x: struct<f0: long>>"),
]


@pytest.mark.parametrize(("avro", "column"), TABLE, ids=[column for _, column in TABLE])
def test_type_becomes_column(avro: Json, column: str) -> None:
    mapped = map_schema(parsed(record_of(avro)))

    assert (str(mapped.columns[0].type), mapped.findings) == (column, ())


def test_recursion_ends_in_json_text() -> None:
    mapped = map_schema(parsed(record("Row", "int", ["null", "Row"])))

    levels = "string"
    for _ in range(2):
        levels = f"struct<f0: int, f1: {levels}>"
    assert [str(column.type) for column in mapped.columns] == ["int", levels]


def test_aliases_and_docs_are_carried_over() -> None:
    field = {"name": "a", "type": "int", "aliases": ["old"], "doc": "What it is."}

    (column,) = map_schema(parsed({"type": "record", "name": "Row", "fields": [field]})).columns

    assert (column.aliases, column.doc) == (("old",), "What it is.")


def test_what_is_no_record_becomes_the_column_value() -> None:
    mapped = map_schema(parse_schema('"long"'))

    assert [(column.name, str(column.type)) for column in mapped.columns] == [("value", "long")]


REFUSED = [
    ({"type": "array", "items": fixed(0)}, "a fixed of 0 bytes", "f0[]"),
    (logical("bytes", "decimal", precision=39), "a decimal of 39 digits, more than 38", "f0"),
    (record("Z", "Z"), "Z always contains itself, so no record of it ever ends", "f0.f0"),
]


@pytest.mark.parametrize(("avro", "problem", "path"), REFUSED, ids=[problem for _, problem, _ in REFUSED])
def test_what_no_table_can_hold_is_a_finding(avro: Json, problem: str, path: str) -> None:
    mapped = map_schema(parsed(record_of(avro)))

    assert mapped.findings == (SchemaFinding(path, problem),)


EMPTY = record("E")
WITHOUT_DATA = [
    "null",
    ["null"],
    EMPTY,
    [EMPTY],
    record("Outer", "null", EMPTY, ["null"]),
    [record("Outer", "null", EMPTY)],
]


@pytest.mark.parametrize("avro", WITHOUT_DATA, ids=map(str, range(len(WITHOUT_DATA))))
def test_a_field_without_data_is_left_out_with_a_note(avro: Json) -> None:
    mapped = map_schema(parsed(record_of(avro, "int")))

    assert ([column.name for column in mapped.columns], mapped.findings) == (["f1"], ())
    assert SchemaFinding("f0", "left out: the type holds no data") in mapped.notes


PRESENT = "struct<present: boolean>"
PRESENCES = [
    (["null", EMPTY], PRESENT),
    ([EMPTY, "int"], f"struct<E: {PRESENT}, int: int>"),
    (["null", EMPTY, record("A", "int")], f"struct<E: {PRESENT}, A: struct<f0: int>>"),
    ({"type": "array", "items": "null"}, f"list<{PRESENT}>"),
    ({"type": "map", "values": EMPTY}, f"map<string, {PRESENT}>"),
]


@pytest.mark.parametrize(("avro", "column"), PRESENCES, ids=[column for _, column in PRESENCES])
def test_of_a_value_without_data_its_presence_is_kept(avro: Json, column: str) -> None:
    mapped = map_schema(parsed(record_of(avro)))

    assert ([str(each.type) for each in mapped.columns], mapped.findings, mapped.notes) == ([column], (), ())


def test_a_schema_without_any_data_has_no_columns() -> None:
    assert map_schema(parsed(record("Row"))).columns == ()
    assert map_schema(parse_schema('"null"')).columns == ()


NOTED = [
    (logical("long", "timestamp-nanos"), "timestamp-nanos: digits below the microsecond are cut, and counted"),
    (logical("string", "uuid"), "uuid on a string: text, since Avro does not make writers check it"),
    (logical("int", "no-such-type"), "the logical type no-such-type is ignored: not valid on int, or unknown"),
    (logical("string", "date"), "the logical type date is ignored: not valid on string, or unknown"),
    (
        logical("bytes", "decimal", precision=2, scale=3),
        "the logical type decimal is ignored: not valid on bytes, or unknown",
    ),
    (
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        "duration: the 12 bytes as they are; no column type holds months, days and milliseconds",
    ),
]


@pytest.mark.parametrize(("avro", "note"), NOTED, ids=[note.partition(":")[0] for _, note in NOTED])
def test_what_a_column_holds_less_exactly_is_noted(avro: Json, note: str) -> None:
    assert map_schema(parsed(record_of(avro))).notes == (SchemaFinding("f0", note),)


def test_recursion_is_noted_where_it_becomes_text() -> None:
    mapped = map_schema(parsed(record("Row", "int", ["null", "Row"])))

    assert mapped.notes == (SchemaFinding("f1.f1.f1", "Row inside itself: JSON text from the level 4 on"),)


def test_two_branches_that_would_be_one_column_are_a_finding() -> None:
    mapped = map_schema(parsed(record_of([record("a.b_c", "int"), record("a_b.c", "int"), record("x.c", "int"),
                                          record("x.b_c", "int")])))  # fmt: skip

    assert mapped.findings == (
        SchemaFinding("f0.a_b_c", "the branches a.b_c and a_b.c would both be the column a_b_c"),
    )


def test_names_of_any_script_and_namespaces_with_a_dash_are_names() -> None:
    branches = [record("eu-west.Größe", "int"), record("us-east.Größe", "long")]
    schema = {"type": "record", "name": "R", "namespace": "my-team.v1", "fields": [
        {"name": "größe", "type": branches}, {"name": "数量", "type": "long"},
    ]}  # fmt: skip

    mapped = map_schema(parsed(schema))

    assert mapped.findings == ()
    assert [(column.name, str(column.type)) for column in mapped.columns] == [
        ("größe", "struct<eu_west_Größe: struct<f0: int>, us_east_Größe: struct<f0: long>>"),
        ("数量", "long"),
    ]


def test_names_that_differ_only_in_case_are_findings_at_every_level() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": n, "type": "int"} for n in ("x", "X")]}
    fields = [{"name": "id", "type": "int"}, {"name": "ID", "type": {"type": "array", "items": inner}}]

    mapped = map_schema(parsed({"type": "record", "name": "Row", "fields": fields}))

    assert mapped.findings == (
        SchemaFinding("ID[].X", "x and X differ only in case"),
        SchemaFinding("ID", "id and ID differ only in case"),
    )


def nested(levels: int) -> Json:
    avro: Json = "long"
    for level in range(levels):
        avro = record(f"R{level}", ["null", avro])
    return avro


def test_nesting_ends_where_arrow_ends() -> None:
    deepest, too_deep = map_schema(parsed(nested(MAX_NESTING))), map_schema(parsed(nested(MAX_NESTING + 1)))

    assert deepest.findings == ()
    assert [finding.problem for finding in too_deep.findings] == [f"nested deeper than {MAX_NESTING} levels"]


def test_a_schema_that_doubles_with_every_line_is_refused_quickly() -> None:
    references = [record_text("R0", "long", "long")]
    references += [record_text(f"R{i}", f"R{i - 1}", f"R{i - 1}") for i in range(1, 40)]

    mapped = map_schema(parse_schema('"R39"', references))

    assert [finding.problem for finding in mapped.findings] == [f"more than {MAX_COLUMNS} columns"]


def record_text(name: str, *types: str) -> str:
    return text_of(record(name, *types))
