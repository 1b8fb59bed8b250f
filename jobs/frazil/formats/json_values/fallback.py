"""The slow decoder, which supports every shape and needs no compiled module."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.arrow import array_of, arrow_schema
from frazil.formats.decoder import Decoded, Payloads
from frazil.formats.faults import Broken, fault_of
from frazil.formats.json_values.shape import EXTRA, Row, column_type, columns_of
from frazil.formats.json_values.walk import Walk
from frazil.formats.limits import MOST_SLOTS_AT_ONCE
from frazil.model.dead_letter import Reject


class FallbackDecoder:
    """Reads each payload as Python values, from which the columns are built."""

    def __init__(self, row: Row) -> None:
        self.schema: pa.Schema = arrow_schema(columns_of(row))
        self._row = row

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        rows: list[dict[str, object]] = []
        rejects: list[Reject] = []
        slots = truncated_nanos = undeclared = 0
        for index, payload in enumerate(payloads.to_pylist()):
            walk = Walk(payload[skip:])
            try:
                values, extra = walk.row(self._row)
            except Broken as broken:
                fault = fault_of(broken)
                rejects.append(Reject(index, fault.reason, fault.detail, fault.path))
                continue
            if slots and slots + walk.used.slots > MOST_SLOTS_AT_ONCE:
                break
            slots += walk.used.slots
            truncated_nanos += walk.truncated_nanos
            undeclared += walk.undeclared
            rows.append({**values, EXTRA: extra} if self._row.keeps_extra else values)
        return Decoded(self._batch(rows), tuple(rejects), truncated_nanos, undeclared)

    def _batch(self, rows: list[dict[str, object]]) -> pa.RecordBatch:
        members = {each.name: column_type(each.shape) for each in self._row.members.with_data()}
        arrays = [array_of([row[name] for row in rows], kind) for name, kind in members.items()]
        if self._row.keeps_extra:
            arrays.append(pa.array([row[EXTRA] for row in rows], pa.large_string()))
        if not arrays:  # a batch without arrays would have no rows
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
