"""Queries of transformations in Spark: analyzed, checked, and run over rows of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.adapters.spark.sql.plans import analyzed, columns_read
from frazil.adapters.spark.sql.rows import FilesOf
from frazil.adapters.spark.sql.session import SqlSession, schema_of
from frazil.adapters.spark.sql.types import NoSparkTypeError, columns_of
from frazil.materialize.ingest.distribute import write_target
from frazil.model.columns import Column
from frazil.model.errors import SpecError
from frazil.model.ingested import WrittenFile
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec
from frazil.ports import Lake
from frazil.transforms.function import function_of
from frazil.transforms.queries import Query
from frazil.transforms.query import refusals
from frazil.transforms.tables import TableRows

_NOISE = re.compile(r" SQLSTATE: \w+.*|;\s*$", re.DOTALL)
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ")
_PLACE = re.compile(r"line (\d+) pos (\d+)")


@dataclass(frozen=True, slots=True)
class SparkQueries:
    """Runs queries in a session of Spark (`queries.Queries`)."""

    session: SqlSession
    lake: Lake

    def check(self, spec: TransformSpec, tables: Sequence[TableRows]) -> Query:
        session = self.session
        frame = _frame(session, spec, {each.name: session.empty(each.columns) for each in tables}, tables)
        plan = analyzed(frame)
        found = refusals(plan, tables[0].name)
        if found:
            listed = "; it ".join(each.reason for each in found)
            raise SpecError(
                f"{_place(spec)}: the query {listed}",
                hint="docs/transforms.md, What a query may do, lists what can be kept batch by batch",
            )
        return Query(_columns(spec, frame), plan, columns_read(frame))

    def write(
        self, spec: TransformSpec, query: Query, tables: Sequence[TableRows], target: TableView, *, prefix: str
    ) -> list[WrittenFile]:
        needed = {each.name: query.needed.get(each.name, frozenset()) for each in tables}
        frames = {each.name: each.frame(self.session, self.lake, needed[each.name]) for each in tables}
        frame = _frame(self.session, spec, frames, tables)
        files = FilesOf(write_target(target), self.lake.storage, prefix, spec.target_file_bytes)
        found = self.session.write(frame, files, name=f"transform {spec.name}")
        return [file for written in found for file in written]


def _frame(session: SqlSession, spec: TransformSpec, frames: Mapping[str, Any], tables: Sequence[TableRows]) -> Any:
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    if spec.function:
        return _called(session, spec, [session.spark.table(name) for name in frames])
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a second to import

    try:
        return session.spark.sql(spec.sql)
    except PySparkException as problem:
        raise _refused(spec, problem, tables) from problem


def _called(session: SqlSession, spec: TransformSpec, frames: Sequence[Any]) -> Any:
    function = function_of(spec)
    try:
        made = function(*frames)
    except Exception as problem:
        raise SpecError(
            f"{_place(spec)}: {spec.function} failed: {type(problem).__name__}: {_said(problem)}",
            hint="the function is called with a DataFrame for `from` and one for each of `joins`",
        ) from problem
    if not hasattr(made, "_jdf"):
        raise SpecError(
            f"{_place(spec)}: {spec.function} returned {type(made).__name__}, expected a DataFrame",
            hint="return the DataFrame with the rows to write",
        )
    return made


def _refused(spec: TransformSpec, problem: Exception, tables: Sequence[TableRows]) -> SpecError:
    names = ", ".join(each.name for each in tables)
    left_out = [f"{each.name}.{name}" for each in tables for name in each.left_out]
    more = f"; Spark cannot read {', '.join(left_out)}, a time of day" if left_out else ""
    hint = f"the tables are {names}, with their columns in `frazil query 'DESCRIBE {tables[0].view.identifier}'`{more}"
    if "TABLE_OR_VIEW_NOT_FOUND" in str(problem):
        hint = f"the tables are {names}, without a database: name others in `joins`"
    return SpecError(f"{_place(spec)}{_line(problem)}: {_said(problem)}", hint=hint)


def _said(problem: Exception) -> str:
    """Return Spark's message without its code, its plan and its state."""
    return _CONDITION.sub("", _NOISE.sub("", str(problem)).strip()).replace("\n", " ")


def _line(problem: Exception) -> str:
    place = _PLACE.search(str(problem))
    return "" if place is None else f" (line {place.group(1)} of the SQL, character {int(place.group(2)) + 1})"


def _place(spec: TransformSpec) -> str:
    return f"{spec.source_file}: {'python' if spec.function else 'sql'}"


def _columns(spec: TransformSpec, frame: Any) -> tuple[Column, ...]:
    try:
        columns = columns_of(schema_of(frame))
    except NoSparkTypeError as unknown:
        raise SpecError(
            f"{_place(spec)}: the column {unknown}, which no column of a table can have",
            hint="cast it: `CAST(x AS string)`; a NULL without a type needs a cast, too",
        ) from unknown
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(
                f"{_place(spec)}: two columns of the result have the name {name}",
                hint="name the columns one by one, with AS for one of them",
            )
    return columns
