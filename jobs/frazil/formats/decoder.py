"""The interface of decoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.model.dead_letter import Reject


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding some payloads.

    `rows` has one row for each payload that is not in `rejects`, in the order given. Its columns are the writer
    schema's, with the Arrow types of `arrow.arrow_type`. `truncated_nanos` counts the values that lost digits below the
    microsecond, `undeclared` the fields that no schema declares: a column of their own keeps them. Only the first
    `taken` payloads were decoded: decoding ends early, after at least one payload, if the items of arrays and maps
    would take too much memory.
    """

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...]
    truncated_nanos: int = 0
    undeclared: int = 0

    @property
    def taken(self) -> int:
        return int(self.rows.num_rows) + len(self.rejects)


Payloads: TypeAlias = pa.LargeBinaryArray | pa.DictionaryArray
"""Payloads, none of them null: an array, or a dictionary of an array's values, which copies none of them."""


class Decoder(Protocol):
    """Decodes payloads of one writer schema. Threads may share it, as the cache of `open_decoder` lets them."""

    schema: pa.Schema

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        """Decode payloads, each from its byte `skip` on. An invalid payload becomes a reject."""
        ...


def chosen_payloads(values: pa.LargeBinaryArray, indexes: npt.NDArray[np.int64] | None) -> Payloads:
    """Return the values at these indexes, none of them null, without a copy; None is all."""
    return values if indexes is None else pa.DictionaryArray.from_arrays(pa.array(indexes), values, safe=False)


def in_one_array(payloads: Payloads) -> pa.LargeBinaryArray:
    """Return payloads as Arrow's functions take them: those of a dictionary are copied."""
    return payloads.dictionary_decode() if pa.types.is_dictionary(payloads.type) else payloads


def accepted(payloads: pa.LargeBinaryArray, rejects: Sequence[Reject]) -> npt.NDArray[np.int64]:
    """Return the indexes of the payloads that were not rejected."""
    return np.delete(np.arange(len(payloads)), [reject.index for reject in rejects])


def without(payloads: pa.LargeBinaryArray, rejects: Sequence[Reject]) -> pa.LargeBinaryArray:
    """Return the payloads that were not rejected."""
    return payloads.take(pa.array(accepted(payloads, rejects))) if rejects else payloads
