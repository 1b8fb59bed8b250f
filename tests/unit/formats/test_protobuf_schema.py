"""Texts of schemas: what is read, what is refused with which words, imports, and which message makes the rows."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from google.protobuf import descriptor_pb2
from protobuf_samples import message, payload, proto3, rows, text_of

from frazil.formats.limits import MAX_COLUMNS, MAX_NESTING
from frazil.formats.native import Engine
from frazil.formats.protobuf.builtin import BUILT_IN
from frazil.formats.protobuf.cursor import MOST_LEVELS
from frazil.formats.protobuf.mapping import map_schema
from frazil.formats.protobuf.parser import MOST_TEXT
from frazil.formats.protobuf.schema import ProtobufSchema, descriptor_of, parse_schema
from frazil.formats.protobuf.shape import MAX_SYMBOLS
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import Reference


def types(schema: ProtobufSchema) -> dict[str, str]:
    mapped = map_schema(schema)
    assert mapped.findings == ()
    return {column.name: str(column.type) for column in mapped.columns}


def refused(text: str, *references: Reference, of: str | None = None) -> str:
    with pytest.raises(IncompatibleSchemaError) as caught:
        parse_schema(text, references, of)
    return caught.value.what.removeprefix("the Protobuf schema cannot become columns: ").removeprefix("(record): ")


EVERYTHING = """
    // a comment
    syntax /* here, too */ = "proto3" ; ;
    package shop . orders;
    import public "google/protobuf/empty.proto";
    import weak 'nowhere.proto';
    option java_package = "a" "b";
    option (my.option).with.parts = { a: 1, b { c: [1, -2.5e3, inf] d: "x" 'y' } [e.f]: TRUE; [x/y.z] < g: 1 > };
    message message {
      option deprecated = true;
      string string = 1 [deprecated = true, (other) = -inf, json_name = "\\x41\\u00e9\\n"];
      int32 optional = 0x2; optional int32 repeated = 03; repeated .shop.orders.message.map mapped = 4;
      map < string , map.Inner > map_ = 5; map m = 6; group group_ = 7; uint32 to = 8; bool true = 9;
      message map { message Inner { int32 n = 1; } }
      message group { }
      enum E { option allow_alias = true; A = 0; B = 0 [(x) = 1]; C = -0x10; reserved 5 to 7, 9; reserved "Q"; ; }
      oneof choice { option (z) = 1; E e = 10; ; google.protobuf.Empty none = 11; }
      reserved 100 to 200, 300, 1000 to max; reserved "foo", "bar";
      extend google.protobuf.FieldOptions { int32 mine = 5000; }
    }
    extend google.protobuf.FieldOptions { optional message other = 5001; }
    service Shop { rpc Get (message) returns (stream message) { option (http) = { get: "/{id}" }; } }
"""


def test_the_whole_language_is_read() -> None:
    schema = parse_schema(EVERYTHING)

    assert types(schema) == {
        "string": "string",
        "optional": "int",
        "repeated": "int",
        "mapped": "list<struct<present: boolean>>",
        "map_": "map<string, struct<n: int>>",
        "m": "struct<present: boolean>",
        "group_": "struct<present: boolean>",
        "to": "long",
        "true": "boolean",
        "e": "string",
        "none": "struct<present: boolean>",
    }
    assert {field.name: field.number for field in schema.message.fields}["optional"] == 2
    assert schema.names == {
        (0,): "shop.orders.message",
        (0, 0): "shop.orders.message.map",
        (0, 0, 0): "shop.orders.message.map.Inner",
        (0, 1): "shop.orders.message.group",
    }


REFUSED = [
    ("", "the file has no message"),
    ('syntax = "proto3"; enum E { A = 0; }', "the file has no message"),
    ("this is no schema", "neither a .proto text nor a serialized file descriptor"),
    ("message A {", "line 1: expected a name, found 'the end of the text'"),
    ("message A {\n int32 a 1; }", "line 2: expected '=', found '1'"),
    ("message A {\n\n optional int32 a = 1.5; }", "line 3: expected an integer, found '1.5'"),
    ("message A { optional int32 a = 0; }", "line 1: expected a field number from 1 to 536870911, found 0"),
    ("message A { optional string a = 1; } $", "line 1: unexpected '$'"),
    ("message A { map<float, string> a = 1; }", "line 1: float cannot be the type of a map's keys"),
    ("message A { option message_set_wire_format = true; }", "line 1: message_set_wire_format is not supported"),
    ("enum E { A = 4294967296; } message A {}", "line 1: expected a number of 32 bits, found 4294967296"),
    ("frobnicate A {}", "line 1: expected a definition, found 'frobnicate'"),
    ('syntax = "proto4"; message A {}', "line 1: expected the syntax proto2 or proto3, found 'proto4'"),
    (
        'edition = "2023"; message A {}',
        "line 1: editions are not supported in this release, only proto2 and proto3",
    ),
    ("message A { optional B b = 1; }", "the descriptor does not compile: couldn't resolve name 'B'"),
    (
        'syntax = "proto3"; import "b.proto"; message A { B b = 1; }',
        "the descriptor does not compile: couldn't resolve name 'B'; it imports b.proto, which its references do not"
        " have",
    ),
    ('syntax = "proto3"; enum E { A = 1; } message A {}', "the descriptor does not compile: "),
    ("message A { optional int32 a = 1; optional int32 b = 1; }", "the descriptor does not compile: "),
    ("message A { optional int32 a = 1; optional int32 a = 2; }", "the descriptor does not compile: "),
    ("message A {} message A {}", "the descriptor does not compile: "),
    ('message A { } option a = "', "line 1: unexpected '\"'"),
    ("message A { " * 10_000, f"line 1: nested deeper than {MOST_LEVELS} levels"),
    (
        "message A { optional int32 a = 1 [(o) = " + "{ a " * 10_000,
        f"line 1: nested deeper than {MOST_LEVELS} levels",
    ),
    ("message A {}" + " " * MOST_TEXT, f"the text has {MOST_TEXT + 12} characters, more than {MOST_TEXT}"),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_what_is_no_schema_is_refused(text: str, problem: str) -> None:
    assert refused(text).startswith(problem)


MAPPED = [
    ("int32 a = 1; int32 A = 2;", "a and A differ only in case"),
    (
        " ".join(f"E e{n} = {n};" for n in range(1, 200))
        + f" --- enum E {{ {' '.join(f'S{n} = {n};' for n in range(2000))} }}",
        f"more than {MAX_SYMBOLS} symbols of enums in all columns together",
    ),
    (" ".join(f"int32 n{n} = {n};" for n in range(1, MAX_COLUMNS + 2)), f"more than {MAX_COLUMNS} columns"),
    (
        "M0 m = 1; ---" + "".join(f"message M{n} {{ M{n + 1} m = 1; }}" for n in range(MAX_NESTING + 2))
        + f"message M{MAX_NESTING + 2} {{ int32 n = 1; }}",
        f"nested deeper than {MAX_NESTING} levels",
    ),
    (
        "M0 a = 1; --- message M40 { int32 n = 1; }"
        + "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(40)),
        f"more than {MAX_COLUMNS} columns",
    ),
    ('confluent.type.Decimal a = 1 [(confluent.field_meta).params = {key: "precision", value: "x"}];',
     "a confluent.type.Decimal whose precision or scale is not a number"),
    ('confluent.type.Decimal a = 1 [(confluent.field_meta).params = {key: "precision", value: "39"}];',
     "a decimal(39, 0): at most 38 digits, a scale of 0 to precision"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "problem"), MAPPED)
def test_what_no_table_can_hold_is_a_finding(body: str, problem: str) -> None:
    findings = map_schema(proto3(body, "confluent/type/decimal.proto")).findings

    assert problem in [each.problem for each in findings]


def test_imports_are_found_by_the_names_of_references(engine: Engine) -> None:
    money = Reference("shop/money.proto", 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }')
    line = Reference(
        "shop/line.proto",
        'syntax = "proto3"; package shop; import "shop/money.proto"; message Line { Money price = 1; }',
    )
    text = (
        'syntax = "proto3"; package shop; import "shop/line.proto"; import "shop/money.proto";'
        " message Order { repeated Line lines = 1; Money paid = 2; }"
    )

    schema = parse_schema(text, (money, line))

    assert types(schema) == {"lines": "list<struct<price: struct<cents: long>>>", "paid": "struct<cents: long>"}
    made = message(schema, lines=[{"price": {"cents": 5}}])
    assert rows(schema, engine, payload(made)) == [{"lines": [{"price": {"cents": 5}}], "paid": None}]


def test_imports_in_a_circle_are_refused() -> None:
    one, two = (Reference(f"{a}.proto", f'import "{b}.proto"; message {a} {{}}') for a, b in (("A", "B"), ("B", "A")))

    assert refused('import "A.proto"; message C {}', one, two) == "A.proto imports itself"


def test_a_reference_that_is_no_schema_is_named() -> None:
    broken = Reference("b.proto", "message B {")

    assert refused('import "b.proto"; message A {}', broken).startswith("b.proto: line 1: ")


def test_the_spec_chooses_the_message() -> None:
    text = "package a; message A { message B { optional int32 n = 1; } } message C { optional string s = 1; }"

    assert types(parse_schema(text)) == {}
    assert types(parse_schema(text, message="a.A.B")) == {"n": "int"}
    assert types(parse_schema(text, message="a.C")) == {"s": "string"}
    assert map_schema(parse_schema(text, message="a.C")).record == "a.C"
    assert refused(text, of="C") == "the file has no message C, which the spec names; it has a.A, a.A.B, a.C"


def test_serialized_descriptors_are_read_as_texts_are() -> None:
    text = text_of(
        'confluent.type.Decimal a = 1 [(confluent.field_meta) = {doc: "d", params: {key: "precision", value: "4"}}];'
        " map<string, int32> m = 2; optional int32 o = 3;",
        "confluent/type/decimal.proto",
    )
    file = descriptor_pb2.FileDescriptorProto()
    file.CopyFrom(descriptor_of(text))
    meta = meta_pb2.Meta(doc="d", params={"precision": "4"})
    file.message_type[0].field[0].options.ClearField("deprecated")
    file.message_type[0].field[0].ClearField("options")
    file.message_type[0].field[0].options.Extensions[meta_pb2.field_meta].CopyFrom(meta)
    file.service.add(name="S").method.add(name="M", input_type="Nowhere", output_type="Nowhere")
    file.message_type[0].extension.add(name="x", number=100, extendee="Nowhere")

    schema = parse_schema(base64.b64encode(file.SerializeToString()).decode())

    assert types(schema) == types(parse_schema(text)) == {"a": "decimal(4, 0)", "m": "map<string, int>", "o": "int"}


def test_built_in_files_are_those_of_google_and_confluent() -> None:
    google = pytest.importorskip("google.type")
    del google
    for name in (name for name in BUILT_IN if name.startswith("google/type/")):
        module = __import__(f"google.type.{name.split('/')[-1].removesuffix('.proto')}_pb2", fromlist=["DESCRIPTOR"])
        assert fields_of(descriptor_of(BUILT_IN[name])) == fields_of(copied(module.DESCRIPTOR)), name
    for module in (decimal_pb2, meta_pb2):
        assert fields_of(descriptor_of(BUILT_IN[module.DESCRIPTOR.name])) == fields_of(copied(module.DESCRIPTOR))


def copied(descriptor: Any) -> Any:
    file = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(file)
    return file


def fields_of(file: Any) -> Any:
    """What decides about columns: names, numbers, types and labels of fields, and symbols."""
    pending = [(each, "") for each in file.message_type]
    found: dict[str, Any] = {each.name: {value.name: value.number for value in each.value} for each in file.enum_type}
    while pending:
        each, around = pending.pop()
        for field in each.field:
            kind = field.type_name.rpartition(".")[2] or field.type
            found[f"{around}{each.name}.{field.name}"] = (
                field.number,
                kind,
                field.label,
                field.HasField("oneof_index"),
            )
        pending += [(inner, f"{around}{each.name}.") for inner in each.nested_type]
    return file.package, found


AMBIGUOUS = "message Row { map<string, int32> m = 1; message A { string a = 1; } message B { string b = 1; } }"


@pytest.mark.parametrize("of", ["Row.A", "Row.B"])
def test_a_message_behind_a_map_has_no_certain_index(of: str) -> None:
    """Some clients count the entries of maps among the nested messages: the index of B is that of A for others."""
    assert refused(f'syntax = "proto3"; {AMBIGUOUS}', of=of).startswith(f"a map comes before {of} in the message")


def test_a_message_before_a_map_and_one_around_it_have() -> None:
    text = f'syntax = "proto3"; {AMBIGUOUS} message C {{ message D {{ int32 d = 1; }} map<int32, int32> m = 1; }}'

    assert [parse_schema(text, message=each).path for each in ("Row", "C", "C.D")] == [(0,), (1,), (1, 0)]


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; import "\ud800x"; message A {}',
        "message A { extensions 4294967296 to max; }",
        f"message A {{ optional int32 a = 0{'7' * 900_000}; }}",
    ],
)
def test_what_cannot_be_a_descriptor_is_refused(text: str) -> None:
    with pytest.raises(IncompatibleSchemaError):
        parse_schema(text)
