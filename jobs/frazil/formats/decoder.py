"""The interface of decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.rejects import rejected
from frazil.model.dead_letter import Reject

Indexes: TypeAlias = npt.NDArray[np.int64]
NO_INDEXES: Indexes = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class WithoutRow:
    """Valid change events that have no row, by the indexes of their payloads, ascending.

    `deletes` take out the row of their key, and `truncates` all earlier rows. `skipped` change nothing, by the reason
    under which they are counted. `delete_order` are columns that order the deletes, the most significant first; none if
    the offset does.
    """

    deletes: Indexes = field(default_factory=lambda: NO_INDEXES)
    truncates: Indexes = field(default_factory=lambda: NO_INDEXES)
    skipped: Mapping[str, Indexes] = field(default_factory=dict)
    delete_order: tuple[Indexes, ...] = ()

    @property
    def indexes(self) -> Indexes:
        return np.concatenate([self.deletes, self.truncates, *self.skipped.values()])

    def among(self, others: Indexes | None) -> WithoutRow:
        """Return the same events, whose payloads are those at these indexes among others; None is all of them."""
        if others is None:
            return self
        skipped = {reason: others[indexes] for reason, indexes in self.skipped.items()}
        return WithoutRow(others[self.deletes], others[self.truncates], skipped, self.delete_order)

    def __len__(self) -> int:
        return len(self.deletes) + len(self.truncates) + sum(map(len, self.skipped.values()))

    def __add__(self, other: WithoutRow) -> WithoutRow:
        """Return the events of both."""
        reasons = dict.fromkeys((*self.skipped, *other.skipped))
        skipped = {
            reason: _merged(self.skipped.get(reason, NO_INDEXES), other.skipped.get(reason, NO_INDEXES))
            for reason in reasons
        }
        deletes, truncates = _merged(self.deletes, other.deletes), _merged(self.truncates, other.truncates)
        return WithoutRow(deletes, truncates, skipped, self._merged_order(other))

    def _merged_order(self, other: WithoutRow) -> tuple[Indexes, ...]:
        if not (len(self.deletes) and len(other.deletes)):
            return self.delete_order if len(self.deletes) else other.delete_order
        ascending = np.argsort(np.concatenate([self.deletes, other.deletes]))
        pairs = zip(self.delete_order, other.delete_order, strict=True)
        return tuple(np.concatenate(pair)[ascending] for pair in pairs)


def _merged(one: Indexes, other: Indexes) -> Indexes:
    return np.sort(np.concatenate([one, other])) if len(one) and len(other) else one if len(one) else other


EVERY_ONE_HAS_A_ROW = WithoutRow()


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Rows of change events that lack some values, by the indexes of their payloads, ascending: these stay as stored.

    `columns` are the columns that stay, or with `are_own` those that do not. `needs_row`: without a stored row, the
    event changes nothing; else it makes the row as it is.
    """

    columns: tuple[str, ...]
    indexes: Indexes
    are_own: bool = False
    needs_row: bool = False

    def among(self, others: Indexes | None) -> Incomplete:
        """Return the same rows, whose payloads are those at these indexes among others; None is all of them."""
        return self if others is None else replace(self, indexes=others[self.indexes])

    def columns_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of a table's columns that stay."""
        return tuple(name for name in names if (name in self.columns) is not self.are_own)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding some payloads.

    `rows` has one row for each payload that is neither in `rejects` nor in `without_row`, in the order given. Its
    columns are the writer schema's, with the Arrow types of `arrow.arrow_type`. `truncated_nanos` counts the values
    that lost digits below the microsecond, `undeclared` the fields that no schema declares: a column of their own keeps
    them. Only the first `taken` payloads were decoded: decoding ends early, after at least one payload, if the items of
    arrays and maps would take too much memory.
    """

    rows: pa.RecordBatch
    rejects: Sequence[Reject]
    truncated_nanos: int = 0
    undeclared: int = 0
    without_row: WithoutRow = EVERY_ONE_HAS_A_ROW
    incomplete: tuple[Incomplete, ...] = ()

    @property
    def taken(self) -> int:
        return int(self.rows.num_rows) + len(self.rejects) + len(self.without_row)

    @property
    def rowless(self) -> Indexes:
        """The indexes of the payloads that have no row."""
        indexes = rejected(self.rejects)
        return np.concatenate([indexes, self.without_row.indexes]) if len(self.without_row) else indexes


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
    return np.delete(np.arange(len(payloads)), rejected(rejects))


def without(payloads: pa.LargeBinaryArray, rejects: Sequence[Reject]) -> pa.LargeBinaryArray:
    """Return the payloads that were not rejected."""
    return payloads.take(pa.array(accepted(payloads, rejects))) if rejects else payloads
