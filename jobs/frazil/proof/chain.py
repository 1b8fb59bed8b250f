"""Do the batches of a table follow each other: does each begin where the one before it ended, in every partition?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from frazil.model.moments import rfc3339
from frazil.model.progress import Counts, PartitionProgress
from frazil.model.spelling import plural
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind


@dataclass(frozen=True, slots=True)
class BatchSnapshot:
    """A snapshot that published a batch, or what a rebuild has read."""

    epoch: int
    batch_id: str
    snapshot_id: int
    at: datetime


@dataclass(frozen=True, slots=True)
class GapCauses:
    """Why offsets hold no committed record, as far as Kafka still shows it. `unknown` are those that retention took."""

    aborted: int = 0
    """Records of aborted transactions."""
    markers: int = 0
    """Markers of transactions: each ends with one in every partition that it wrote to."""
    compacted_or_markers: int = 0
    """In a topic with compaction, a removed record and a marker look the same."""
    unknown: int = 0

    def __str__(self) -> str:
        words = (
            (self.aborted, f"{plural(self.aborted, 'record')} of aborted transactions"),
            (self.markers, plural(self.markers, "transaction marker")),
            (self.compacted_or_markers, f"{self.compacted_or_markers:,} removed by compaction or transaction markers"),
            (self.unknown, f"{self.unknown:,} of unknown cause: retention has deleted this part of the topic"),
        )
        return ", ".join(text for count, text in words if count)


@dataclass(frozen=True, slots=True)
class Link:
    """The offsets `[start, end)` of one partition that a batch read; `gaps` of them hold no committed record.

    `causes` are those of the gaps, if Kafka was asked for them.
    """

    batch: BatchSnapshot
    start: int
    end: int
    counts: Counts
    gaps: int
    causes: GapCauses | None = None

    def to_json(self) -> dict[str, Any]:
        causes = {} if self.causes is None else {"gap_causes": asdict(self.causes)}
        batch = {"epoch": self.batch.epoch, "batch_id": self.batch.batch_id, "snapshot_id": self.batch.snapshot_id}
        return {
            **batch,
            "at": rfc3339(self.batch.at),
            **_figures(self.start, self.end, self.counts, self.gaps),
            **causes,
        }


@dataclass(frozen=True, slots=True)
class PartitionChain:
    """The batches that read a partition, oldest first. `before` are the records of batches whose snapshots expired."""

    at: TopicPartition
    progress: PartitionProgress
    links: tuple[Link, ...]

    @property
    def name(self) -> str:
        return f"{self.at[0]}-{self.at[1]}"

    @property
    def begins(self) -> int:
        """The first offset of the batches whose snapshots are retained."""
        return self.links[0].start if self.links else self.progress.next

    @property
    def before(self) -> Counts:
        return self.progress.counts - sum((link.counts for link in self.links), Counts())

    @property
    def is_whole(self) -> bool:
        """Return whether the snapshots of all batches are retained."""
        return self.begins == self.progress.origin

    def to_json(self) -> dict[str, Any]:
        expired = None if self.is_whole else {"start": self.progress.origin, "end": self.begins}
        own = {"topic": self.at[0], "partition": self.at[1], "origin": self.progress.origin, "next": self.progress.next}
        return {**own, "expired": expired, "batches": [link.to_json() for link in self.links]}


@dataclass(frozen=True, slots=True)
class OtherCommit:
    """A snapshot that read no offsets: of another writer, a replay of dead letters, or files that were rewritten."""

    snapshot_id: int
    at: datetime
    operation: str
    by: str
    rows_added: int
    rows_removed: int

    def to_json(self) -> dict[str, Any]:
        figures = {"rows_added": self.rows_added, "rows_removed": self.rows_removed}
        about = {"snapshot_id": self.snapshot_id, "at": rfc3339(self.at), "operation": self.operation, "by": self.by}
        return {**about, **figures}


@dataclass(frozen=True, slots=True)
class Chain:
    """The batches of a table by partition, and its other commits, as far as its snapshots are retained."""

    partitions: tuple[PartitionChain, ...]
    others: tuple[OtherCommit, ...] = ()

    @property
    def batches(self) -> int:
        return len({link.batch.snapshot_id for partition in self.partitions for link in partition.links})

    def to_json(self) -> dict[str, Any]:
        return {
            "partitions": [each.to_json() for each in self.partitions],
            "other_commits": [each.to_json() for each in self.others],
        }


def _figures(start: int, end: int, counts: Counts, gaps: int) -> dict[str, int]:
    return {
        "start": start,
        "end": end,
        "read": counts.read,
        "rows": counts.rows,
        "deletes": counts.deletes,
        "duplicates": counts.duplicates,
        "dead_letters": counts.dead_letters,
        "skipped": counts.skipped,
        "gaps": gaps,
    }


def chain_of(
    progress: Mapping[TopicPartition, PartitionProgress],
    links: Mapping[TopicPartition, Sequence[Link]],
    others: Sequence[OtherCommit] = (),
) -> Chain:
    """Return the chain of a state. `links` are the ranges of its batches by partition, oldest first."""
    return Chain(tuple(PartitionChain(at, each, tuple(links.get(at, ()))) for at, each in progress.items()), (*others,))


def check_chain(chain: Chain, *, shares: bool, joins: bool = False) -> Check:
    """Return the check that the batches have read each offset once, as many records as the state counts.

    `shares` says that the table takes a share of the records, so that other tables have the rest of each range. One
    that `joins` its group has no part in batches from when its route was not in the spec: the ledger has them all.
    """
    findings = [
        Discrepancy(FindingKind.BROKEN_CHAIN, partition.name, what)
        for partition in chain.partitions
        for what in _problems(partition, shares=shares, joins=joins)
    ]
    says = (
        f"{plural(chain.batches, 'batch', 'batches')} in {plural(len(chain.partitions), 'partition')}: each begins"
        " where the one before it ended, and together they have read as many records as the state counts"
    )
    return Check("ranges", says, tuple(findings))


def _problems(chain: PartitionChain, *, shares: bool, joins: bool) -> Iterator[str]:
    yield from _joints(chain, joins=joins)
    yield from _ends(chain, joins=joins)
    if not shares:
        yield from _gaps(chain)
    yield from _counted(chain, shares=shares)


def _joints(chain: PartitionChain, *, joins: bool) -> Iterator[str]:
    for one, following in pairwise(chain.links):
        if one.end > following.start or (one.end < following.start and not joins):
            what = "read again" if following.start < one.end else "not read"
            between = sorted((one.end, following.start))
            yield (
                f"offsets [{between[0]}, {between[1]}) were {what}: epoch {one.batch.epoch} ended at {one.end}, and"
                f" epoch {following.batch.epoch} (snapshot {following.batch.snapshot_id}) began at {following.start}"
            )


def _ends(chain: PartitionChain, *, joins: bool) -> Iterator[str]:
    progress, last = chain.progress, chain.links[-1].end if chain.links else None
    if last is not None and (last > progress.next or (last < progress.next and not joins)):
        yield f"the last batch ended at {last}, the state says {progress.next}"
    if chain.begins < progress.origin:
        yield f"the first batch began at {chain.begins}, the state says {progress.origin}"


def _gaps(chain: PartitionChain) -> Iterator[str]:
    for link in chain.links:
        if link.end - link.start - link.counts.read != link.gaps:
            yield (
                f"epoch {link.batch.epoch}: {plural(link.counts.read, 'record')} and {plural(link.gaps, 'gap')} in the"
                f" {plural(link.end - link.start, 'offset')} [{link.start}, {link.end})"
            )


def _counted(chain: PartitionChain, *, shares: bool) -> Iterator[str]:
    """Yield what contradicts the records that the state counts. To a table of a group, a replay brings further ones."""
    read, rest = chain.progress.counts.read, chain.before.read
    most = chain.begins - chain.progress.origin
    if rest < 0 or (rest > most and not shares):
        yield (
            f"the batches whose snapshots are retained have read {read - rest:,} of the {plural(read, 'record')} that"
            f" the state counts; the {plural(most, 'offset')} before them cannot hold the rest"
        )
