"""The slow decoder, which supports every schema and needs no compiled module."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.arrow import array_of, arrow_schema
from frazil.formats.decoder import Decoded, Payloads
from frazil.formats.faults import Broken, fault_of
from frazil.formats.limits import MOST_SLOTS_AT_ONCE
from frazil.formats.protobuf.mapping import column_type, columns_of
from frazil.formats.protobuf.reading import Reading, Row
from frazil.formats.protobuf.schema import ProtobufSchema
from frazil.formats.protobuf.shape import Members
from frazil.model.dead_letter import Reject


class FallbackDecoder:
    """Reads payloads in Python."""

    def __init__(self, schema: ProtobufSchema, shape: Members) -> None:
        self.schema: pa.Schema = arrow_schema(columns_of(shape))
        self._schema = schema
        self._shape = shape

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        rows: list[Row] = []
        rejects: list[Reject] = []
        slots = truncated_nanos = 0
        for index, payload in enumerate(payloads.to_pylist()):
            reading = Reading(self._schema, payload[skip:])
            try:
                row = reading.row(self._shape)
            except Broken as broken:
                fault = fault_of(broken)
                rejects.append(Reject(index, fault.reason, fault.detail, fault.path))
                continue
            if slots and slots + reading.slots > MOST_SLOTS_AT_ONCE:
                break
            slots += reading.slots
            truncated_nanos += reading.truncated_nanos
            rows.append(row)
        return Decoded(self._rows(rows), tuple(rejects), truncated_nanos)

    def _rows(self, rows: list[Row]) -> pa.RecordBatch:
        columns = [
            array_of([row[member.name] for row in rows], column_type(member.shape)) for member in self._shape.fields
        ]
        if not columns:  # a batch without arrays would have no rows
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
