"""Which snapshots of joined tables the batches of a transformation met (docs/transforms.md, Joined tables)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

JOINED_TAG = "frazil_joined_"
"""The beginning of the tags that keep snapshots for a rebuild; then follow the transformation's name and the id."""

NO_SNAPSHOT = -1
"""The place of the snapshot of a table that has none, as another engine creates it: it has no rows."""

KEPT = 100
"""How many changes of joined tables a rebuild can repeat. Each keeps one snapshot of every table that is read."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A snapshot of the followed table up to which rows were read, and its epoch."""

    epoch: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of the followed table up to a boundary, which met these snapshots of the joined tables."""

    upto: Boundary
    joined: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JoinHistory:
    """The stretches that follow each other from `since`; with None, from the first row of the followed table.

    Batches that met the same snapshots are one stretch.
    """

    stretches: tuple[Stretch, ...] = ()
    since: Boundary | None = None

    @property
    def last(self) -> Mapping[str, int]:
        """The snapshots of joined tables that the last batch met."""
        return self.stretches[-1].joined if self.stretches else {}

    def with_batch(self, upto: Boundary, joined: Mapping[str, int]) -> JoinHistory:
        """Return the history after a batch that read up to a boundary. The oldest stretches are forgotten."""
        last = self.stretches[-1:]
        earlier = self.stretches[:-1] if last and last[0].joined == joined else self.stretches
        found = replace(self, stretches=(*earlier, Stretch(upto, dict(joined))))
        while len(found.stretches) > KEPT:
            found = JoinHistory(found.stretches[1:], found.stretches[0].upto)
        return found

    def snapshots_of(self, followed: str) -> Mapping[str, frozenset[int]]:
        """Return the snapshots that must be kept, by table. The last boundary is the transformation's position."""
        kept: dict[str, set[int]] = {followed: {each.upto.snapshot_id for each in self.stretches[:-1]}}
        if self.since is not None:
            kept[followed].add(self.since.snapshot_id)
        for stretch in self.stretches:
            for table, snapshot_id in stretch.joined.items():
                kept.setdefault(table, set()).add(snapshot_id)
        return {table: frozenset(ids - {NO_SNAPSHOT}) for table, ids in kept.items()}

    def document(self) -> bytes:
        stretches = [[*_numbers(each.upto), dict(each.joined)] for each in self.stretches]
        since = None if self.since is None else _numbers(self.since)
        return json.dumps({"since": since, "stretches": stretches}, separators=(",", ":")).encode()


def history_in(document: bytes) -> JoinHistory:
    """Return what `document` stored. Raises ValueError, KeyError or TypeError for anything else."""
    found: dict[str, Any] = json.loads(document)
    stretches = tuple(Stretch(Boundary(epoch, at), joined) for epoch, at, joined in found["stretches"])
    return JoinHistory(stretches, None if found["since"] is None else Boundary(*found["since"]))


def _numbers(boundary: Boundary) -> Sequence[int]:
    return boundary.epoch, boundary.snapshot_id


def tag_of(identifier: str, snapshot_id: int) -> str:
    """Return the tag by which the transformation that fills a table keeps a snapshot."""
    return f"{JOINED_TAG}{identifier}_{snapshot_id}"


def tags_of(identifier: str, tags: Mapping[str, int]) -> Mapping[str, int]:
    """Return those of a table's tags that a transformation has put to keep snapshots for a rebuild."""
    return {tag: snapshot_id for tag, snapshot_id in tags.items() if tag == tag_of(identifier, snapshot_id)}
