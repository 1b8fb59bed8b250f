"""Which column each named type of Debezium and of Kafka Connect becomes, as data.

The name is that of the schema in Kafka Connect, the same in Avro and in JSON (`frazil.formats.connect`). A type whose
name is not here becomes the column of the type under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.formats.debezium import decimals, numeric_times, text_times, uuids
from frazil.formats.debezium.converted import Conversion
from frazil.model.columns import Column, ColumnType, Scalar, Struct

MILLI, MICRO, NANO = 1_000_000, 1_000, 1
"""The units of times, in nanoseconds."""

_INT, _LONG, _STRING, _BINARY = Scalar("int"), Scalar("long"), Scalar("string"), Scalar("binary")
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ = Scalar("date"), Scalar("time"), Scalar("timestamp"), Scalar("timestamptz")
_VARIABLE_SCALE = Struct((Column("scale", _INT), Column("value", _BINARY)))


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A named type. `stored` is the column of the type under it, `column` what it becomes.

    Without a conversion, values stay as they are and have any type. `more` is what else there is to know, as Markdown.
    """

    name: str
    stored: ColumnType | None = None
    column: ColumnType | None = None
    convert: Conversion | None = field(default=None, compare=False)
    is_json: bool = False
    more: str = ""


def _as_is(name: str, more: str, *, is_json: bool = False) -> LogicalType:
    return LogicalType(name, is_json=is_json, more=more)


_PAST_24_HOURS = "24 hours or more, and less than 0, are dead letters"

ROWS: tuple[LogicalType, ...] = (
    LogicalType("io.debezium.time.Date", _INT, _DATE, numeric_times.date, more="days since 1970"),
    LogicalType("io.debezium.time.Time", _INT, _TIME, numeric_times.time_of_day(MILLI), more=_PAST_24_HOURS),
    LogicalType("io.debezium.time.MicroTime", _LONG, _TIME, numeric_times.time_of_day(MICRO), more=_PAST_24_HOURS),
    LogicalType(
        "io.debezium.time.NanoTime",
        _LONG,
        _TIME,
        numeric_times.time_of_day(NANO),
        more=f"{_PAST_24_HOURS}; digits below the microsecond are cut, and counted",
    ),
    LogicalType(
        "io.debezium.time.Timestamp",
        _LONG,
        _TIMESTAMP,
        numeric_times.timestamp(MILLI),
        more="local time, without a zone",
    ),
    LogicalType(
        "io.debezium.time.MicroTimestamp",
        _LONG,
        _TIMESTAMP,
        numeric_times.timestamp(MICRO),
        more="PostgreSQL's `infinity` is 9223372036825200000 microseconds, `-infinity` -9223372036832400000",
    ),
    LogicalType(
        "io.debezium.time.NanoTimestamp",
        _LONG,
        _TIMESTAMP,
        numeric_times.timestamp(NANO),
        more="digits below the microsecond are cut, and counted; infinite ones as above",
    ),
    LogicalType(
        "io.debezium.time.ZonedTimestamp",
        _STRING,
        _TIMESTAMPTZ,
        text_times.zoned_timestamp,
        more="in UTC; digits below the microsecond are cut, and counted; infinite ones as above",
    ),
    _as_is("io.debezium.time.ZonedTime", "string; no column type has a time of day with a zone"),
    LogicalType("io.debezium.time.IsoDate", _STRING, _DATE, text_times.date, more="the zone has no effect"),
    LogicalType("io.debezium.time.IsoTime", _STRING, _TIME, text_times.time_of_day, more="the zone has no effect"),
    LogicalType(
        "io.debezium.time.IsoTimestamp",
        _STRING,
        _TIMESTAMP,
        text_times.timestamp,
        more="local time; its `Z` is no zone",
    ),
    _as_is("io.debezium.time.Year", "int"),
    _as_is("io.debezium.time.Interval", "string, such as `P1Y2M3DT4H5M6.78S`"),
    _as_is("io.debezium.time.MicroDuration", "long, microseconds"),
    _as_is("io.debezium.time.NanoDuration", "long, nanoseconds"),
    _as_is(
        "org.apache.kafka.connect.data.Decimal",
        "decimal(p, s) of the parameters `scale` and `connect.decimal.precision`; p is 38 if JSON names none",
    ),
    _as_is("org.apache.kafka.connect.data.Date", "date"),
    _as_is("org.apache.kafka.connect.data.Time", "time"),
    LogicalType(
        "org.apache.kafka.connect.data.Timestamp",
        _TIMESTAMPTZ,
        _TIMESTAMP,
        numeric_times.without_zone,
        more="local time, without a zone, as Debezium writes it; timestamptz without `cdc`",
    ),
    _as_is("io.debezium.data.Json", "string, JSON text", is_json=True),
    _as_is("io.debezium.data.Xml", "string"),
    _as_is("io.debezium.data.Enum", "string; the parameter `allowed` has no effect"),
    _as_is("io.debezium.data.EnumSet", "string, the members with commas between them"),
    LogicalType("io.debezium.data.Uuid", _STRING, Scalar("uuid"), uuids.uuid),
    _as_is("io.debezium.data.Bits", "binary, the least significant byte first; the parameter `length` has no effect"),
    LogicalType(
        "io.debezium.data.VariableScaleDecimal",
        _VARIABLE_SCALE,
        _STRING,
        decimals.decimal_text,
        more="the exact number as text, since each value has a scale of its own",
    ),
    _as_is("io.debezium.data.Ltree", "string"),
    _as_is("io.debezium.data.Tsvector", "string"),
    _as_is("io.debezium.data.geometry.Point", "struct&lt;x, y, wkb, srid&gt;"),
    _as_is("io.debezium.data.geometry.Geometry", "struct&lt;wkb, srid&gt;, with the fields of newer releases"),
    _as_is("io.debezium.data.geometry.Geography", "struct&lt;wkb, srid&gt;"),
    _as_is("io.debezium.data.geometry.Circle", "struct&lt;center, radius&gt;"),
    _as_is("io.debezium.data.geometry.Line", "struct&lt;a, b, c&gt;"),
    _as_is("io.debezium.data.FloatVector", "list&lt;float&gt;"),
    _as_is("io.debezium.data.DoubleVector", "list&lt;double&gt;"),
    _as_is("io.debezium.data.SparseDoubleVector", "struct&lt;dimensions, vector&gt;"),
)
LOGICAL_TYPES: Mapping[str, LogicalType] = {each.name: each for each in ROWS}
