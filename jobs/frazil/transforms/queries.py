"""What carries out the query of a transformation, as a Protocol: Spark does (`in_spark.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.model.columns import Column
from frazil.model.identity_columns import HALVES
from frazil.model.ingested import WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.queries import Keyed, Operator
from frazil.model.snapshot import TableView
from frazil.model.transforms import Identified, TransformSpec
from frazil.transforms.tables import Changes, TableRows


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query: the columns of its rows, its plan, and the columns of each table that it needs."""

    columns: tuple[Column, ...]
    plan: Operator
    needed: Mapping[str, frozenset[str]]
    keyed: Keyed | None = None
    """The aggregates of a GROUP BY that is the last step."""
    identity: tuple[str, ...] = ()
    """The columns that name a row of a followed table whose rows change, where there is no GROUP BY."""
    null_keys: bool = False
    """Whether null in them is a value as others."""
    text: str = ""
    """The optimized plan, as the engine prints it."""

    @property
    def rows(self) -> Identified:
        """The columns that name a row, and those that the query itself does not have."""
        keyed = self.keyed
        if keyed is not None:
            return Identified(keyed.keys, keyed.internal, null_keys=True)
        halves = tuple(column.name for column in self.columns if column.name in HALVES)
        return Identified(self.identity, halves, self.null_keys) if self.identity else Identified()

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name a row, if rows are replaced."""
        return self.identity if self.keyed is None else self.keyed.keys

    @property
    def replaces(self) -> bool:
        """Return whether a batch computes the rows with its keys again from rows of the followed table."""
        return bool(self.identity) or (self.keyed is not None and self.keyed.is_recomputed)


@dataclass(frozen=True, slots=True)
class MergedGroups:
    """Files with the groups that have new rows, and the stored rows that they take the place of.

    `file` are numbers of `stored`, `position` the row in that file.
    """

    files: Sequence[WrittenFile]
    stored: Sequence[StoredFile]
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


Parts = Sequence[Sequence[TableRows]]
"""The tables of a query, at one time or at several: its rows are those over each."""


class Queries(Protocol):
    """Analyzes queries and runs them. The first of the tables is the followed one."""

    def check(self, spec: TransformSpec, tables: Sequence[TableRows]) -> Query:
        """Analyze the query against the columns of the tables; no row is read.

        Raises SpecError for what the engine or a table cannot do, and for a query that cannot be kept batch by batch.
        """
        ...

    def write(
        self, spec: TransformSpec, query: Query, parts: Parts, target: TableView, *, prefix: str
    ) -> Sequence[WrittenFile]:
        """Write the rows of the query to new data files of the target, whose names begin with `prefix`.

        Raises QueryFailedError, and TaskFailedError if the engine failed.
        """
        ...

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
        """Group the rows, merge the groups with those in the files `stored` of the target, and write them.

        Those of `minus` are taken out of the groups.

        Raises as `write`.
        """
        ...

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
        """Write the rows of the query that have keys of changed rows, to take the place of those in `stored`.

        Raises as `write`.
        """
        ...

    def differences(self, spec: TransformSpec, query: Query, parts: Parts, target: TableRows) -> tuple[int, int]:
        """Return how many rows of the query over these parts the target lacks, and how many it has beyond them.

        Raises as `write`.
        """
        ...
