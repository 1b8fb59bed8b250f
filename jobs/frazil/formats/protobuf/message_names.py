"""Which message of a Protobuf schema each payload is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Decoded, Indexes, Payloads, in_one_array
from frazil.formats.faults import Broken
from frazil.formats.protobuf.indexes import ONE_BYTE, read_indexes
from frazil.formats.protobuf.reading import unknown_path
from frazil.formats.protobuf.schema import MessagePath
from frazil.model.dead_letter import Reject

MESSAGE = "message"

_FIRST_MESSAGE = b"\0"
"""The indexes of the first message, alone."""
_UNNAMED = -1


class MessageNameDecoder:
    """Decodes the full name of the message that payloads name, into one column. Refuses those that name none."""

    schema = pa.schema([(MESSAGE, pa.dictionary(pa.int64(), pa.string()))])

    def __init__(self, names: Mapping[MessagePath, str]) -> None:
        self._places = {path: place for place, path in enumerate(names)}
        self._names = pa.array(names.values(), pa.string())

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        given = in_one_array(payloads)
        places = np.full(len(given), _UNNAMED, np.int64)
        rejects: list[Reject] = []
        for head, indexes in _by_head(given, skip):
            try:
                places[indexes] = self._place(head)
            except Broken as broken:
                rejects += [Reject(index, broken.reason, broken.detail) for index in indexes.tolist()]
        rejects.sort(key=lambda reject: reject.index)
        named = pa.DictionaryArray.from_arrays(places[places != _UNNAMED], self._names)
        return Decoded(pa.RecordBatch.from_arrays([named], schema=self.schema), rejects)

    def _place(self, head: bytes) -> int:
        path, _ = read_indexes(head)
        if path not in self._places:
            raise unknown_path(path)
        return self._places[path]


def _by_head(payloads: pa.LargeBinaryArray, skip: int) -> Iterator[tuple[bytes, Indexes]]:
    """Yield what begins with the message indexes of some payloads, with the indexes of these payloads.

    The first byte says how many bytes follow if each number takes one; other payloads are yielded one by one.
    """
    for first, indexes in _alike(pc.binary_slice(payloads, skip, skip + 1)):
        if first == _FIRST_MESSAGE:
            yield first, indexes
            continue
        own = payloads if len(indexes) == len(payloads) else payloads.take(pa.array(indexes))
        length = 1 + (first[0] >> 1) if first and first[0] < ONE_BYTE else 0
        for head, places in _alike(pc.binary_slice(own, skip, skip + length)):
            if length and max(head) < ONE_BYTE:
                yield head, indexes[places]
            else:
                yield from ((own[place].as_py()[skip:], indexes[[place]]) for place in places.tolist())


def _alike(values: pa.LargeBinaryArray) -> Iterator[tuple[bytes, Indexes]]:
    """Yield each distinct value with its indexes."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.to_numpy()
    if len(encoded.dictionary) == 1:
        yield encoded.dictionary[0].as_py(), np.arange(len(values))
        return
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ()
    yield from zip(encoded.dictionary.to_pylist(), parts, strict=True)
