"""The keys of an export spec, and the export that they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from frazil.model.errors import SpecError
from frazil.model.exports import Every, ExportFormat, ExportSpec, ExportWindow, Timestamps
from frazil.model.spec import TableSpec
from frazil.specs.across import retained_problem
from frazil.specs.document import Node
from frazil.specs.keys import Derived, Key, Required, Section, Values
from frazil.specs.partitions import COLUMN_NAME
from frazil.specs.problems import Problem
from frazil.specs.scalars import BOOLEAN_TEXT, COUNT, DURATION, NAME, SIZE, parse_duration, parse_size
from frazil.specs.shapes import At, Choice, JsonSchema, ListOf, Scalar, Unfit, absolute

S3 = "s3://"
MINUTE, LONGEST_LINK = 60, 365 * 24 * 60 * 60
LARGEST_PART = 4_000_000_000
"""A whole file gets its name on S3 by a copy, which takes at most 5 GB; a part is a little larger than its size."""
OF_A_MACHINE, VARIANTS = ("localtime", "posixrules", "Factory"), ("posix/", "right/")
"""Files beside those of time zones: the zone of this machine, and zones with leap seconds, for instance."""


def parse_table(text: str) -> str:
    if not 1 <= len(text.split(".")) <= 2 or not all(NAME.fullmatch(part) for part in text.split(".")):
        raise Unfit("write `table` or `database.table`")
    return text


def parse_time_zone(text: str) -> str:
    expected = "write a name of the IANA time zone database: Europe/Berlin, America/New_York, UTC"
    if text in OF_A_MACHINE or text.startswith(VARIANTS):
        raise Unfit(expected)
    try:
        return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unfit(expected) from error


def parse_true(text: str) -> bool:
    if text != "true":
        raise Unfit("write true, or remove the key and give a window")
    return True


def parse_condition(text: str) -> str:
    from pyiceberg.expressions.parser import parse  # noqa: PLC0415 - slow, and rarely needed

    try:
        parse(text)
    except Exception as error:  # the parser raises errors of several libraries
        raise Unfit("write it as Iceberg's filters are: side = 'BUY' AND quantity > 100") from error
    return text


def parse_part_size(text: str) -> int:
    size = parse_size(text)
    if size > LARGEST_PART:
        raise Unfit("write at most 4GB")
    return size


def parse_link(text: str) -> int | None:
    """Return the seconds for which a link opens a file, None for no link."""
    if text == "none":
        return None
    seconds = int(parse_duration(text).total_seconds())
    if not MINUTE <= seconds <= LONGEST_LINK:
        raise Unfit("write none, or 1m to 365d")
    return seconds


class Destination:
    """A folder, relative to that of frazil.yaml, or an address on S3."""

    label = "a folder, or s3://bucket/prefix"

    def read(self, node: Node, at: At) -> str:
        text = at.printable(node, expected=self.label).text
        if text.startswith(S3):
            if not text.removeprefix(S3).partition("/")[0]:
                raise at.reject(node.mark, f'"{text}" names no bucket', hint="write s3://bucket/prefix")
            return text.rstrip("/")
        if "://" in text or text.startswith("~"):
            hint = "write a folder such as .frazil/exports, or s3://bucket/prefix"
            raise at.reject(node.mark, f'expected {self.label}, found "{text}"', hint=hint)
        return absolute(at.folder, text)

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


TRUE = Scalar("true", parse_true, {"enum": [True]}, numeric=True)

WINDOW_COLUMN = Key("column", COLUMN_NAME, "The column with the time of a row; rows without one are in no window.",
                    Required())  # fmt: skip
EVERY = Key("every", Choice(("day", "week", "month")), "What a run covers: the last whole day, ISO week or month.",
            "week")  # fmt: skip
TIME_ZONE = Key("time_zone", Scalar("a time zone", parse_time_zone),
                "The time zone in which days, weeks and months begin.", "UTC")  # fmt: skip
WINDOW = Section((WINDOW_COLUMN, EVERY, TIME_ZONE), label="a window")

TABLE = Key("table", Scalar("a table", parse_table), "The table, as `table` or `database.table`.", Required())
TO = Key("to", Destination(), "Where the files go: a folder relative to that of frazil.yaml, or s3://bucket/prefix.",
         Required())  # fmt: skip
WINDOW_KEY = Key("window", WINDOW, "Which rows a run exports, by their time.",
                 Derived("none: either window or incremental is given"))  # fmt: skip
INCREMENTAL = Key("incremental", TRUE, "A run exports the rows that were added since the last run.",
                  Derived("none: either window or incremental is given"))  # fmt: skip
COLUMNS = Key("columns", ListOf(COLUMN_NAME, at_least_one=True), "The columns, in this order.",
              Derived("all columns of the table"))  # fmt: skip
WHERE = Key("where", Scalar("a condition", parse_condition),
            "Only rows that meet this condition, in Iceberg's filter language: `side = 'BUY' AND quantity > 100`.",
            Derived("all rows"))  # fmt: skip
FORMAT = Key("format", Choice(("csv", "parquet")), "The format of the files; CSV is that of RFC 4180, in UTF-8.", "csv")
GZIP = Key("gzip", BOOLEAN_TEXT, "Compress CSV files with gzip.", "false")
PART_SIZE = Key("part_size", Scalar(SIZE.label, parse_part_size, SIZE.schema),
                "The size from which the next rows go to another file, as it is stored.",
                "256MB", unit="bytes")  # fmt: skip
PART_ROWS = Key(
    "part_rows", COUNT, "The most rows of a file. A sheet of Excel has 1,048,576.", "1_000_000", unit="rows"
)
FORMULA_GUARD = Key("formula_guard", BOOLEAN_TEXT,
                    "Write ' before text that a spreadsheet would take for a formula; the manifest has the count.",
                    "true")  # fmt: skip
TIMESTAMPS = Key("timestamps", Choice(("utc", "wall")),
                 "How CSV has times: utc is RFC 3339 with microseconds and Z; wall is the wall-clock time in the time"
                 " zone of the window, cut to milliseconds and without an offset, as spreadsheets read it.",
                 "utc")  # fmt: skip
BYTE_ORDER_MARK = Key("byte_order_mark", BOOLEAN_TEXT,
                      "Begin CSV files with the mark by which Excel recognizes UTF-8.", "false")  # fmt: skip
LINK = Key("link", Scalar("none, or a duration", parse_link),
           "How long the links of an announcement open the files, for everyone who has the mail: 7d. none is for"
           " personal data.", "none")  # fmt: skip

KEEP_TAGS = Key("keep_tags", DURATION,
                "The age from which exported snapshots lose the tags that keep them. Windows stay finished, and late"
                " rows are still found.", Derived("for ever"), "s, m, h or d")  # fmt: skip

OF_CSV: tuple[Key[object], ...] = (GZIP, FORMULA_GUARD, TIMESTAMPS, BYTE_ORDER_MARK)
EXPORT_SECTION = Section(
    (TABLE, TO, WINDOW_KEY, INCREMENTAL, COLUMNS, WHERE, FORMAT, PART_SIZE, PART_ROWS, *OF_CSV, LINK, KEEP_TAGS),
    exactly_one=("window", "incremental"),
)


def export_problems(values: Values, made: ExportSpec, tables: Sequence[TableSpec]) -> Iterator[Problem]:
    """Yield the keys that have no effect, and a problem if its table does not keep its rows."""
    old_rows_go = retained_problem(made.table, tables, values.place_of(TABLE), by="an export of")
    if old_rows_go is not None:
        yield old_rows_go
    for key in OF_CSV:
        if values[FORMAT] != "csv" and values.is_given(key):
            what = f"no effect, because format is {values[FORMAT]}"
            yield Problem(values.place_of(key), what, f"remove {key.name}, or set format: csv", SpecError)


def export_of(values: Values, file: str, database: str) -> ExportSpec:
    table, window = values[TABLE], values.get(WINDOW_KEY)
    return ExportSpec(
        source_file=file,
        name=PurePath(file).stem,
        table=table if "." in table else f"{database}.{table}",
        to=values[TO],
        window=None if window is None else _window_of(window),
        columns=values.get(COLUMNS) or (),
        where=values.get(WHERE) or "",
        format=cast("ExportFormat", values[FORMAT]),
        gzip=values[GZIP] == "true",
        part_bytes=values[PART_SIZE],
        part_rows=values[PART_ROWS],
        formula_guard=values[FORMULA_GUARD] == "true",
        timestamps=cast("Timestamps", values[TIMESTAMPS]),
        byte_order_mark=values[BYTE_ORDER_MARK] == "true",
        link_seconds=values[LINK],
        tag_seconds=None if (age := values.get(KEEP_TAGS)) is None else int(age.total_seconds()),
    )


def _window_of(values: Values) -> ExportWindow:
    return ExportWindow(values[WINDOW_COLUMN], cast("Every", values[EVERY]), values[TIME_ZONE])
