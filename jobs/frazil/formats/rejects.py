"""Rejected payloads as columns: a chunk may have hundreds, and most of the code needs only their indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from frazil.model.dead_letter import Reason, Reject

_Indexes: TypeAlias = npt.NDArray[np.int64]

_REASONS = {each.value: each for each in Reason}
"""By name. A look-up takes a tenth of the time of `Reason(name)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Rejects(Sequence[Reject]):
    """A sequence of rejects, each made when it is asked for. `reasons` are their names."""

    indexes: _Indexes
    reasons: Sequence[str]
    details: Sequence[str]
    paths: Sequence[str]

    @classmethod
    def of(cls, rejects: Iterable[Reject]) -> Rejects:
        """Return these rejects as columns."""
        if isinstance(rejects, Rejects):
            return rejects
        given = list(rejects)
        return cls(
            np.array([each.index for each in given], np.int64),
            [each.reason.value for each in given],
            [each.detail for each in given],
            [each.path for each in given],
        )

    @classmethod
    def alike(cls, indexes: Sequence[int] | _Indexes, reason: Reason, detail: str) -> Rejects:
        """Return the rejects of payloads that are refused for the same thing."""
        count = len(indexes)
        return cls(np.asarray(indexes, np.int64), [reason.value] * count, [detail] * count, [""] * count)

    @classmethod
    def joined(cls, parts: Iterable[Iterable[Reject]]) -> Rejects:
        """Return the rejects of all parts, in their order."""
        columns = [each for each in map(cls.of, parts) if len(each)]
        if len(columns) < 2:
            return columns[0] if columns else NO_REJECTS
        return cls(
            np.concatenate([each.indexes for each in columns]),
            *([value for each in columns for value in getattr(each, name)] for name in ("reasons", "details", "paths")),
        )

    def __len__(self) -> int:
        return len(self.indexes)

    def __iter__(self) -> Iterator[Reject]:
        rows = zip(self.indexes.tolist(), self.reasons, self.details, self.paths, strict=True)
        return (Reject(index, _REASONS[reason], detail, path) for index, reason, detail, path in rows)

    @overload
    def __getitem__(self, place: int) -> Reject: ...
    @overload
    def __getitem__(self, place: slice) -> Rejects: ...
    def __getitem__(self, place: int | slice) -> Reject | Rejects:
        if isinstance(place, slice):
            return Rejects(self.indexes[place], self.reasons[place], self.details[place], self.paths[place])
        reason, detail, path = self.reasons[place], self.details[place], self.paths[place]
        return Reject(int(self.indexes[place]), _REASONS[reason], detail, path)

    __hash__ = None  # type: ignore[assignment]  # as for any sequence whose items are compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def among(self, others: _Indexes | None) -> Rejects:
        """Return the same rejects, whose payloads are those at these indexes among others; None is all of them."""
        return self if others is None or not len(self) else replace(self, indexes=others[self.indexes])

    def without(self, indexes: _Indexes) -> Rejects:
        """Return the rejects but those with one of these indexes."""
        if not len(indexes) or not len(self):
            return self
        stays = np.flatnonzero(~np.isin(self.indexes, indexes))
        if not len(stays):
            return NO_REJECTS
        return Rejects(self.indexes[stays], *(_at(stays, each) for each in (self.reasons, self.details, self.paths)))

    def in_order(self) -> Rejects:
        """Return the rejects by ascending index, and of several with the same index the last one."""
        if (np.diff(self.indexes) > 0).all():
            return self
        order = np.argsort(self.indexes, kind="stable")
        sorted_indexes = self.indexes[order]
        order = order[np.append(np.diff(sorted_indexes) > 0, True)]
        return Rejects(self.indexes[order], *(_at(order, each) for each in (self.reasons, self.details, self.paths)))


NO_REJECTS = Rejects(np.empty(0, np.int64), (), (), ())


def rejected(rejects: Sequence[Reject]) -> _Indexes:
    """Return the indexes of rejects."""
    return Rejects.of(rejects).indexes


def _at(places: _Indexes, values: Sequence[str]) -> Sequence[str]:
    """Return the values at these places, of which there is at least one."""
    found: Any = itemgetter(*places.tolist())(values)
    return found if len(places) > 1 else (found,)
