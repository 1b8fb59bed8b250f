"""A schema with every Avro type and every logical type, its records, and the rows that they must become."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "zip", "type": "string"}]}
"""A schema under its own subject, which the other one references."""

INNER = {
    "type": "record",
    "name": "shop.Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": ["null", "int"]}],
}
NODE = {
    "type": "record",
    "name": "shop.Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "shop.Node"]}],
}


def _logical(avro: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": avro, "logicalType": logical, **more}


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"shop.{name}", "size": size, **more}


FIELDS: dict[str, tuple[object, str]] = {
    "boolean": ("boolean", "boolean"),
    "int": ("int", "int"),
    "long": ("long", "long"),
    "float": ("float", "float"),
    "double": ("double", "double"),
    "string": ("string", "string"),
    "bytes": ("bytes", "binary"),
    "fixed": (_fixed("Four", 4), "fixed(4)"),
    "enum": ({"type": "enum", "name": "shop.Side", "symbols": ["BUY", "SELL"]}, "string"),
    "decimal_bytes": (_logical("bytes", "decimal", precision=12, scale=2), "decimal(12, 2)"),
    "decimal_fixed": (_fixed("Dec", 16, logicalType="decimal", precision=38, scale=10), "decimal(38, 10)"),
    "uuid_string": (_logical("string", "uuid"), "string"),
    "uuid_fixed": (_fixed("Id", 16, logicalType="uuid"), "uuid"),
    "date": (_logical("int", "date"), "date"),
    "time_millis": (_logical("int", "time-millis"), "time"),
    "time_micros": (_logical("long", "time-micros"), "time"),
    "timestamp_millis": (_logical("long", "timestamp-millis"), "timestamptz"),
    "timestamp_micros": (_logical("long", "timestamp-micros"), "timestamptz"),
    "timestamp_nanos": (_logical("long", "timestamp-nanos"), "timestamptz"),
    "local_millis": (_logical("long", "local-timestamp-millis"), "timestamp"),
    "local_micros": (_logical("long", "local-timestamp-micros"), "timestamp"),
    "local_nanos": (_logical("long", "local-timestamp-nanos"), "timestamp"),
    "duration": (_fixed("Duration", 12, logicalType="duration"), "fixed(12)"),
    "array": ({"type": "array", "items": "int"}, "list<int>"),
    "map": ({"type": "map", "values": "long"}, "map<string, long>"),
    "record": (INNER, "struct<sku: string, count: int>"),
    "referenced": ("shop.Address", "struct<zip: string>"),
    "array_of_records": ({"type": "array", "items": "shop.Line"}, "list<struct<sku: string, count: int>>"),
    "map_of_records": ({"type": "map", "values": "shop.Line"}, "map<string, struct<sku: string, count: int>>"),
    "null_first": (["null", "string"], "string"),
    "null_last": (["string", "null"], "string"),
    "union": (["null", "long", "string", "shop.Line"], "struct<long: long, string: string, Line: struct<sku: string,"
              " count: int>>"),
    "recursive": (NODE, "struct<v: int, next: struct<v: int, next: struct<v: int, next: string>>>"),
    "unknown_logical": (_logical("int", "fortnight"), "int"),
}  # fmt: skip
TIMES = ("time_millis", "time_micros")
"""Spark has no type for Iceberg's time."""

SCHEMA = {
    "type": "record",
    "name": "shop.Everything",
    "fields": [{"name": name, "type": avro} for name, (avro, _) in FIELDS.items()],
}
DAY = 86_400_000_000
DURATION = struct.pack("<III", 1, 2, 3)


def unscaled(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def chain(*values: int) -> dict[str, Any]:
    head, *rest = values
    return {"v": head, "next": chain(*rest) if rest else None}


USUAL = {
    "boolean": True,
    "int": -7,
    "long": 2**40,
    "float": 0.5,
    "double": 0.1,
    "string": "naïve 東京 \U0001f600",
    "bytes": b"\x00\xff",
    "fixed": b"abcd",
    "enum": "SELL",
    "decimal_bytes": unscaled(-12345, 2),
    "decimal_fixed": unscaled(10**37, 16),
    "uuid_string": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "uuid_fixed": bytes(range(16)),
    "date": 20_000,
    "time_millis": 86_399_999,
    "time_micros": 1,
    "timestamp_millis": 1_700_000_000_123,
    "timestamp_micros": 1_700_000_000_123_456,
    "timestamp_nanos": 1_700_000_000_123_456_789,
    "local_millis": 1_700_000_000_123,
    "local_micros": 1_700_000_000_123_456,
    "local_nanos": -1,
    "duration": DURATION,
    "array": [1, 2, 3],
    "map": {"a": 1, "b": -1},
    "record": {"sku": "x", "count": 2},
    "referenced": {"zip": "8000"},
    "array_of_records": [{"sku": "x", "count": None}, {"sku": "y", "count": 3}],
    "map_of_records": {"k": {"sku": "z", "count": 1}},
    "null_first": "here",
    "null_last": None,
    "union": ("long", 5),
    "recursive": chain(1, 2, 3, 4, 5),
    "unknown_logical": 14,
}
USUAL_ROW = {
    **USUAL,
    "decimal_bytes": Decimal("-123.45"),
    "decimal_fixed": Decimal(10**27),
    "uuid_fixed": UUID(bytes=bytes(range(16))),
    "date": date(2024, 10, 4),
    "time_millis": time(23, 59, 59, 999_000),
    "time_micros": time(0, 0, 0, 1),
    "timestamp_millis": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
    "timestamp_micros": datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC),
    "timestamp_nanos": datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC),
    "local_millis": datetime(2023, 11, 14, 22, 13, 20, 123_000),
    "local_micros": datetime(2023, 11, 14, 22, 13, 20, 123_456),
    "local_nanos": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "map": [("a", 1), ("b", -1)],
    "map_of_records": [("k", {"sku": "z", "count": 1})],
    "union": {"long": 5, "string": None, "Line": None},
    "recursive": {
        "v": 1,
        "next": {"v": 2, "next": {"v": 3, "next": '{"v":4,"next":{"v":5,"next":null}}'}},
    },
}
LEAST = {
    "boolean": False,
    "int": -(2**31),
    "long": -(2**63),
    "float": float("-inf"),
    "double": -5e-324,
    "string": "",
    "bytes": b"",
    "fixed": bytes(4),
    "enum": "BUY",
    "decimal_bytes": unscaled(-999_999_999_999, 6),
    "decimal_fixed": unscaled(-(10**38) + 1, 16),
    "uuid_string": "not a uuid: nobody checks",
    "uuid_fixed": bytes(16),
    "date": -719_162,
    "time_millis": 0,
    "time_micros": 0,
    "timestamp_millis": -62_135_596_800_000,
    "timestamp_micros": -62_135_596_800_000_000,
    "timestamp_nanos": -(2**63),
    "local_millis": -62_135_596_800_000,
    "local_micros": -62_135_596_800_000_000,
    "local_nanos": -(2**63),
    "duration": bytes(12),
    "array": [],
    "map": {},
    "record": {"sku": "", "count": None},
    "referenced": {"zip": ""},
    "array_of_records": [],
    "map_of_records": {},
    "null_first": None,
    "null_last": "here",
    "union": ("string", ""),
    "recursive": chain(0),
    "unknown_logical": 0,
}
LEAST_ROW = {
    **LEAST,
    "decimal_bytes": Decimal("-9999999999.99"),
    "decimal_fixed": Decimal("-9999999999999999999999999999.9999999999"),
    "uuid_fixed": UUID(int=0),
    "date": date(1, 1, 1),
    "time_millis": time(0),
    "time_micros": time(0),
    "timestamp_millis": datetime(1, 1, 1, tzinfo=UTC),
    "timestamp_micros": datetime(1, 1, 1, tzinfo=UTC),
    "timestamp_nanos": datetime(1677, 9, 21, 0, 12, 43, 145_224, UTC),
    "local_millis": datetime(1, 1, 1),
    "local_micros": datetime(1, 1, 1),
    "local_nanos": datetime(1677, 9, 21, 0, 12, 43, 145_224),
    "map": [],
    "map_of_records": [],
    "union": {"long": None, "string": "", "Line": None},
    "recursive": {"v": 0, "next": None},
}
FAR = {
    **USUAL,
    "float": float("inf"),
    "double": float("nan"),
    "date": 3_000_000,
    "timestamp_millis": 400_000_000_000_000,
    "timestamp_micros": 400_000_000_000_000_000,
    "local_micros": 400_000_000_000_000_000,
    "union": ("shop.Line", {"sku": "u", "count": 1}),
}
"""Dates beyond the year 9999, which Python has none of, and what is no number."""


def plain(schema: Any) -> Any:
    """Return the schema without logical types, so that a test decides the exact encoded bytes."""
    if isinstance(schema, list):
        return [plain(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "logicalType"}
    return schema
