"""Conditions of routes on fields of records: they hold for decoded values, before any mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import Group
from frazil.formats.unpacking import decode_in_parts
from frazil.materialize.ingest.decoders import SchemasById, TaskDecoders
from frazil.model.dead_letter import Reason, Reject
from frazil.model.routes import FieldCondition
from frazil.model.spec import FormatSettings, WireFormat

Mask = npt.NDArray[np.bool_]
"""One truth value for each record."""


@dataclass(frozen=True, slots=True)
class JudgedFields:
    """Which records of a chunk fulfil each condition; `rejects` are those that cannot be decoded, by their index."""

    holds: Mapping[FieldCondition, Mask]
    rejects: Mapping[int, Reject]


class FieldJudge:
    """Decodes values, to judge conditions on their fields; the settings have no masks.

    The tables decode their records again, each with its own masks and columns. Nothing that is decoded here is kept.
    """

    def __init__(self, schemas: SchemasById, settings: FormatSettings, wire_format: WireFormat) -> None:
        self._decoders = TaskDecoders(schemas, settings, wire_format)

    def judge(self, values: pa.LargeBinaryArray, group: Group, conditions: Sequence[FieldCondition]) -> JudgedFields:
        """Judge the values of the group."""
        chosen = np.arange(len(values)) if group.indexes is None else group.indexes
        holds = {condition: np.zeros(len(values), np.bool_) for condition in conditions}
        rejects: dict[int, Reject] = {}
        decoder = self._decoders.decoder(group.schema_id)
        assert not isinstance(decoder, Reason)  # noqa: S101 - the router leaves out records without a known schema
        for part in decode_in_parts(decoder, values, group, chosen):
            rejects |= part.rejects
            for condition in conditions:
                holds[condition][part.good] = _has_value(part.decoded.rows, condition)
        return JudgedFields(holds, rejects)


def _has_value(rows: pa.RecordBatch, condition: FieldCondition) -> Mask:
    """Return which rows have one of the condition's values in its field: none if it has another type than `_text`."""
    found = _field(rows, condition.path)
    texts = None if found is None else _text(found)
    if texts is None:
        return np.zeros(len(rows), np.bool_)
    wanted = pa.array(condition.values, pa.large_string())
    has: Mask = pc.is_in(texts, wanted).to_numpy(zero_copy_only=False)
    return has


def _field(rows: pa.RecordBatch, path: str) -> pa.Array | None:
    first, *inside = path.split(".")
    if first not in rows.schema.names:
        return None
    values = rows.column(first)
    for name in inside:
        if not pa.types.is_struct(values.type) or values.type.get_field_index(name) < 0:
            return None
        values = pc.struct_field(values, name)  # null where the struct is null
    return values


def _text(values: pa.Array) -> pa.Array | None:
    """Return texts, whole numbers and booleans as text, and None for any other type."""
    kind = values.type
    if pa.types.is_large_string(kind):
        return values
    is_whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)  # of uint64
    return values.cast(pa.large_string()) if is_whole or pa.types.is_boolean(kind) else None
