"""Which message of a Protobuf schema each payload is."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from frazil.formats.decoder import Decoded, Payloads
from frazil.formats.faults import Broken
from frazil.formats.protobuf.indexes import read_indexes
from frazil.formats.protobuf.schema import MessagePath

MESSAGE = "message"


class MessageNameDecoder:
    """Decodes the full name of the message that payloads name, into one column; null where the schema has none such."""

    schema = pa.schema([(MESSAGE, pa.string())])

    def __init__(self, names: Mapping[MessagePath, str]) -> None:
        self._names = names

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        names = [self._name(payload[skip:]) for payload in payloads.to_pylist()]
        return Decoded(pa.RecordBatch.from_pydict({MESSAGE: names}, self.schema), ())

    def _name(self, data: bytes) -> str | None:
        try:
            path, _ = read_indexes(data)
        except Broken:
            return None
        return self._names.get(path)
