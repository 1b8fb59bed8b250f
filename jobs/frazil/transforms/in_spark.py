"""Queries of transformations in Spark: analyzed, checked, and run over rows of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from frazil.adapters.spark.sql.comparable import without_maps
from frazil.adapters.spark.sql.merge import NEW, grouped, merged, taken_out
from frazil.adapters.spark.sql.plans import analyzed, columns_read, optimized_text
from frazil.adapters.spark.sql.replace import KEY, groups_with, keys_of_groups, keys_of_rows, places_of, rows_and_places
from frazil.adapters.spark.sql.rows import (
    FILE,
    GONE,
    POSITION,
    Among,
    FilesOf,
    Merged,
    MergedFilesOf,
    StoredRows,
    TableFiles,
)
from frazil.adapters.spark.sql.session import SqlSession, quoted, schema_of
from frazil.adapters.spark.sql.stored_columns import WithStoredColumns, with_places
from frazil.adapters.spark.sql.types import NoSparkTypeError, arrow_schema, columns_of, ddl_of, spark_schema
from frazil.materialize.ingest.distribute import write_target
from frazil.model.columns import Column, Decimal, Scalar
from frazil.model.errors import QueryFailedError, SpecError
from frazil.model.ingested import WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.queries import Keyed
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec
from frazil.ports import Lake
from frazil.transforms.aggregates import OF_FLOATS, keyed_of
from frazil.transforms.function import function_of
from frazil.transforms.queries import MergedGroups, Parts, Query
from frazil.transforms.query import identity_in, refusals
from frazil.transforms.ranges import passed_through, unchanged_columns
from frazil.transforms.refused_sql import place_in_sql, said
from frazil.transforms.row_by_row import Division, division
from frazil.transforms.sources import kind_of
from frazil.transforms.tables import Changes, TableRows, live_rows

OF_BATCHES = re.compile(rf"{FILE}|{POSITION}|{GONE}|{NEW}|{KEY}\d+", re.IGNORECASE)
"""Names of columns that say where a stored row is, which rows a batch has computed, and which keys it has."""

LOOKED_UP_ROWS = 1_000_000
"""Each task that reads stored rows looks their keys up among those of a batch of fewer rows."""


@dataclass(frozen=True, slots=True)
class SparkQueries:
    """Runs queries in a session of Spark (`queries.Queries`)."""

    session: SqlSession
    lake: Lake

    def check(self, spec: TransformSpec, tables: Sequence[TableRows]) -> Query:
        frame = _frame(self.session, spec, {each.name: self.session.empty(each.columns) for each in tables}, tables)
        plan = analyzed(frame)
        kind = kind_of(spec, tables[0].view)
        found = refusals(plan, tables[0].name, kind)
        if found:
            listed = "; it ".join(each.reason for each in found)
            raise SpecError(
                f"{_place(spec)}: the query {listed}",
                hint="docs/transforms.md, What a query may do, lists what can be kept batch by batch",
            )
        columns, keyed = _columns(spec, frame), keyed_of(plan, changes=kind.changes)
        identity = identity_in(plan, tables[0].name, kind) if kind.changes and keyed is None else ()
        if keyed is not None or identity:
            _check_names(spec, columns)
        if keyed is not None:
            columns = (*columns, *_states(self.session, spec, frame, columns, keyed))
        needed, text = _optimized(spec, frame)
        return Query(columns, plan, needed, keyed, identity, kind.null_keys, text)

    def write(
        self, spec: TransformSpec, query: Query, parts: Parts, target: TableView, *, prefix: str
    ) -> list[WrittenFile]:
        files = self._files_of(spec, target, prefix)
        divided = division(query.plan, parts[0][0].name) if len(parts) == 1 else None
        if divided is None or not _has_places(parts[0][0], query):
            frame = _together([self._over_rows(spec, query, tables) for tables in parts])
            found = self.session.run(frame, files, name=f"transform {spec.name}")
        else:
            found = self._computed(spec, divided, parts[0][0], files)
        return [file for written in found for file in written]

    def _computed(self, spec: TransformSpec, divided: Division, rows: TableRows, files: FilesOf) -> list[Any]:
        """Write rows of which Spark sees only the columns that it computes with."""
        session, columns = self.session, {column.name: column for column in rows.columns}
        read = [columns[name] for name in columns if name in divided.read] or list(rows.columns[:1])
        whole = TableFiles(write_target(rows.view), self.lake.storage, session.shares(rows.files), arrow_schema(read))
        there = session.with_nulls(session.stored(read, StoredRows(whole)), rows.columns)
        frame = with_places(session, _frame(session, spec, {rows.name: there}, [rows]))
        passed = [columns[name] for name in dict.fromkeys(divided.stored.values())]
        stored = replace(whole, schema=arrow_schema(passed))
        computed = frame.select(*map(quoted, (*divided.computed, FILE, POSITION)))
        return session.run(computed, WithStoredColumns(files, stored, divided.stored), name=f"transform {spec.name}")

    def merge(
        self,
        spec: TransformSpec,
        query: Query,
        parts: Parts,
        target: TableView,
        stored: Sequence[StoredFile],
        *,
        prefix: str,
        minus: Parts = (),
    ) -> MergedGroups:
        keyed = query.keyed
        assert keyed is not None  # noqa: S101 - only a query with groups is merged
        session, averages = self.session, {each.name for each in keyed.kept if each.is_quotient}
        kept = [column for column in target.columns if column.name not in averages]
        shares = session.shares(stored)
        among = self._keys_among(query, [tables[0] for tables in (*parts, *minus)])
        old = self._stored(target, kept, shares, [*among.values()])
        frames = [self._groups(spec, query, keyed, parts)] if parts else []
        frames += [taken_out(self._groups(spec, query, keyed, minus), keyed)] if minus else []
        new = _together(frames)
        frame = merged(session, new, old, keyed, _types(target))
        files = MergedFilesOf(self._files_of(spec, target, prefix))
        try:
            return _merged(session.run(frame, files, name=f"transform {spec.name}"), shares)
        except QueryFailedError as failed:
            raise _of_narrow_sums(failed, spec, keyed, target) from failed

    def replace(
        self,
        spec: TransformSpec,
        query: Query,
        changes: Changes,
        target: TableView,
        stored: Sequence[StoredFile],
        *,
        prefix: str,
    ) -> MergedGroups:
        session, keyed = self.session, query.keyed
        shares = session.shares(stored)
        old = self._stored(target, [each for each in target.columns if each.name in query.keys], shares)
        changed = [rows for rows in (changes.added, changes.removed) if rows.files]
        if keyed is None:
            source = passed_through(query.plan, changes.now.name)
            names = [source[name] for name in query.identity]
            compared = query.needed.get(changes.now.name, frozenset()) | {*names}
            touched = keys_of_rows([each.frame(session, self.lake, compared) for each in changed], names)
            new = self._over_rows(spec, query, [changes.added])
        else:
            frames = [self._over_rows(spec, query, [each]) for each in changed]
            touched = keys_of_groups(session, frames, keyed)
            needed = query.needed.get(changes.now.name, frozenset())
            known = self._keys_among(query, changed).items()
            among = [replace(each, name=source) for source, each in known if source in needed]
            new = groups_with(session, self._over_rows(spec, query, [changes.now], among), keyed, touched)
        frame = rows_and_places(new, None if old is None else places_of(old, query.keys, touched))
        files = MergedFilesOf(self._files_of(spec, target, prefix), apart=True)
        return _merged(session.run(frame, files, name=f"transform {spec.name}"), shares)

    def differences(self, spec: TransformSpec, query: Query, parts: Parts, target: TableRows) -> tuple[int, int]:
        if query.keyed is None or query.keyed.is_recomputed:
            expected = _together([self._over_rows(spec, query, tables) for tables in parts])
        else:  # as a batch computes averages, and with what they are made of
            groups = self._groups(spec, query, query.keyed, parts)
            expected = merged(self.session, groups, None, query.keyed, _types(target.view)).drop(FILE, POSITION, GONE)
        names = frozenset(expected.columns)
        there = target.frame(self.session, self.lake, names).select(*map(quoted, expected.columns))
        name = f"verify {spec.name}"
        expected, there = without_maps(expected), without_maps(there)
        both = [(expected, there), (there, expected)]
        lacks, beyond = (self.session.counted(one.exceptAll(other), name=name) for one, other in both)
        return lacks, beyond

    def _groups(self, spec: TransformSpec, query: Query, keyed: Keyed, parts: Parts) -> Any:
        """Return the groups of each part: a group may be in several."""
        frames = (self._over_rows(spec, query, tables) for tables in parts)
        return _together([grouped(self.session, each, keyed) for each in frames])

    def _over_rows(
        self, spec: TransformSpec, query: Query, tables: Sequence[TableRows], among: Sequence[Among] = ()
    ) -> Any:
        """Return the query over tables. Rows of the first that `among` leaves out may be missing."""
        frames = {}
        for number, each in enumerate(tables):
            needed = query.needed.get(each.name, frozenset())
            frames[each.name] = each.frame(self.session, self.lake, needed, () if number else among)
        return _frame(self.session, spec, frames, tables)

    def _stored(
        self,
        target: TableView,
        columns: Sequence[Column],
        shares: Sequence[Sequence[StoredFile]],
        among: Sequence[Among] = (),
    ) -> Any | None:
        """Return the stored rows with their places; None if there are no files."""
        there = TableFiles(write_target(target), self.lake.storage, shares, arrow_schema(columns), among)
        return self.session.stored(columns, StoredRows(there)) if any(shares) else None

    def _keys_among(self, query: Query, rows: Sequence[TableRows]) -> Mapping[str, Among]:
        """Return what groups must have in common with a batch, by columns of the followed table that are keys.

        Python leaves other stored groups out, so that the JVM sees none of them.
        """
        view, files = rows[0].view, [file for each in rows for file in each.files]
        if sum(map(live_rows, files)) > LOOKED_UP_ROWS:
            return {}
        known = {column.name: column for column in rows[0].columns}
        found = {}
        for name, source in unchanged_columns(query.plan, rows[0].name).items():
            if source in known and _is_looked_up(known[source]):
                read = TableFiles(write_target(view), self.lake.storage, [files], arrow_schema([known[source]]))
                found[source] = Among(name, read)
        return found

    def _files_of(self, spec: TransformSpec, target: TableView, prefix: str) -> FilesOf:
        return FilesOf(write_target(target), self.lake.storage, prefix, spec.target_file_bytes)


def _has_places(rows: TableRows, query: Query) -> bool:
    """Return whether rows can be found by the number of their file and their position in it."""
    names = {column.name.lower() for column in (*rows.columns, *query.columns)}
    return not rows.less and all(isinstance(file, StoredFile) for file in rows.files) and not names & {FILE, POSITION}


def _is_looked_up(column: Column) -> bool:
    """Return whether equal values are equal for Arrow, too: Spark takes 0.0 and -0.0 for one key."""
    match column.type:
        case Scalar(name):
            return name not in OF_FLOATS
        case Decimal():
            return True
        case _:
            return False


def _merged(found: Sequence[Merged], shares: Sequence[Sequence[StoredFile]]) -> MergedGroups:
    return MergedGroups(
        [file for each in found for file in each.files],
        [file for share in shares for file in share],
        np.concatenate([each.file for each in found] or [np.empty(0, np.int64)]),
        np.concatenate([each.position for each in found] or [np.empty(0, np.int64)]),
    )


def _of_narrow_sums(failed: QueryFailedError, spec: TransformSpec, keyed: Keyed, target: TableView) -> QueryFailedError:
    """Return the error, with what to do if the sum of an average may have left the 64 bits of an earlier table."""
    sums = {each.states[0] for each in keyed.kept if each.is_quotient}
    narrow = [each.name for each in target.columns if each.name in sums and each.type == Scalar("long")]
    if "CAST_OVERFLOW" not in failed.what or not narrow:
        return failed
    return QueryFailedError(
        failed.what,
        hint=f"the table keeps {', '.join(narrow)} in 64 bits, as an earlier release made it: run"
        f" `frazil transform rebuild {spec.name}`, which gives it 38 digits",
    )


def _together(frames: Sequence[Any]) -> Any:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _types(target: TableView) -> dict[str, str]:
    """Return the types of a table's columns as SQL writes them, in the order of the columns."""
    return {each["name"]: ddl_of(each["type"]) for each in spark_schema(target.columns)["fields"]}


def _states(
    session: SqlSession, spec: TransformSpec, frame: Any, output: Sequence[Column], keyed: Keyed
) -> list[Column]:
    """Return the columns of which averages are made. Raises SpecError if the query has one of their names."""
    names = {column.name.lower() for column in output}
    states = {*keyed.internal}
    for name in sorted(states):
        if name.lower() in names:
            raise SpecError(
                f"{_place(spec)}: the table keeps {name} for an average, and the query has such a column, too",
                hint="name the column of the query otherwise",
            )
    return [column for column in _columns(spec, grouped(session, frame, keyed)) if column.name in states]


def _check_names(spec: TransformSpec, columns: Sequence[Column]) -> None:
    """Raise SpecError for a name that a column beside those of the query has while rows are replaced."""
    taken = [column.name for column in columns if OF_BATCHES.fullmatch(column.name)]
    if taken:
        raise SpecError(
            f"{_place(spec)}: the query names a column {' and '.join(taken)}, which a batch that replaces rows adds",
            hint="name it otherwise, with AS",
        )


def query_over(session: SqlSession, spec: TransformSpec, frames: Mapping[str, Any]) -> Any:
    """Return the query over other rows than those of tables. Raises SpecError."""
    return _frame(session, spec, frames, ())


def _frame(session: SqlSession, spec: TransformSpec, frames: Mapping[str, Any], tables: Sequence[TableRows]) -> Any:
    session.show(frames)
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
            f"{_place(spec)}: {spec.function} failed: {type(problem).__name__}: {said(problem)}",
            hint="the function is called with a DataFrame for `from` and one for each of `joins`",
        ) from problem
    if not hasattr(made, "_jdf"):
        raise SpecError(
            f"{_place(spec)}: {spec.function} returned {type(made).__name__}, expected a DataFrame",
            hint="return the DataFrame with the rows to write",
        )
    return made


def _refused(spec: TransformSpec, problem: Exception, tables: Sequence[TableRows]) -> SpecError:
    names = ", ".join(each.partition(".")[2] for each in spec.tables)
    left_out = [f"{each.name}.{name}" for each in tables for name in each.left_out]
    more = f"; Spark cannot read {', '.join(left_out)}, a time of day" if left_out else ""
    columns = f", with their columns in `frazil query 'DESCRIBE {spec.source}'`"
    hint = f"the tables are {names}{columns * all(each.view.head is not None for each in tables)}{more}"
    if "TABLE_OR_VIEW_NOT_FOUND" in str(problem):
        hint = f"the tables are {names}, without a database: name others in `joins`"
    if "PARSE_SYNTAX_ERROR" in str(problem):
        hint = "correct the SQL before this place: a word, a comma, a quote or a bracket"
    return SpecError(f"{_place(spec)}{place_in_sql(problem)}: {said(problem)}", hint=hint)


def _optimized(spec: TransformSpec, frame: Any) -> tuple[dict[str, frozenset[str]], str]:
    """Return the columns that the query needs of each table, and its optimized plan.

    Raises SpecError for a constant that fails, such as `1 / 0`: the optimizer computes it.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with PySpark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a second to import

    try:
        return columns_read(frame), optimized_text(frame)
    except (Py4JJavaError, PySparkException) as problem:
        raise SpecError(
            f"{_place(spec)}{place_in_sql(problem)}: the query fails whatever its rows are: {said(problem)}",
            hint="correct the constant, or what is computed of constants only",
        ) from problem


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
