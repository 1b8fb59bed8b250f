"""Divide the records of a writer schema by the names of their records: a Protobuf schema has several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from frazil.formats.decoder import Decoder, Indexes
from frazil.formats.framing import Group
from frazil.formats.open import message_names, record_name
from frazil.formats.unpacking import decode_in_parts
from frazil.model.dead_letter import Reject
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import WireFormat


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """The indexes of records by their names; None is a schema without a name. `rejects` have none, by their index."""

    parts: Sequence[tuple[str | None, Indexes]]
    rejects: Mapping[int, Reject] = field(default_factory=dict)


class MessageNames:
    """Decodes which message each payload of a Protobuf schema is."""

    def __init__(self, wire_format: WireFormat) -> None:
        self._wire_format = wire_format
        self._decoders: dict[RegisteredSchema, Decoder | None] = {}

    def divide(
        self, values: pa.LargeBinaryArray, group: Group, chosen: Indexes, schema: RegisteredSchema | None
    ) -> NamedRecords:
        """Name the values at the indexes `chosen`, which are those of the group."""
        decoder = None if schema is None else self._decoder(schema)
        if decoder is None:
            return NamedRecords([(None if schema is None else record_name(schema), chosen)])
        parts: defaultdict[str, list[Indexes]] = defaultdict(list)
        rejects: dict[int, Reject] = {}
        for part in decode_in_parts(decoder, values, group, chosen):
            rejects |= part.rejects
            names = part.decoded.rows.column(0)
            codes = names.indices.to_numpy()
            for code in np.unique(codes).tolist():
                parts[names.dictionary[code].as_py()].append(part.good[codes == code])
        return NamedRecords([(name, np.concatenate(found)) for name, found in parts.items()], rejects)

    def _decoder(self, schema: RegisteredSchema) -> Decoder | None:
        if schema not in self._decoders:
            try:
                self._decoders[schema] = message_names(schema, self._wire_format)
            except IncompatibleSchemaError:
                self._decoders[schema] = None
        return self._decoders[schema]
