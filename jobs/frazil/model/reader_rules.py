"""What each reader of a table can and cannot read, as data: the checks, the tests and docs/reference/readers.md use it.

A rule that refuses keeps a column, a name or a partition field out of a table. Frazil makes only tables of Iceberg's
format version 2, so rules about newer features say why they cannot occur instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.schemas import SchemaFinding
from frazil.model.spec import Reader

Verdict = Literal["refuse", "warn", "fine"]
Tested = Literal["on the engine", "the recognition only"]
OfColumn = Callable[[str, Column], bool]
"""Return whether the column at this dotted path has the feature."""
OfName = Callable[[str], bool]

_ATHENA_NAMES = "https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html"
_ATHENA_TYPES = "https://docs.aws.amazon.com/athena/latest/ug/querying-iceberg-supported-data-types.html"
_ATHENA_ICEBERG = "https://docs.aws.amazon.com/athena/latest/ug/querying-iceberg.html"
_SNOWFLAKE_TYPES = "https://docs.snowflake.com/en/user-guide/tables-iceberg-data-types"
_SPARK_RUN = "Iceberg's Spark runtime, run in the tests"
_DUCKDB_RUN = "DuckDB's iceberg extension, run in the tests"
_PYICEBERG_RUN = "PyIceberg, run in the tests"
_EVERY_TABLE = "refused in every table, whatever its readers"
_V3, _CUT = "Iceberg's specification: version 3", "digits below the microsecond are cut, and counted in the receipt"
_LONGEST = 255

SPARK_RESERVED = (
    "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
)  # fmt: skip
"""Names of Iceberg's metadata columns that a table for Spark cannot use (org.apache.iceberg.MetadataColumns)."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Columns or names that a rule applies to, and similar ones that it does not apply to."""

    of: tuple[Column | str, ...] = ()
    not_of: tuple[Column | str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderRule:
    """One row: what `reader` does with a feature.

    `problem` completes a finding that begins with the path of the column or with the name. At most one of `column`,
    `table_name` and `partition_source` recognises the feature; without any, `why_never` says why no table has it.
    """

    reader: Reader
    feature: str
    verdict: Verdict
    source: str
    tested: Tested
    problem: str = ""
    column: OfColumn | None = None
    table_name: OfName | None = None
    partition_source: OfName | None = None
    why_never: str = ""
    examples: Examples = Examples()


def _innermost(column_type: ColumnType) -> ColumnType:
    match column_type:
        case ListOf(inner):
            return _innermost(inner)
        case MapOf(_, value):
            return _innermost(value)
        case _:
            return column_type


def _key_types(column_type: ColumnType) -> Iterator[ColumnType]:
    match column_type:
        case ListOf(element):
            yield from _key_types(element)
        case MapOf(key, value):
            yield key
            yield from _key_types(value)
        case _:
            return


def _holds(wanted: Callable[[ColumnType], bool]) -> OfColumn:
    """Recognise a type in a column itself, in its list elements, and in its map keys and values."""

    def recognise(_: str, column: Column) -> bool:
        return wanted(_innermost(column.type)) or any(map(wanted, _key_types(column.type)))

    return recognise


def _is(name: str) -> Callable[[ColumnType], bool]:
    return lambda column_type: column_type == Scalar(name)  # type: ignore[arg-type]


def _is_fixed(column_type: ColumnType) -> bool:
    return isinstance(column_type, Fixed)


def _resembles_a_variant(column_type: ColumnType) -> bool:
    """Return whether a Parquet file has this struct as it would have a VARIANT without its annotation."""
    if not isinstance(column_type, Struct):
        return False
    types = {column.name: column.type for column in column_type.columns if column.name != "typed_value"}
    return types.keys() == {"metadata", "value"} and {*types.values()} <= {_TEXT, _BYTES}


def _within(column_type: ColumnType) -> ColumnType | None:
    """Return what a list or a map has; None of another type."""
    match column_type:
        case ListOf(inside) | MapOf(_, inside):
            return inside
        case _:
            return None


def _holds_structs(column_type: ColumnType) -> bool:
    """Return whether this is a list of structs."""
    return isinstance(column_type, ListOf) and isinstance(column_type.element, Struct)


def _has_fields_two_deep(column_type: ColumnType) -> bool:
    """Return whether this is a list or a map of others, with fields in them."""
    outer = _within(column_type)
    inner = None if outer is None else _within(outer)
    return inner is not None and isinstance(_innermost(inner), Struct)


def _at_the_top(path: str) -> bool:
    return re.search(r"[.\[{]", path) is None


def _too_long(name: str) -> bool:
    return len(name.encode()) > _LONGEST


def _upper_case(name: str) -> bool:
    return name != name.lower()


def _nested(name: str) -> bool:
    return "." in name


def _column(name: str, column_type: ColumnType) -> Column:
    return Column(name, column_type)


_TEXT, _TIME, _UUID, _BYTES = Scalar("string"), Scalar("time"), Scalar("uuid"), Scalar("binary")
_VARIANT = Struct((_column("metadata", _BYTES), _column("value", _BYTES)))
_PROPERTIES = Struct((_column("value", _TEXT), _column("metadata", _TEXT)))
_THREE_TEXTS = Struct((_column("metadata", _TEXT), _column("value", _TEXT), _column("x", _TEXT)))

RULES: tuple[ReaderRule, ...] = (
    ReaderRule(
        "spark", "type time", "refuse", _SPARK_RUN, "on the engine",
        "is a time, which Spark cannot read: write a timestamp, or remove spark from `readers`",
        column=_holds(_is("time")),
        examples=Examples((_column("opens", _TIME), _column("opens", ListOf(_TIME))), (_column("at", _TEXT),)),
    ),
    ReaderRule(
        "spark", f"a column of the table named {', '.join(SPARK_RESERVED)}", "refuse", _SPARK_RUN, "on the engine",
        "has the name of a metadata column of Iceberg, for which Spark refuses the table: rename the field, or remove"
        " spark from `readers`",
        column=lambda path, column: _at_the_top(path) and column.name in SPARK_RESERVED,
        examples=Examples(tuple(_column(name, _TEXT) for name in SPARK_RESERVED), (_column("_extra", _TEXT),)),
    ),
    ReaderRule("spark", "types fixed and uuid", "fine", "read as binary and as string", "on the engine",
               column=_holds(lambda each: _is_fixed(each) or each == _UUID),
               examples=Examples((_column("code", Fixed(4)), _column("id", _UUID)))),
    ReaderRule("spark", "upper case and dots in names of columns", "fine", "quoted with backticks", "on the engine",
               column=lambda _, column: _upper_case(column.name) or "." in column.name,
               examples=Examples((_column("Total", _TEXT), _column("a.b", _TEXT)))),
    ReaderRule("duckdb", "types time, fixed and uuid", "fine", _DUCKDB_RUN, "on the engine",
               column=_holds(lambda each: _is_fixed(each) or each in (_TIME, _UUID)),
               examples=Examples((_column("opens", _TIME), _column("code", Fixed(4)), _column("id", _UUID)))),
    ReaderRule("duckdb", "upper case and dots in names of columns", "fine", "quoted", "on the engine",
               column=lambda _, column: _upper_case(column.name) or "." in column.name,
               examples=Examples((_column("Total", _TEXT), _column("a.b", _TEXT)))),
    ReaderRule(
        "duckdb", "a struct of two texts or binaries, `metadata` and `value`", "warn",
        f"{_DUCKDB_RUN}: with its extension delta loaded, it takes the struct for a VARIANT", "on the engine",
        "is a struct that DuckDB takes for a VARIANT while its extension delta is loaded, and cannot read then: read"
        " the Iceberg table in a session without delta",
        column=_holds(_resembles_a_variant),
        examples=Examples(
            (_column("v", _VARIANT), _column("v", ListOf(_PROPERTIES)), _column("v", MapOf(_TEXT, _VARIANT))),
            (_column("v", _THREE_TEXTS), _column("v", Struct((_column("metadata", _TEXT),)))),
        ),
    ),
    ReaderRule(
        "pyiceberg", "a list of structs", "warn",
        f"{_PYICEBERG_RUN}; https://github.com/apache/iceberg-python/issues/3833", "on the engine",
        "is a list of structs, of which PyIceberg reads a null as an empty list: read it with DuckDB or Spark where the"
        " difference counts",
        column=lambda _, column: _holds_structs(column.type),
        examples=Examples((_column("v", ListOf(Struct((_column("x", _TEXT),)))),), (_column("v", ListOf(_TEXT)),)),
    ),
    ReaderRule(
        "pyiceberg", "a struct in a list or a map inside another", "warn", _PYICEBERG_RUN, "on the engine",
        "has fields in a list or a map inside another: if one is renamed by an alias, PyIceberg reads it as null in"
        " older files; read them with DuckDB or Spark then",
        column=lambda _, column: _has_fields_two_deep(column.type),
        examples=Examples(
            tuple(_column("v", each) for each in (ListOf(ListOf(_PROPERTIES)), MapOf(_TEXT, ListOf(_PROPERTIES)))),
            (_column("v", ListOf(ListOf(_TEXT))), _column("v", MapOf(_TEXT, _PROPERTIES))),
        ),
    ),
    ReaderRule("pyiceberg", "types time, fixed and uuid", "fine", _PYICEBERG_RUN, "on the engine",
               column=_holds(lambda each: _is_fixed(each) or each in (_TIME, _UUID)),
               examples=Examples((_column("opens", _TIME), _column("code", Fixed(4)), _column("id", _UUID)))),
    ReaderRule("pyiceberg", "upper case and dots in names of columns", "fine", _PYICEBERG_RUN, "on the engine",
               column=lambda _, column: _upper_case(column.name) or "." in column.name,
               examples=Examples((_column("Total", _TEXT), _column("a.b", _TEXT)))),
    ReaderRule(
        "athena", "type fixed", "refuse", _ATHENA_TYPES, "the recognition only",
        "is a {type}, which Athena does not support: write bytes, or remove athena from `readers`",
        column=_holds(_is_fixed),
        examples=Examples((_column("code", Fixed(4)), _column("codes", MapOf(_TEXT, Fixed(2)))),
                          (_column("code", Scalar("binary")),)),
    ),
    ReaderRule(
        "athena", "type uuid", "warn", _ATHENA_TYPES, "the recognition only",
        "is a uuid, which Athena's list of supported types does not name",
        column=_holds(_is("uuid")),
        examples=Examples((_column("id", _UUID),), (_column("id", _TEXT),)),
    ),
    ReaderRule("athena", "types time, timestamp and timestamptz", "fine", _ATHENA_TYPES, "the recognition only",
               column=_holds(lambda each: each in (_TIME, Scalar("timestamp"), Scalar("timestamptz"))),
               examples=Examples((_column("opens", _TIME),))),
    ReaderRule(
        "athena", "upper case in the names of a table or database", "refuse", _ATHENA_NAMES, "the recognition only",
        'supports only lower-case names, found "{name}"',
        table_name=_upper_case,
        examples=Examples(("Orders",), ("orders_v1",)),
    ),
    ReaderRule("athena", "upper case in names of columns", "fine", f"queried in lower case: {_ATHENA_NAMES}",
               "the recognition only", column=lambda _, column: _upper_case(column.name),
               examples=Examples((_column("Total", _TEXT),))),
    ReaderRule(
        "athena", f"a name of a column longer than {_LONGEST} bytes", "refuse", _ATHENA_NAMES, "the recognition only",
        f"has a name of more than {_LONGEST} bytes, which Athena does not support: shorten it, or remove athena from"
        " `readers`",
        column=lambda _, column: _too_long(column.name),
        examples=Examples((_column("é" * 128, _TEXT),), (_column("e" * 255, _TEXT),)),
    ),
    ReaderRule(
        "athena", "other characters than letters, digits, `_` and `.` in the name of a field of a struct", "refuse",
        _ATHENA_NAMES, "the recognition only",
        "has a character in its name that Athena does not support inside structs: rename it, or remove athena from"
        " `readers`",
        column=lambda path, column: path != column.name and re.search(r"[^0-9A-Za-z_.]", column.name) is not None,
    ),
    ReaderRule(
        "athena", "a partition field of a nested column", "refuse",
        "https://github.com/redpanda-data/docs: modules/manage/pages/iceberg", "the recognition only",
        "partitions by a field of a struct, which AWS Glue does not support",
        partition_source=_nested,
        examples=Examples(("address.zip",), ("zip",)),
    ),
    ReaderRule("athena", "Iceberg's format version 3", "refuse", _ATHENA_ICEBERG, "the recognition only",
               why_never="tables have version 2; a table that another tool upgraded is refused"),
    ReaderRule("snowflake", "types fixed and time", "fine", _SNOWFLAKE_TYPES, "the recognition only",
               column=_holds(lambda each: _is_fixed(each) or each == _TIME),
               examples=Examples((_column("code", Fixed(4)), _column("opens", _TIME)))),
    ReaderRule("snowflake", "names that differ only in case", "refuse", "unquoted names are folded to one case",
               "the recognition only", why_never=_EVERY_TABLE),
    ReaderRule("athena", "names that differ only in case", "refuse", _ATHENA_NAMES, "the recognition only",
               why_never=_EVERY_TABLE),
    ReaderRule("duckdb", "names that differ only in case", "refuse", f"{_DUCKDB_RUN}: it renames one of the columns",
               "on the engine", why_never=_EVERY_TABLE),
    ReaderRule("spark", "names that differ only in case", "refuse", _SPARK_RUN, "on the engine",
               why_never=_EVERY_TABLE),
    ReaderRule("snowflake", "equality deletes", "refuse",
               "https://github.com/MaterializeInc/materialize/pull/38458", "the recognition only",
               why_never="Frazil writes none"),
    ReaderRule("snowflake", "timestamps in nanoseconds", "refuse", _V3, "the recognition only", why_never=_CUT),
    ReaderRule("athena", "timestamps in nanoseconds", "refuse", _V3, "the recognition only", why_never=_CUT),
    ReaderRule("duckdb", "type timestamp_ns", "fine", f"{_V3}; {_DUCKDB_RUN}", "on the engine", why_never=_CUT),
    ReaderRule("duckdb", "type timestamptz_ns", "refuse", f"{_V3}; {_DUCKDB_RUN}", "on the engine", why_never=_CUT),
    ReaderRule("pyiceberg", "type timestamp_ns", "fine", f"{_V3}; {_PYICEBERG_RUN}", "on the engine", why_never=_CUT),
    ReaderRule("pyiceberg", "type timestamptz_ns", "fine", f"{_V3}; {_PYICEBERG_RUN}", "on the engine", why_never=_CUT),
    ReaderRule("spark", "type timestamp_ns", "refuse", f"{_V3}; {_SPARK_RUN}", "on the engine", why_never=_CUT),
    ReaderRule("spark", "type timestamptz_ns", "refuse", f"{_V3}; {_SPARK_RUN}", "on the engine", why_never=_CUT),
)  # fmt: skip


def refused_columns(readers: Sequence[Reader], columns: tuple[Column, ...]) -> tuple[SchemaFinding, ...]:
    """Return the columns, at any depth, for which one of the readers would refuse the table."""
    return tuple(_of_columns(readers, columns, "refuse"))


def warned_columns(readers: Sequence[Reader], columns: tuple[Column, ...]) -> tuple[SchemaFinding, ...]:
    """Return the columns, at any depth, that one of the readers may not read."""
    return tuple(_of_columns(readers, columns, "warn"))


def _of_columns(readers: Sequence[Reader], columns: tuple[Column, ...], verdict: Verdict) -> Iterator[SchemaFinding]:
    rules = [(rule, rule.column) for rule in RULES if rule.reader in readers and rule.verdict == verdict]
    for path, column in walk(columns):
        for rule, recognise in rules:
            if recognise is not None and recognise(path, column):
                yield SchemaFinding(path, rule.problem.format(type=_innermost(column.type)))


def refused_table_name(reader: Reader, name: str) -> str | None:
    """Return what a reader has against the name of a table or database, to follow the reader's name; or None."""
    found = (each for each in RULES if each.reader == reader and each.verdict == "refuse" and each.table_name)
    return next((each.problem.format(name=name) for each in found if each.table_name and each.table_name(name)), None)


def refused_partition_source(readers: Sequence[Reader], column: str) -> str | None:
    """Return what a reader has against partitioning by this column, given by its dotted path; or None."""
    found = (each for each in RULES if each.reader in readers and each.partition_source)
    return next((each.problem for each in found if each.partition_source and each.partition_source(column)), None)
