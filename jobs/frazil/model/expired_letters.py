"""Dead letters that were deleted because of their age: how many, and the sums of their offsets, by partition.

The snapshot of the dead-letter table that lacks them has these figures, and so has each later one: as a document in the
header of its manifest list, whose total and checksum are in the summary.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.model.errors import StateLostError
from frazil.model.progress import OffsetSums
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.summary import carries_state, checksum

EXPIRED = "frazil.expired-letters"
"""A summary key: the total, and the document's checksum, as in `12 8a5c…`."""

Source = tuple[str, str, int, int]
"""The UUID of the table of rows, a topic, its generation and a partition."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The deleted dead letters of one partition that were no rows."""

    count: int = 0
    sums: OffsetSums = field(default_factory=OffsetSums)

    def __add__(self, other: Expired) -> Expired:
        return Expired(self.count + other.count, self.sums + other.sums)


@dataclass(frozen=True, slots=True)
class ExpiredLetters:
    """The deleted dead letters of a dead-letter table."""

    by_source: Mapping[Source, Expired] = field(default_factory=dict)

    def __add__(self, other: ExpiredLetters) -> ExpiredLetters:
        sources = sorted({*self.by_source, *other.by_source})
        return ExpiredLetters({each: self.of(each) + other.of(each) for each in sources})

    def of(self, source: Source) -> Expired:
        return self.by_source.get(source, Expired())

    @property
    def total(self) -> int:
        return sum(each.count for each in self.by_source.values())

    def without(self, rows_uuid: str) -> ExpiredLetters:
        """Return the figures without those of one table of rows."""
        return ExpiredLetters({source: each for source, each in self.by_source.items() if source[0] != rows_uuid})

    def stored(self) -> tuple[dict[str, str], bytes]:
        """Return the part of a snapshot's summary, and the document; both are empty if no letters were deleted."""
        return self.written() if self.by_source else ({}, b"")

    def written(self) -> tuple[dict[str, str], bytes]:
        """Return the same also if there are none, so that earlier figures count no more."""
        rows = [[*source, e.count, e.sums.offsets, e.sums.squares] for source, e in sorted(self.by_source.items())]
        document = zlib.compress(json.dumps(rows).encode())
        return {EXPIRED: f"{self.total} {checksum(document)}"}, document


def expired_letters(view: TableView, snapshot_id: int | None, tagged: Sequence[Snapshot]) -> ExpiredLetters:
    """Return the deleted dead letters of a dead-letter table as of a snapshot.

    `tagged` is the snapshot of the last batch: it has the figures if others have expired the ancestors of the snapshot.

    Raises StateLostError if the figures are damaged.
    """
    ancestry = tuple(view.ancestry(snapshot_id))
    known = ancestry if any(carries_state(snapshot) for snapshot in ancestry) else tagged
    carrier = next((snapshot for snapshot in known if EXPIRED in snapshot.summary), None)
    return ExpiredLetters() if carrier is None else _read(view, carrier)


def deleted_in(view: TableView) -> str:
    """Return the figures' total and checksum in the newest summary that has them; they change with each deletion."""
    return next((s.summary[EXPIRED] for s in view.ancestry(view.head) if EXPIRED in s.summary), "")


def _read(view: TableView, carrier: Snapshot) -> ExpiredLetters:
    expected = carrier.summary[EXPIRED].partition(" ")[2]
    document = carrier.read_document() or b""
    if checksum(document) != expected:
        raise StateLostError(
            f"{view.identifier}: the figures of deleted dead letters in snapshot {carrier.id} are damaged: expected the"
            f" checksum {expected}, found {checksum(document)}",
            hint=f"restore {carrier.manifest_list} from a backup or an earlier version of the object",
        )
    rows = json.loads(zlib.decompress(document))
    return ExpiredLetters({tuple(row[:4]): Expired(row[4], OffsetSums(*row[5:])) for row in rows})
