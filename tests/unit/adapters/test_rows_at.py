"""Rows of a data file, read for tasks that write them again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.adapters.iceberg import rows_at
from frazil.adapters.iceberg.parquet_slices import FEW_ROWS, SLICE_BYTES, slices
from frazil.materialize.ingest.write import PAGE_BYTES

ROWS = 20_000
SCHEMA = Schema(
    NestedField(1, "number", LongType(), required=False), NestedField(2, "text", StringType(), required=False)
)


def test_a_row_group_with_much_text_is_not_decoded_a_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def counted(*given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        for part in slices(*given, **named):
            decoded.append(part.num_rows)
            yield part

    monkeypatch.setattr(rows_at, "slices", counted)
    text = [random.Random(n).randbytes(500).hex() for n in range(ROWS)]
    path = tmp_path / "rows.parquet"
    table = pa.table([pa.array(range(ROWS)), pa.array(text)], schema=schema_to_pyarrow(SCHEMA))
    pq.write_table(table, path, use_dictionary=False, data_page_size=PAGE_BYTES, store_schema=False)
    assert pq.read_metadata(path).row_group(0).total_byte_size > SLICE_BYTES

    rows = rows_at.rows_without(PyArrowFileIO(), str(path), np.array([3, ROWS - 1]), SCHEMA, None)

    found = [n for batch in rows for n in batch["number"].to_pylist()]
    assert found == [n for n in range(ROWS) if n not in {3, ROWS - 1}]
    assert len(decoded) < ROWS // FEW_ROWS // 10
