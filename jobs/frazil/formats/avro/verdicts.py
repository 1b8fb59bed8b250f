"""Which column each Avro type becomes, as data for the page docs/reference/avro.md and for the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row: an Avro type, the column that it becomes, and what else there is to know. Texts are Markdown."""

    avro: str
    column: str
    more: str = ""


VERDICTS: tuple[Verdict, ...] = (
    Verdict("boolean, int, long, float, double, string", "the same"),
    Verdict(
        "int with `connect.type` int8 or int16", "int", "`connect.type` has no effect, as no narrower column exists"
    ),
    Verdict("bytes", "binary", "`flink.maxLength` and other lengths have no effect"),
    Verdict("fixed(n)", "fixed(n)", "refused if `readers` includes `athena`"),
    Verdict(
        "decimal on bytes or fixed",
        "decimal(p, s)",
        "without a scale, s is 0; a value of more than p digits is a dead letter",
    ),
    Verdict("decimal without a precision, or with a scale above it", "binary, fixed(n)", "the logical type is ignored"),
    Verdict("decimal with a precision above 38", "refused", "Iceberg's decimals have at most 38 digits"),
    Verdict("uuid on string", "string", "the text as it was written, which need not be a uuid"),
    Verdict("uuid on fixed(16)", "uuid"),
    Verdict("date", "date"),
    Verdict("time-millis, time-micros", "time", "microseconds; refused if `readers` includes `spark`"),
    Verdict("timestamp-millis, timestamp-micros", "timestamptz", "microseconds, in UTC"),
    Verdict("timestamp-nanos", "timestamptz", "microseconds; smaller digits are cut, and counted"),
    Verdict("local-timestamp-millis, local-timestamp-micros", "timestamp", "microseconds, without a zone"),
    Verdict("local-timestamp-nanos", "timestamp", "microseconds; smaller digits are cut, and counted"),
    Verdict("duration", "fixed(12)", "the bytes as they are, as no column holds months, days and milliseconds"),
    Verdict("any other logical type", "the column of the type under it", "noted by `explain`"),
    Verdict("enum", "string", "the symbol"),
    Verdict("array", "list"),
    Verdict("map", "map&lt;string, V&gt;"),
    Verdict(
        "array of records `MapEntry` of Kafka Connect, with a key and a value",
        "list&lt;struct&lt;key: K, value: V&gt;&gt;",
        "as it was written, with repeated keys",
    ),
    Verdict("record", "struct"),
    Verdict(
        "record without fields, null alone",
        "none",
        "the field is left out, and named by `explain`; in an array or a map, struct&lt;present: boolean&gt;",
    ),
    Verdict("`confluent.type.Variant`", "struct&lt;metadata: binary, value: binary&gt;", "its bytes as they are"),
    Verdict("union of null and one type, in any order", "that type"),
    Verdict(
        "any other union",
        "struct of one column per branch",
        "all but one are null; a branch has the short name of its type, or the full one if short names clash",
    ),
    Verdict("a record inside itself", "structs for three levels, then string", "JSON text; noted by `explain`"),
    Verdict("default of a field", "no effect", "a record has a value for each field of the schema that it names"),
    Verdict("aliases of a field", "the column is renamed", "as the newest schema says"),
    Verdict("names that differ only in case", "refused"),
    Verdict("any other type than a record at the top", "one column, `value`"),
)
"""Lengths and narrower types have no columns of their own in Iceberg: int8, int16 and int are int, texts of any length
string, times of any precision time."""
