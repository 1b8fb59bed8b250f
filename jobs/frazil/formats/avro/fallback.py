"""The slow decoder, which supports every schema and needs no compiled module: validation, then fastavro."""

from __future__ import annotations

import io
from typing import cast

import fastavro
import pyarrow as pa

from frazil.formats.arrow import array_of, arrow_schema
from frazil.formats.avro.mapping import column_type, columns_of
from frazil.formats.avro.plain import plain_schema
from frazil.formats.avro.rules import Used, examine
from frazil.formats.avro.shape import Members
from frazil.formats.avro.types import AvroSchema
from frazil.formats.avro.values import Values
from frazil.formats.decoder import Decoded, Payloads
from frazil.formats.limits import MOST_SLOTS_AT_ONCE
from frazil.model.dead_letter import Reject


class FallbackDecoder:
    """Reads valid payloads with fastavro as raw values, which `Values` converts to column values."""

    def __init__(self, schema: AvroSchema, shape: Members) -> None:
        self.schema: pa.Schema = arrow_schema(columns_of(shape))
        self._avro = schema
        self._shape = shape
        self._plain = fastavro.parse_schema(plain_schema(schema))

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        records: list[dict[str, object]] = []
        rejects: list[Reject] = []
        slots = 0
        for index, payload in enumerate(payloads.to_pylist()):
            used = Used()
            fault = examine(self._avro, payload, skip, used)
            if fault is not None:
                rejects.append(Reject(index, fault.reason, fault.detail, fault.path))
                continue
            if slots and slots + used.slots > MOST_SLOTS_AT_ONCE:
                break
            slots += used.slots
            records.append(self._read(payload[skip:]))
        values = Values(self._avro)
        return Decoded(self._rows(records, values), tuple(rejects), values.truncated_nanos)

    def _read(self, payload: bytes) -> dict[str, object]:
        return cast("dict[str, object]", fastavro.schemaless_reader(io.BytesIO(payload), self._plain, None))

    def _rows(self, records: list[dict[str, object]], values: Values) -> pa.RecordBatch:
        columns = []
        for field in self._shape.with_data():
            meant = values.converter(field.shape)
            given = [record[field.name] for record in records]
            columns.append(array_of([meant(value) for value in given] if meant else given, column_type(field.shape)))
        if not columns:  # a batch without arrays would have no rows
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
