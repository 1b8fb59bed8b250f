"""What explains keys without a row, and rows that are older than the newest record of their key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.model.key_forms import has_several_forms
from frazil.model.progress import Counts, OffsetSums, TableState
from frazil.proof.group import group_progress
from frazil.proof.rows import TAKEN_OUT_BY
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition, offsets_of, sums_of
from frazil.proof.verification import FindingKind
from frazil.verify.proven import ComparedTable
from frazil.verify.skipped import unshown, unshown_refusals
from frazil.verify.window import Compared

SKIPPED_ONCE = "records that were skipped and can be decoded now"


@dataclass(frozen=True, slots=True)
class LostKeys:
    """How many keys have no row, or an older one, and how many of each cause there are that explain it.

    `unremoved` keys have no row although no row that was removed can be theirs.
    """

    unremoved: int
    stale: int
    deletes_gone: int
    by_others: int
    erased: int
    left: int
    """Rows that were removed, apart from those that explain keys without a row."""
    came_back: int
    decoded: int
    """Records that were skipped once and can be decoded now: each may be the newest of its key."""
    known: frozenset[TopicPartition]
    """Partitions in which the sums of offsets prove that the keys without a row are those of the rows taken out."""

    @staticmethod
    def of(
        tables: Sequence[ComparedTable],
        compared: Mapping[TopicPartition, Compared],
        by_others: Mapping[TopicPartition, int] | None,
        ledger: TableState,
    ) -> LostKeys:
        """Count them. `by_others` are rows that others removed, None if the table's own proof is not clean.

        The newest record of a key may be in another partition than its lost row was, where the first record stays or a
        column orders. There, an older record that came after the removal is the row.
        """
        spec = tables[0].spec
        lost = Counter({at: len(each.lost_keys) for at, each in compared.items()})
        known = () if by_others is None else progress_by_source(tables[0].at.state)
        erased, others = Counter({at: forgotten_in(tables, at) for at in known}), Counter(by_others or {})
        removed = erased + others
        if spec.order or spec.write == "deduplicate":
            unremoved = max(lost.total() - removed.total(), 0)
        else:
            unremoved = (lost - removed).total()
        gone = deletes_gone(tables, compared, ledger) if _may_lack_deletes(tables[0]) else 0
        return LostKeys(
            unremoved=unremoved,
            stale=sum(len(each.older_rows[FindingKind.STALE_ROW].newer) for each in compared.values()),
            deletes_gone=gone,
            by_others=others.total(),
            erased=erased.total(),
            left=removed.total() - max(lost.total() - gone, 0) if spec.order else 0,
            came_back=sum(len(each.older_rows[FindingKind.DELETED_KEY].newer) for each in compared.values()),
            decoded=decoded_now(compared, ledger),
            known=frozenset(at for at in erased if _are_those_taken_out(tables, at, compared)),
        )

    @property
    def explains_lost(self) -> bool:
        return self.unremoved <= self.deletes_gone or self._decoded_explain_all

    def explains_older(self, kind: FindingKind) -> bool:
        """Return whether the rows of one kind that are older than their key's newest record are explained.

        Rows that were removed explain no key that was deleted and came back: the delete may have been forgotten.
        """
        return (kind is FindingKind.STALE_ROW and self.stale <= self.left) or self._decoded_explain_all

    @property
    def _decoded_explain_all(self) -> bool:
        """Return whether records that were skipped once explain what nothing else does."""
        lost, stale = max(self.unremoved - self.deletes_gone, 0), max(self.stale - max(self.left, 0), 0)
        return lost + stale + self.came_back <= self.decoded

    @property
    def causes(self) -> str:
        causes = ["removals by other writers"] * (self.by_others > 0)
        causes += [f"rows that {TAKEN_OUT_BY} took out"] * (self.erased > 0)
        causes += ["deletes that Kafka does not have any more"] * (self.deletes_gone > 0)
        causes += [SKIPPED_ONCE] * (self.decoded > 0)
        return " and ".join(causes)


def forgotten_in(tables: Sequence[ComparedTable], where: TopicPartition) -> int:
    """Return how many rows of a partition were taken out: erased on request, or too old."""
    known = (progress_by_source(table.at.state).get(where) for table in tables)
    return sum(0 if each is None else each.forgotten for each in known)


def forgotten_sums_in(tables: Sequence[ComparedTable], where: TopicPartition) -> OffsetSums | None:
    """Return the sums of their offsets; None if they are not known of all."""
    total = OffsetSums()
    for progress in (progress_by_source(table.at.state).get(where) for table in tables):
        if progress is not None and progress.forgotten:
            if progress.forgotten_sums is None:
                return None
            total += progress.forgotten_sums
    return total


def _are_those_taken_out(
    tables: Sequence[ComparedTable], at: TopicPartition, compared: Mapping[TopicPartition, Compared]
) -> bool:
    """Return whether the newest records of the keys without a row are exactly the rows that were taken out."""
    lost = compared.get(at, Compared()).lost_keys
    return sums_of(offsets_of(lost)) == forgotten_sums_in(tables, at) and len(lost) == forgotten_in(tables, at)


def records_gone(ledger: TableState, at: TopicPartition, found: Compared) -> int:
    """Return how many of the records that were read from a partition Kafka does not have any more."""
    return max(_read_from(ledger, at).read - found.records, 0)


def _read_from(ledger: TableState, at: TopicPartition) -> Counts:
    """Return the outcomes of what was read from a partition, by all tables of a group."""
    known = progress_by_source(ledger) if ledger.group is None else group_progress(ledger.group)
    return known[at].counts if at in known else Counts()


def decoded_now(compared: Mapping[TopicPartition, Compared], ledger: TableState) -> int:
    """Return how many records were skipped for reasons that they do not show, and can be decoded now.

    Kafka has them: those that it does not have may be the skipped ones.
    """
    skipped = 0
    for at, found in compared.items():
        skipped += max(_read_from(ledger, at).skipped - found.skipped - records_gone(ledger, at, found), 0)
    return min(skipped, unshown_refusals(ledger))


def deletes_gone(
    tables: Sequence[ComparedTable], compared: Mapping[TopicPartition, Compared], ledger: TableState
) -> int:
    """Return how many deletes the table may have counted that were not found in Kafka, or are in topics not compared.

    Those that were found may have been counted as duplicates, because they came late, unless they are the newest. Or
    they were skipped, and could be decoded now.
    """
    gone = 0
    for at, progress in progress_by_source(tables[0].at.state).items():
        found, counts = compared.get(at, Compared()), progress.counts
        decoded_now = min(max(_read_from(ledger, at).skipped - found.skipped, 0), unshown(ledger))
        counted = max(max(found.deletes - counts.duplicates, found.newest_deletes) - decoded_now, 0)
        gone += min(max(counts.deletes - counted, 0), records_gone(ledger, at, found))
    return gone


def _may_lack_deletes(table: ComparedTable) -> bool:
    """Return whether Kafka may have a record of a key without its delete, which compaction has removed.

    The delete may have been in another partition. And a key that was written with other bytes is another key, for
    Kafka. A truncate has no key, but a topic that is compacted takes no records without one.
    """
    several = has_several_forms(table.spec, table.at.state.key_schema_ids, table.at.view.columns)
    return bool(table.spec.order) or several
