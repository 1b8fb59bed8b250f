"""A Spark session for SQL over rows that Python workers read and write.

PySpark's own `mapInArrow` asks for pandas, which it does not use: Catalyst's node is built here without it.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from frazil.adapters.spark.cluster import cause_in
from frazil.adapters.spark.runner import SparkRunner, TaskFailedError
from frazil.adapters.spark.sql.rows import FILE, POSITION, StoredRows, TableFiles
from frazil.adapters.spark.sql.types import spark_schema
from frazil.materialize.even_shares import even_shares
from frazil.model import sql_text
from frazil.model.changed_rows import LostRows
from frazil.model.columns import Column, Scalar
from frazil.model.errors import FrazilError, QueryFailedError
from frazil.model.ingested import ATTEMPTS_OF_A_TASK
from frazil.model.probe import StoredFile

File = TypeVar("File", StoredFile, StoredFile | LostRows)
MapInArrow = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ROWS_OF_A_TASK = 250_000
"""A task for fewer rows costs more than it saves."""

BATCH_ROWS = 65_536
"""Rows that Spark hands to Python at once."""

BATCH_BYTES = 32 << 20
"""Bytes of rows after which it hands them over, also if these are fewer rows."""

SHUFFLED_ROWS = 500_000
"""Rows for which a shuffle gets another partition."""

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.caseSensitive": "false",
    "spark.sql.adaptive.enabled": "true",
}


_ON_A_ROW = re.compile(r"\[([A-Z][A-Z_.]+)\] ([^\n]*?)(?:Use `|If necessary|To return|SQLSTATE)")
"""Spark's own conditions, such as DIVIDE_BY_ZERO, and what it says of them before its advice."""


class SqlSession:
    """One session on the application of a runner. Sessions of several threads do not see each other's views."""

    def __init__(self, runner: SparkRunner) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a second to import, and only some verbs need it

        logging.getLogger("SQLQueryContextLogger").disabled = True  # logs each refused query with a stack trace
        context = runner.start()
        self.spark: Any = SparkSession(context).newSession()
        self._runner = runner
        self._shown: frozenset[str] = frozenset()
        for name, value in (_SETTINGS | {"spark.sql.shuffle.partitions": str(max(2, runner.parallelism))}).items():
            self.spark.conf.set(name, value)

    @property
    def parallelism(self) -> int:
        return self._runner.parallelism

    def show(self, frames: Mapping[str, Any]) -> None:
        """Let queries see these DataFrames by their names, and none of the earlier ones."""
        for name in self._shown - frames.keys():
            self.spark.catalog.dropTempView(name)
        self._shown = frozenset(frames)
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)

    def shares(self, files: Sequence[File]) -> list[list[File]]:
        """Divide files among tasks."""
        rows = sum(file.rows for file in files)
        count = max(1, min(self.parallelism, len(files), -(-rows // ROWS_OF_A_TASK)))
        return even_shares(files, size=lambda file: file.rows, count=count)

    def frame(self, columns: Sequence[Column], files: TableFiles, names: Sequence[str]) -> Any:
        """Return a DataFrame with all `columns`, of which those with other `names` are null and read by no task."""
        read = [column for column in columns if column.name in names]
        count = len(files.shares)
        frame = self.map_in_arrow(self.spark.range(0, count, 1, count), files, spark_schema(read))
        return self.with_nulls(frame, columns)

    def with_nulls(self, frame: Any, columns: Sequence[Column]) -> Any:
        """Return these columns of a DataFrame. Those that it lacks are null."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as all Spark code calls it
        from pyspark.sql.types import StructType  # noqa: PLC0415

        there, whole = set(frame.columns), StructType.fromJson(spark_schema(columns))
        return frame.select(
            *(F.col(quoted(f.name)) if f.name in there else F.lit(None).cast(f.dataType).alias(f.name) for f in whole)
        )

    def frame_of(self, plan: Any) -> Any:
        """Return the DataFrame of one of Catalyst's logical plans."""
        from pyspark.sql import DataFrame  # noqa: PLC0415

        dataset = self.spark._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def empty(self, columns: Sequence[Column]) -> Any:
        """Return a DataFrame with these columns and without rows, which the optimizer does not know to be empty."""
        return self.map_in_arrow(self.spark.range(0, 0, 1, 1), _nothing, spark_schema(columns))

    def map_in_arrow(self, frame: Any, function: MapInArrow, schema: dict[str, Any]) -> Any:
        from pyspark.sql import DataFrame  # noqa: PLC0415
        from pyspark.sql.types import StructType  # noqa: PLC0415
        from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
        from pyspark.util import PythonEvalType  # noqa: PLC0415

        made = UserDefinedFunction(
            function, returnType=StructType.fromJson(schema), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        )
        column = made(*(frame[quoted(name)] for name in frame.columns))
        return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), self.spark)

    def stored(self, columns: Sequence[Column], rows: StoredRows) -> Any:
        """Return a DataFrame of stored rows with their places."""
        places = [Column(name, Scalar("long")) for name in (FILE, POSITION)]
        count = len(rows.files.shares)
        return self.map_in_arrow(self.spark.range(0, count, 1, count), rows, spark_schema([*columns, *places]))

    def counted(self, frame: Any, *, name: str) -> int:
        """Return the number of rows. Raises QueryFailedError, TaskFailedError and FrazilErrors as `run`."""
        self.spark.sparkContext.setJobDescription(name)
        try:
            return int(frame.count())
        except Exception as problem:
            raise failed_query(name, problem) from problem

    def run(self, frame: Any, files: MapInArrow, *, name: str) -> list[Any]:
        """Run a query and write its rows. Return what each task wrote.

        Raises QueryFailedError if it fails on a row, TaskFailedError if a worker failed, and FrazilErrors of tasks.
        """
        self.spark.sparkContext.setJobDescription(name)
        result = spark_schema([Column("result", Scalar("binary"))])
        try:
            rows = self.map_in_arrow(frame, files, result).collect()
        except Exception as problem:
            raise failed_query(name, problem) from problem
        found = [pickle.loads(row[0]) for row in rows]  # noqa: S301 - our own tasks wrote it
        for each in found:
            if isinstance(each, FrazilError):
                raise each
        return found


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def quoted(name: str) -> str:
    return sql_text.quoted(name, "`")


def schema_of(frame: Any) -> dict[str, Any]:
    """Return Spark's JSON of the schema of a DataFrame."""
    found: dict[str, Any] = json.loads(frame.schema.json())
    return found


def failed_query(name: str, problem: Exception) -> FrazilError:
    """Return the error for a query that failed while it ran: on a row, or with its worker."""
    on_a_row = _ON_A_ROW.search(str(problem))
    if on_a_row is not None:
        condition, said = on_a_row.groups()
        return QueryFailedError(
            f"{name}: the query fails on a row: {condition}: {said.strip()}; nothing was published",
            hint="let the query expect such values: `try_divide(a, b)`, `try_cast(x AS int)`, `nullif`; or filter them",
        )
    return TaskFailedError(
        f"{name}: a Spark task failed {ATTEMPTS_OF_A_TASK} times: {cause_in(str(problem))}",
        hint="nothing was published; look for a killed worker or too little memory, and run again",
    )
