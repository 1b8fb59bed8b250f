"""Which message of a Protobuf schema each payload is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Decoded, Indexes, Payloads, in_one_array
from frazil.formats.faults import Broken
from frazil.formats.protobuf.indexes import read_indexes
from frazil.formats.protobuf.reading import unknown_path
from frazil.formats.protobuf.schema import MessagePath
from frazil.model.dead_letter import Reject

MESSAGE = "message"

_ONE_BYTE = 0x80
"""Numbers below this one take one byte."""


class MessageNameDecoder:
    """Decodes the full name of the message that payloads name, into one column. Refuses those that name none."""

    schema = pa.schema([(MESSAGE, pa.string())])

    def __init__(self, names: Mapping[MessagePath, str]) -> None:
        self._names = names

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        given = in_one_array(payloads)
        names = np.full(len(given), None, object)
        rejects: list[Reject] = []
        for head, indexes in _by_head(given, skip):
            try:
                names[indexes] = self._name(head)
            except Broken as broken:
                rejects += [Reject(index, broken.reason, broken.detail) for index in indexes.tolist()]
        rejects.sort(key=lambda reject: reject.index)
        good = np.delete(names, [reject.index for reject in rejects])
        return Decoded(pa.RecordBatch.from_arrays([pa.array(good, pa.string())], schema=self.schema), rejects)

    def _name(self, head: bytes) -> str:
        path, _ = read_indexes(head)
        name = self._names.get(path)
        if name is None:
            raise unknown_path(path)
        return name


def _by_head(payloads: pa.LargeBinaryArray, skip: int) -> Iterator[tuple[bytes, Indexes]]:
    """Yield what begins with the message indexes of some payloads, with the indexes of these payloads.

    The first byte says how many bytes follow if each number takes one; other payloads are yielded one by one.
    """
    for first, indexes in _alike(pc.binary_slice(payloads, skip, skip + 1)):
        length = 1 + (first[0] >> 1) if first and first[0] < _ONE_BYTE else 0
        own = payloads.take(pa.array(indexes))
        for head, places in _alike(pc.binary_slice(own, skip, skip + length)):
            if length and max(head) < _ONE_BYTE:
                yield head, indexes[places]
            else:
                yield from ((own[place].as_py()[skip:], indexes[[place]]) for place in places.tolist())


def _alike(values: pa.LargeBinaryArray) -> Iterator[tuple[bytes, Indexes]]:
    """Yield each distinct value with its indexes."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ()
    yield from zip(encoded.dictionary.to_pylist(), parts, strict=True)
