"""Each row of Confluent's published type mappings and evolution rules has a verdict of ours, or a test.

The rows are those of its converters and of its compatibility checker for Iceberg tables (`logical-types/` in the schema
registry's repository). The verdicts and examples that they lead to have golden tests of their own.
"""

from __future__ import annotations

from pathlib import Path

from frazil.cli.evolution_page import EXAMPLES
from frazil.formats.avro.verdicts import VERDICTS as AVRO
from frazil.formats.json_schema.verdicts import VERDICTS as JSON_SCHEMA
from frazil.formats.protobuf.verdicts import VERDICTS as PROTOBUF

ROOT = Path(__file__).parents[3]

AVRO_ROWS = {
    "null alone": ["record without fields, null alone"],
    "boolean, int, long, float, double, string": ["boolean, int, long, float, double, string"],
    "int with connect.type int8 or int16": ["int with `connect.type` int8 or int16"],
    "bytes": ["bytes"],
    "fixed": ["fixed(n)"],
    "decimal on bytes or fixed": [
        "decimal on bytes or fixed",
        "decimal without a precision, or with a scale above it",
        "decimal with a precision above 38",
    ],
    "uuid on string": ["uuid on string"],
    "uuid on fixed(16)": ["uuid on fixed(16)"],
    "date": ["date"],
    "time-millis": ["time-millis, time-micros"],
    "time-micros": ["time-millis, time-micros"],
    "timestamp-millis, timestamp-micros": ["timestamp-millis, timestamp-micros"],
    "timestamp-nanos": ["timestamp-nanos"],
    "local-timestamp": ["local-timestamp-millis, local-timestamp-micros", "local-timestamp-nanos"],
    "duration": ["duration"],
    "enum": ["enum"],
    "array": ["array"],
    "map": ["map", "array of records `MapEntry` of Kafka Connect, with a key and a value"],
    "record": ["record", "record without fields, null alone"],
    "Variant": ["`confluent.type.Variant`"],
    "[null, T]": ["union of null and one type, in any order"],
    "other union": ["any other union"],
    "recursive type": ["a record inside itself"],
    "field default": ["default of a field"],
    "field aliases": ["aliases of a field"],
    "names differing only in case": ["names that differ only in case"],
}
PROTOBUF_ROWS = {
    "int32, sint32, sfixed32": ["int32, sint32, sfixed32"],
    "uint32, fixed32": ["uint32, fixed32"],
    "int64, sint64, sfixed64": ["int64, sint64, sfixed64"],
    "uint64, fixed64": ["uint64, fixed64"],
    "float, double, bool, string, bytes": ["float, double", "bool", "string", "bytes"],
    "enum": ["enum"],
    "message": ["message", "message without fields"],
    "repeated": ["repeated"],
    "map": ["map"],
    "oneof": ["oneof"],
    "proto3 optional": ["`optional` of proto3", "scalar of proto3", "`optional` and `required` of proto2"],
    "wrappers": ["google.protobuf.Int32Value and the other wrappers"],
    "google.protobuf.Timestamp": ["google.protobuf.Timestamp"],
    "google.type.Date, TimeOfDay": ["google.type.Date", "google.type.TimeOfDay"],
    "confluent.type.Decimal": ["confluent.type.Decimal", "confluent.type.Decimal without a precision"],
    "confluent.type.Variant": ["confluent.type.Variant"],
    "recursive": ["a message inside itself"],
    "group, extensions": ["group", "extension ranges, extensions"],
}
JSON_SCHEMA_ROWS = {
    "boolean": ["boolean"],
    "integer": ["integer", "integer with `connect.type` int8, int16 or int32"],
    "number": ["number, also with `multipleOf`", "number with `connect.type` float32"],
    "Connect Decimal": ["Kafka Connect's Decimal"],
    "Connect Date, Time, Timestamp": ["Kafka Connect's Date, Time, Timestamp (integers)"],
    "string": ["string"],
    "string date-time, date, time": ["string with `format` date-time, date or time"],
    "string uuid": ["string with any other `format`, also uuid"],
    "base64, connect bytes": ["string with `contentEncoding` base64, or `connect.type` bytes"],
    "enum": ["`enum` or `const`"],
    "const": ["`enum` or `const`"],
    "object": ["object with `properties`", "any other object"],
    "object with additionalProperties": [
        "object without `properties`, with a schema of `additionalProperties`",
        "object with `patternProperties` alone",
    ],
    "array": ["array", "array with a list of `items`, or with `prefixItems`"],
    "[null, T]": ["`oneOf`, `anyOf` or a list of types: null and one type", "null alone, `false`"],
    "oneOf, anyOf of many": [
        "`oneOf` or `anyOf`: several of one JSON type without parts",
        "any other `oneOf`, `anyOf` or list of types",
    ],
    "allOf": ["`allOf`"],
    "if/then/else, not": [
        "`oneOf`, `anyOf`, `if`, `not` beside a type or `properties`",
        "`{}`, `true`, `not` or `if` alone",
    ],
    "{}, true": ["`{}`, `true`, `not` or `if` alone"],
    "$ref": ["`$ref`, in the schema or to a reference of the registry"],
    "required": ["`required`, and constraints such as `maxLength`"],
    "undeclared fields": ["object with `properties`"],
}
CHANGES = {
    "add nullable column, at the root or nested": [
        "has a new optional field",
        "has a new optional field in a record",
        "has a new field in a record in an array or a map",
    ],
    "add required scalar, no default": ["has a new required field", "has a new field in a record"],
    "add required scalar with default": ["has a new required field with a default"],
    "add required list or map": ["has a new array or map", "has a new array with a default"],
    "int to long, float to double": [
        "has a long that was an int",
        "has a double that was a float",
        "widens inside arrays and maps",
    ],
    "decimal precision up": ["has a decimal with more digits"],
    "decimal scale change": ["has a decimal with another scale"],
    "date to timestamp": ["has a timestamp that was a date"],
    "varchar length change": ["has text of another maximum length"],
    "fixed length change": ["has a fixed of another length"],
    "NOT NULL to NULL": ["has an optional field that was required"],
    "NULL to NOT NULL": ["has a required field that was optional"],
    "drop column": ["lacks a field"],
    "rename": ["renames a field, with an alias", "renames a field, without an alias"],
    "reorder": ["has its fields in another order"],
    "map key type change": ["has a map with wider keys (Protobuf)"],
    "struct to scalar, list to map": [
        "has a record that was a number",
        "has a number that was a record",
        "has a map that was an array",
        "has an array that was a map",
        "has a union that was a record",
    ],
    "new union branch": ["has a new type in a union"],
    "enum symbols": ["has other symbols in an enum", "has text that was an enum"],
    "names differing only in case": ["has a name that differs only in case"],
}
PARTITION_SPEC_CHANGE = "tests/table/test_changed_spec.py", "test_another_partitioning_keeps_old_files_and_every_row"
"""The test of a change of the spec, and not of a schema."""


def test_each_row_of_the_type_mappings_has_a_verdict_and_each_verdict_is_of_a_row_or_ours() -> None:
    own = {"any other logical type", "any other type than a record at the top", "google.protobuf.Duration"}
    own |= {"google.protobuf.Struct, Value, ListValue", "google.protobuf.Any"}
    for rows, verdicts in (
        (AVRO_ROWS, [each.avro for each in AVRO]),
        (PROTOBUF_ROWS, [each.protobuf for each in PROTOBUF]),
        (JSON_SCHEMA_ROWS, [each.schema for each in JSON_SCHEMA]),
    ):
        named = {verdict for each in rows.values() for verdict in each}
        assert named == set(verdicts) - own


def test_each_row_of_the_evolution_rules_has_an_example() -> None:
    examples = {each.change for each in EXAMPLES}

    assert {name for each in CHANGES.values() for name in each} <= examples


def test_a_change_of_the_partitioning_has_a_test() -> None:
    file, name = PARTITION_SPEC_CHANGE

    assert f"def {name}(" in (ROOT / file).read_text()
