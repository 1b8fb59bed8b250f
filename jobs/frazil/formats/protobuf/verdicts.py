"""Which column each type of Protobuf becomes, as data for the page docs/reference/protobuf.md and for the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row: a type of Protobuf, the column that it becomes, and what else there is to know. Texts are Markdown."""

    protobuf: str
    column: str
    more: str = ""


REFUSED = "refused"

VERDICTS: tuple[Verdict, ...] = (
    Verdict("int32, sint32, sfixed32", "int"),
    Verdict("uint32, fixed32", "long"),
    Verdict("int64, sint64, sfixed64", "long"),
    Verdict("uint64, fixed64", "decimal(20, 0)", "a long would overflow from 2^63 on"),
    Verdict("float, double", "float, double"),
    Verdict("bool", "boolean"),
    Verdict("string", "string", "also in proto2, a text that is not UTF-8 is a dead letter"),
    Verdict("bytes", "binary"),
    Verdict("enum", "string", "the symbol; of a number without one, its digits; of an alias, the first symbol"),
    Verdict("message", "struct", "null if absent"),
    Verdict(
        "message without fields", "struct&lt;present: boolean&gt;", "`present` is true; the struct is null if absent"
    ),
    Verdict("repeated", "list", "empty if absent, as Protobuf does not distinguish the two"),
    Verdict("map", "map", "keys have the columns of their types; empty if absent; the last value of a key counts"),
    Verdict("oneof", "one column per field", "all but the last one that was written are null"),
    Verdict(
        "scalar of proto3",
        "that of its type",
        "never null in new rows: an absent field has the default value of its type, as Protobuf specifies",
    ),
    Verdict("`optional` of proto3", "that of its type", "null if absent"),
    Verdict(
        "`optional` and `required` of proto2",
        "that of its type",
        "null if absent; `default` is not applied: it may change later",
    ),
    Verdict("google.protobuf.Int32Value and the other wrappers", "the scalar's", "null if absent"),
    Verdict("google.protobuf.Timestamp", "timestamptz", "microseconds; nanoseconds are truncated, and counted"),
    Verdict(
        "google.protobuf.Duration",
        "long",
        "microseconds, as no column type holds a duration; smaller digits are cut towards zero, and counted",
    ),
    Verdict("google.type.Date", "date", "a date without a year, month or day is a dead letter"),
    Verdict("google.type.TimeOfDay", "time", "microseconds, as above; refused if `readers` includes `spark`"),
    Verdict(
        "confluent.type.Decimal",
        "decimal(p, s)",
        "p and s are the params `precision` and `scale` of `confluent.field_meta`; a value of another scale is"
        " converted if it stays exact",
    ),
    Verdict("confluent.type.Decimal without a precision", REFUSED),
    Verdict("confluent.type.Variant", "struct&lt;metadata: binary, value: binary&gt;", "its bytes as they are"),
    Verdict("google.protobuf.Struct, Value, ListValue", "string", "JSON text; decoded in Python, slowly"),
    Verdict("google.protobuf.Any", "string", "JSON text with `@type`, and `value` in base64; decoded in Python"),
    Verdict(
        "a message inside itself",
        "structs for three levels, then string",
        "JSON text; the schema is decoded in Python, slowly",
    ),
    Verdict("group", REFUSED),
    Verdict("extension ranges, extensions", "none", "unknown fields are skipped"),
)
