"""How AWS Glue's serializers name the message of a Protobuf schema: by one number before the data.

It is an unsigned varint: the position of the message among all messages of the file, nested ones and the entries of
maps included, sorted by full name. Payloads get Confluent's message indexes in its place, so that there is one decoder.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Decoded, Decoder, Payloads, in_one_array
from frazil.formats.faults import Broken
from frazil.formats.protobuf.indexes import ONE_BYTE, written_indexes
from frazil.formats.protobuf.wire import read_short_varint
from frazil.records import binary


class GlueIndexDecoder:
    """Decodes payloads that begin with such a number. `paths` are the messages' paths in the file, by number."""

    def __init__(self, decoder: Decoder, paths: Sequence[tuple[int, ...]]) -> None:
        self.schema: pa.Schema = decoder.schema
        self._decoder = decoder
        self._paths = paths

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        return self._decoder.decode(self._with_indexes(in_one_array(payloads), skip))

    def _with_indexes(self, payloads: pa.LargeBinaryArray, skip: int) -> pa.LargeBinaryArray:
        firsts = pc.binary_slice(payloads, skip, skip + 1).dictionary_encode()
        numbers = [each[0] if each else ONE_BYTE for each in firsts.dictionary.to_pylist()]
        if any(number >= ONE_BYTE for number in numbers):
            return binary([self._rewritten(each[skip:]) for each in payloads.to_pylist()])
        indexes = binary([self._indexes(number) for number in numbers]).take(firsts.indices)
        longest = pc.max(pc.binary_length(payloads)).as_py() or 0  # Arrow fails on short values without an end
        rest = pc.binary_slice(payloads, skip + 1, max(longest, skip + 1))
        return pc.binary_join_element_wise(indexes, rest, pa.scalar(b"", pa.large_binary()))

    def _rewritten(self, payload: bytes) -> bytes:
        try:
            number, at = read_short_varint(payload, 0, len(payload), "a message index")
        except Broken:
            return payload  # the decoder says the same of it
        return self._indexes(number) + payload[at:]

    def _indexes(self, number: int) -> bytes:
        """Return the indexes of a message; those of an unknown one name no message of the file either."""
        return written_indexes(self._paths[number] if number < len(self._paths) else (min(number, 2**30),))
