"""The files of an export with rows: CSV or Parquet, each up to a size."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from frazil.exports.cells import as_cells, is_nested, is_text
from frazil.exports.formula_guard import guarded, guarded_name
from frazil.exports.json_cells import as_json
from frazil.exports.streams import CountedStream, GzipStream, Output
from frazil.model.exports import ExportSpec

ROWS_AT_ONCE = 4_096
"""How many rows Arrow's CSV writer converts at a time."""

ROW_GROUP_BYTES = 32_000_000
"""Bytes of rows in memory that are written as one row group."""

END_OF_LINE = "\r\n"
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Part:
    """One finished file. `guarded` cells have an apostrophe that the table does not have."""

    name: str
    rows: int
    bytes: int
    sha256: str
    guarded: int = 0


class PartWriter(Protocol):
    """Writes one file."""

    guarded: int

    def write(self, rows: pa.RecordBatch) -> None: ...

    def finish(self) -> None:
        """Write what is left, without closing the stream."""
        ...


class CsvWriter:
    """CSV as in RFC 4180: CRLF, a header, and all text in quotes."""

    def __init__(self, stream: CountedStream, spec: ExportSpec, schema: pa.Schema) -> None:
        self._gzip = GzipStream(stream) if spec.gzip else None
        self._write = stream.write if self._gzip is None else self._gzip.write
        self._wall_clock = ZoneInfo(spec.time_zone) if spec.timestamps == "wall" else None
        self._guards = spec.formula_guard
        self._options = arrow_csv.WriteOptions(include_header=False, eol=END_OF_LINE, batch_size=ROWS_AT_ONCE)
        self.guarded = 0
        self._write(_header(schema, spec).encode())

    def write(self, rows: pa.RecordBatch) -> None:
        cells = [self._cells(column) for column in rows.columns]
        sink = pa.BufferOutputStream()
        arrow_csv.write_csv(pa.RecordBatch.from_arrays(cells, rows.schema.names), sink, self._options)
        self._write(sink.getvalue())

    def finish(self) -> None:
        if self._gzip is not None:
            self._gzip.finish()

    def _cells(self, column: pa.Array) -> pa.Array:
        if is_nested(column.type):
            return as_json(column, self._wall_clock)
        if not is_text(column.type):
            return as_cells(column, self._wall_clock)
        if not self._guards:
            return column
        text, count = guarded(column)
        self.guarded += count
        return text


def _header(schema: pa.Schema, spec: ExportSpec) -> str:
    text = io.StringIO()
    names = [guarded_name(name) if spec.formula_guard else name for name in schema.names]
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator=END_OF_LINE).writerow(names)
    return (BYTE_ORDER_MARK if spec.byte_order_mark else "") + text.getvalue()


class ParquetWriter:
    """Parquet with row groups of a bounded size."""

    def __init__(self, stream: CountedStream, spec: ExportSpec, schema: pa.Schema) -> None:
        del spec
        self._writer = pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self.guarded = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        if sum(each.nbytes for each in self._held) >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
        self._held = []


@dataclass(slots=True)
class _OpenPart:
    name: str
    stream: CountedStream
    writer: PartWriter
    rows: int = 0


@dataclass(slots=True)
class PartsWriter:
    """Divides rows into files. `open_file` opens a file by its name; `stem` is the beginning of the names.

    `on_part` is called after each finished file, with the number of the rows that were given to `write` and are not in
    it yet.
    """

    spec: ExportSpec
    schema: pa.Schema
    stem: str
    open_file: Callable[[str], Output]
    on_part: Callable[[Part, int], None]
    number: int = 0
    """The number of files before."""
    _open: _OpenPart | None = field(default=None, init=False)

    def write(self, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            part = self._open = self._open or self._begin()
            piece = rows.slice(0, self.spec.part_rows - part.rows)
            part.writer.write(piece)
            part.rows += piece.num_rows
            rows = rows.slice(piece.num_rows)
            if part.rows >= self.spec.part_rows or part.stream.size >= self.spec.part_bytes:
                self._end(rows.num_rows)

    def close(self) -> None:
        """Finish the last file."""
        if self._open is not None:
            self._end(0)

    def abandon(self) -> None:
        """Leave the open file, which is not whole: another run may have one by the same name."""
        if self._open is not None:
            self._open.stream.abandon()
            self._open = None

    def _begin(self) -> _OpenPart:
        self.number += 1
        name = f"{self.stem}_part_{self.number}{self.spec.ending}"
        stream = CountedStream(self.open_file(name))
        make = CsvWriter if self.spec.format == "csv" else ParquetWriter
        try:
            return _OpenPart(name, stream, make(stream, self.spec, self.schema))
        except BaseException:
            stream.abandon()
            raise

    def _end(self, left: int) -> None:
        part = self._open
        assert part is not None, "a part is open"  # noqa: S101 - narrows the type
        part.writer.finish()
        part.stream.close()
        self._open = None
        self.on_part(Part(part.name, part.rows, part.stream.size, part.stream.sha256, part.writer.guarded), left)
