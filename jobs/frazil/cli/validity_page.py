"""The part of docs/reference/evolution.md about one schema alone: what `evolution: strict` refuses in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from frazil.formats.open import invalid_for_confluent, map_schema
from frazil.formats.validity import Rule
from frazil.model.schemas import RegisteredSchema, SchemaType

HEAD = """
## What one schema may not hold

`evolution: strict` also refuses what Confluent's checker refuses in one schema by itself. It judges each schema that
the table has no columns for yet, the first one too. With `lenient`, the table holds all of these examples.

The rules are those of `ValidityChecker.java`, in the module `logical-types` of
[confluentinc/schema-registry](https://github.com/confluentinc/schema-registry) (commit 794611bd86d1, August 2026).
`CONVERSION` is what the converters in front of the checker refuse: `AvroToLogicalTypeConverter.java`,
`ProtoToLogicalTypeConverter.java`, `JsonToLogicalTypeConverter.java` and `CombinedSchemaUtils.java`. Names of one
record that differ only in case, decimals of more than 38 digits and types that are not defined are refused without the
setting too. A combination of keywords in a JSON Schema whose outcome is not clear from these sources is not refused.

Each row has part of a schema, as the field `a` or as the content of the message `Row`.

| Rule | Format | for example | with `evolution: strict`, the table is paused |
|---|---|---|---|
"""

_NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
_VARIANT = {
    "type": "record", "name": "Variant", "namespace": "confluent.type",
    "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
}  # fmt: skip
_NUMBERED = {"type": "record", "name": "Pair", "fields": [{"name": "k", "type": "int"}, {"name": "v", "type": "int"}]}


@dataclass(frozen=True, slots=True)
class Example:
    """A part of a schema that a rule refuses: the type of the field `a`; of Protobuf, the fields of `Row` after `a`."""

    rule: Rule
    schema_type: SchemaType
    part: Any

    @property
    def schema(self) -> RegisteredSchema:
        text: dict[str, Any]
        match self.schema_type:
            case "AVRO":
                text = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": self.part}]}
            case "PROTOBUF":
                imports = (f'import "{path}"; ' for mark, path in _IMPORTS.items() if mark in self.part)
                return RegisteredSchema(
                    1, "PROTOBUF", f'syntax = "proto3"; {"".join(imports)}message Row {{ {self.part} }}'
                )
            case _:
                text = {"type": "object", "properties": self.part if "a" in self.part else {"a": self.part}}
        return RegisteredSchema(1, self.schema_type, json.dumps(text))


_IMPORTS = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.protobuf.Struct": "google/protobuf/struct.proto",
    "google.protobuf.Empty": "google/protobuf/empty.proto",
}


def _examples(rule: Rule, schema_type: SchemaType, *parts: Any) -> tuple[Example, ...]:
    return tuple(Example(rule, schema_type, part) for part in parts)


def _decimal(**parameters: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", **parameters}


EXAMPLES = (
    *_examples(Rule.EMPTY_STRUCT, "AVRO", {"type": "record", "name": "E", "fields": []}, ["null"]),
    *_examples(Rule.EMPTY_STRUCT, "PROTOBUF", "E a = 1; message E {}", "google.protobuf.Empty a = 1;"),
    *_examples(
        Rule.EMPTY_STRUCT, "JSON", {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}}
    ),
    *_examples(Rule.FIELD_NAME_CASE_COLLISION, "PROTOBUF", "int32 A = 1; oneof a { int32 b = 2; string c = 3; }"),
    *_examples(
        Rule.FIELD_NAME_CASE_COLLISION, "JSON",
        {"oneOf": [{"type": "string", "title": "X"}, {"type": "integer", "title": "x"}]},
    ),
    *_examples(Rule.CYCLIC_TYPE, "AVRO", _NODE),
    *_examples(Rule.CYCLIC_TYPE, "PROTOBUF", "Row a = 1;", "google.protobuf.Struct a = 1;"),
    *_examples(Rule.CYCLIC_TYPE, "JSON", {"a": {"type": "object", "properties": {"b": {"$ref": "#/properties/a"}}}}),
    *_examples(Rule.PRECISION_OUT_OF_RANGE, "AVRO", _decimal(precision=0)),
    *_examples(Rule.SCALE_OUT_OF_RANGE, "AVRO", _decimal(precision=4, scale=5)),
    *_examples(
        Rule.LENGTH_OUT_OF_RANGE, "AVRO", {"type": "string", "flink.minLength": 0, "flink.maxLength": 0},
        {"type": "bytes", "flink.maxLength": -1},
    ),
    *_examples(Rule.LENGTH_OUT_OF_RANGE, "JSON", {"type": "string", "minLength": 0, "maxLength": 0}),
    *_examples(
        Rule.UNREPRESENTABLE_TYPE, "AVRO", {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "long", "logicalType": "local-timestamp-nanos"}, _VARIANT,
    ),
    *_examples(Rule.UNREPRESENTABLE_TYPE, "PROTOBUF", "google.protobuf.Timestamp a = 1;"),
    *_examples(Rule.UNREPRESENTABLE_TYPE, "JSON", {}),
    *_examples(
        Rule.CONVERSION, "AVRO", "null", {"type": "int", "connect.type": "int32"},
        {"type": "int", "logicalType": "time-millis", "flink.precision": 6},
        {"type": "array", "logicalType": "map", "items": _NUMBERED},
        {"type": "map", "flink.type": "multiset", "values": "long"},
    ),
    *_examples(
        Rule.CONVERSION, "JSON", {"type": "array"}, {"type": "array", "items": [{"type": "string"}]},
        {"not": {"type": "string"}}, {"const": 1}, {"type": "null"}, {"enum": ["in transit"]},
        {"type": "number", "connect.type": "decimal"}, {"a b": {"type": "string"}, "a": {"type": "string"}},
    ),
)  # fmt: skip


def section() -> str:
    """Return the section of docs/reference/evolution.md."""
    return HEAD + "".join(map(_row, EXAMPLES))


def refused(example: Example) -> tuple[str, ...]:
    """Return what the rules refuse in an example. Its rule is that of each finding."""
    assert not map_schema(example.schema).findings  # noqa: S101 - examples are schemas that a lenient table holds
    found = invalid_for_confluent(example.schema)
    assert {each.rule for each in found} == {example.rule}, found  # noqa: S101
    return tuple(f"`{each.path}` {each.problem}" if each.path else each.problem for each in found)


def _row(example: Example) -> str:
    part = example.part if isinstance(example.part, str) else json.dumps(example.part)
    formats = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}
    return f"| `{example.rule}` | {formats[example.schema_type]} | `{part}` | {'; '.join(refused(example))} |\n"
