"""Tags of Protobuf schemas, in Confluent's options: wherever a value's schema has one, its column has it."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from google.protobuf import descriptor_pb2
from protobuf_samples import message, payload, text_of

from frazil.formats.open import map_schema, open_decoder
from frazil.formats.protobuf.field_meta import tags_of
from frazil.formats.protobuf.schema import descriptor_of, parse_schema
from frazil.formats.tags import UNREADABLE
from frazil.model.columns import walk
from frazil.model.policies import Policies, Policy
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import FormatSettings
from frazil.records import binary

BY_TAG = FormatSettings(policies=Policies(tags=(("PII", Policy("redact")),)))
FIELD = '[(confluent.field_meta).tags = "PII"]'
SCHEMAS = {
    "a field": f"string x = 2 {FIELD};",
    "with a dot in front": 'string x = 2 [deprecated = true, (.confluent.field_meta).tags = "PII"];',
    "as a message": 'string x = 2 [(confluent.field_meta) = {doc: "d" tags: "PII"}];',
    "in a list": 'string x = 2 [(confluent.field_meta) = {params: {key: "a"}, tags: ["PII"]}];',
    "beside parameters": f'string x = 2 [(confluent.field_meta).params = {{key: "a"}}, {FIELD[1:]};',
    "an optional field": f"optional string x = 2 {FIELD};",
    "a repeated field": f"repeated string x = 2 {FIELD};",
    "a field of a oneof": f"oneof o {{ string x = 2 {FIELD}; }}",
    "a map": f"map<string, string> x = 2 {FIELD};",
    "a message": 'M x = 2; message M { option (confluent.message_meta).tags = "PII"; string s = 1; }',
    "a message after it": 'M x = 2; --- message M { option (confluent.message_meta) = {tags: "PII"}; string s = 1; }',
    "a message without fields": 'M x = 2; message M { option (confluent.message_meta).tags = "PII"; }',
    "items": 'repeated M x = 2; message M { option (confluent.message_meta).tags = "PII"; string s = 1; }',
    "values": 'map<string, M> x = 2; message M { option (confluent.message_meta).tags = "PII"; string s = 1; }',
    "an enum": 'E x = 2; enum E { option (confluent.enum_meta).tags = "PII"; ZERO = 0; }',
    "an enum after it": 'E x = 2; --- enum E { option (confluent.enum_meta).tags = "PII"; ZERO = 0; }',
    "a value of an enum": 'E x = 2; enum E { ZERO = 0; ONE = 1 [(confluent.enum_value_meta).tags = "PII"]; }',
}


def schema_of(text: str) -> RegisteredSchema:
    return RegisteredSchema(1, "PROTOBUF", text)


def tags_in(text: str) -> dict[str, tuple[str, ...]]:
    return {path: column.tags for path, column in walk(map_schema(schema_of(text)).columns)}


def text_in_base64(text: str) -> str:
    file = descriptor_pb2.FileDescriptorProto()
    file.CopyFrom(descriptor_of(text))
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("body", SCHEMAS.values(), ids=SCHEMAS)
def test_a_tag_in_the_schema_of_a_field_is_a_tag_of_its_column_alone(body: str) -> None:
    text = text_of(f"int32 n = 1; {body}", "confluent/meta.proto")

    found = tags_in(text)

    assert {path: tags for path, tags in found.items() if "." not in path} == {"n": (), "x": ("PII",)}
    assert found == tags_in(text_in_base64(text))


def test_a_field_inside_a_message_has_its_own_tag() -> None:
    inside = f"message M {{ string s = 1; string t = 2 {FIELD}; }}"

    assert tags_in(text_of(f"M x = 1; {inside}")) == {"x": (), "x.s": (), "x.t": ("PII",)}


def test_tags_of_the_message_and_of_the_file_are_those_of_every_column() -> None:
    of_message = text_of('option (confluent.message_meta).tags = "PII"; int32 n = 1; string x = 2;')
    of_file = text_of("int32 n = 1; string x = 2;") + ' option (confluent.file_meta).tags = "PII";'

    for text in (of_message, of_file, text_in_base64(of_file)):
        assert tags_in(text) == {"n": ("PII",), "x": ("PII",)}


def test_what_confluents_own_classes_write_is_read() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    file.CopyFrom(descriptor_of(text_of("string x = 1; M y = 2; message M { string s = 1; }")))
    (row,) = file.message_type
    row.field[0].options.Extensions[meta_pb2.field_meta].CopyFrom(meta_pb2.Meta(doc="d", tags=["PII", "GDPR"]))
    row.nested_type[0].options.Extensions[meta_pb2.message_meta].CopyFrom(meta_pb2.Meta(tags=["PII"]))

    found = tags_in(base64.b64encode(file.SerializeToString()).decode())

    assert found == {"x": ("PII", "GDPR"), "y": ("PII",), "y.s": ()}


def test_other_options_are_no_tags() -> None:
    others = '[(shop.meta).tags = "PII", (confluent.field_meta).doc = "PII", json_name = "PII"]'

    assert tags_in(text_of(f"string x = 1 {others};")) == {"x": ()}


@pytest.mark.parametrize("tag", [b"\x1a\x01\xff", b"\x1a\x09P"], ids=["no UTF-8", "cut off"])
def test_a_tag_that_cannot_be_read_is_not_passed_over(tag: bytes) -> None:
    """A class that knows the extension does not even read such options."""
    options = SimpleNamespace(SerializeToString=lambda: b"\x82\x44" + bytes([len(tag)]) + tag)

    assert tags_of(options) == (UNREADABLE,)


def test_a_policy_by_a_tag_masks_the_values() -> None:
    text = text_of(f"int32 n = 1; string x = 2 {FIELD}; M m = 3; message M {{ repeated string s = 1 {FIELD}; }}")
    written = message(parse_schema(text), n=7, x="secret", m={"s": ["secret", "too"]})

    decoded = open_decoder(schema_of(text), BY_TAG).decode(binary([payload(written)]))

    assert decoded.rows.to_pylist() == [{"n": 7, "x": "[redacted]", "m": {"s": ["[redacted]"] * 2}}]
