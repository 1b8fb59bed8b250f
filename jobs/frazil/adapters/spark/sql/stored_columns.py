"""Queries whose rows have columns of stored rows unchanged: the JVM sees only the columns that it computes with.

To hand a column to the JVM and back takes longer than to read it twice. So the rows come out of the query with their
places, and the task that writes them reads the other columns there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.adapters.spark.sql.plans import each_of, kind_of
from frazil.adapters.spark.sql.rows import FILE, POSITION, FilesOf, TableFiles, as_row, as_spark_has_it
from frazil.adapters.spark.sql.session import SqlSession
from frazil.model.errors import DefectError
from frazil.model.probe import StoredFile

_PASSED_OVER = {"SubqueryAlias", "View", "UnresolvedHint", "ResolvedHint"}
"""Operators that change no column of their only child."""

_Numbers = npt.NDArray[np.int64]


def with_places(session: SqlSession, frame: Any) -> Any:
    """Return a query over stored rows with the place of the stored row of each of its rows.

    It makes at most one row of each, in the same order; the stored rows are those of `SqlSession.stored`.
    """
    plan, _ = _carried(session.spark._jvm, frame._jdf.queryExecution().analyzed())
    return session.frame_of(plan)


def _carried(jvm: Any, node: Any) -> tuple[Any, list[Any]]:
    """Return the plan whose output also has the places, and these two attributes."""
    logical, kind = jvm.org.apache.spark.sql.catalyst.plans.logical, kind_of(node)
    if kind == "MapInArrow":
        attributes = {str(each.name()): each for each in each_of(node.output())}
        return node, [attributes[name] for name in (FILE, POSITION)]
    plan, places = _carried(jvm, node.child())
    if kind in _PASSED_OVER:
        return plan, places
    if kind == "Filter":
        return logical.Filter(node.condition(), plan), places
    assert kind == "Project", kind  # noqa: S101 - `row_by_row.division` allows no other
    columns = node.projectList()
    for place in places:
        columns = columns.appended(place)
    return logical.Project(columns, plan), places


@dataclass(frozen=True, slots=True)
class WithStoredColumns:
    """Writes the rows of a query whose columns are those that it computed, and stored ones, which are read here.

    `stored` are the files that the places name, and the columns to read. `names` has the query's names of these: one
    column may have several.
    """

    files: FilesOf
    stored: TableFiles
    names: Mapping[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield as_row(self.files.result(self._whole(batches)))

    def _whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source, reading = self.stored.source, None
        numbered = [file for share in self.stored.shares for file in share if isinstance(file, StoredFile)]
        for batch in batches:
            file, position = (batch.column(name).to_numpy() for name in (FILE, POSITION))
            computed = batch.drop_columns([FILE, POSITION])
            for start, end in _runs(file):
                number = int(file[start])
                if reading is None or reading.number != number:
                    reading = _Reading.of(source, numbered[number], number, after=reading)
                for rows in reading.rows_at(position[start:end]):
                    yield self._joined(computed.slice(start, rows.num_rows), rows)
                    start += rows.num_rows  # noqa: PLW2901

    def _joined(self, computed: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        there = as_spark_has_it(rows, self.stored.schema)
        columns = {name: there.column(source) for name, source in self.names.items()}
        columns |= dict(zip(computed.schema.names, computed.columns, strict=True))
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _runs(numbers: _Numbers) -> Iterator[tuple[int, int]]:
    """Yield where equal numbers that follow each other begin and end."""
    if len(numbers):
        ends = np.flatnonzero(np.diff(numbers)) + 1
        yield from zip([0, *ends.tolist()], [*ends.tolist(), len(numbers)], strict=True)


@dataclass(slots=True)
class _Reading:
    """Live rows of one file, read from its beginning."""

    number: int
    path: str
    deleted: Positions
    batches: Iterator[pa.RecordBatch]
    start: int = 0
    held: pa.RecordBatch | None = None
    next_place: int = 0

    @classmethod
    def of(cls, source: WholeRows, file: StoredFile, number: int, *, after: _Reading | None) -> _Reading:
        deleted = source.deleted_in(file)
        reading = cls(number, file.path, deleted, source.read_without(file.path, deleted))
        if after is not None and after.number >= number:
            raise reading.defect(f"its rows came after those of {after.path}")
        return reading

    def rows_at(self, positions: _Numbers) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these positions, ascending and behind those of earlier calls, in one batch or several.

        Raises DefectError for other places.
        """
        wanted = positions - np.searchsorted(self.deleted, positions) if len(self.deleted) else positions
        self._check(wanted)
        while len(wanted):
            held = self._holding(int(wanted[0]))
            count = int(np.searchsorted(wanted, self.start + held.num_rows))
            here = wanted[:count] - self.start
            yield held.slice(int(here[0]), count) if here[-1] - here[0] == count - 1 else held.take(pa.array(here))
            wanted = wanted[count:]

    def _holding(self, place: int) -> pa.RecordBatch:
        """Return the batch that has the row at this place among the live ones."""
        while self.held is None or place >= self.start + self.held.num_rows:
            self.start += 0 if self.held is None else self.held.num_rows
            self.held = next(self.batches, None)
            if self.held is None:
                raise self.defect(f"the query has a row of place {place}, and the file has {self.start} live rows")
        return self.held

    def _check(self, wanted: _Numbers) -> None:
        if (np.diff(wanted) <= 0).any() or wanted[0] < self.next_place:
            raise self.defect("the rows of a query came in another order than those of the file, or twice")
        self.next_place = int(wanted[-1]) + 1

    def defect(self, what: str) -> DefectError:
        return DefectError(f"{self.path}: {what}", hint="nothing was published; report this as a defect")
