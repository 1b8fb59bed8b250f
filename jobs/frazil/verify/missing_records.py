"""Judge the records of a partition that Kafka has and a table does not: which causes explain how many of them.

A state counts what became of records, and not of which. So a cause explains at most as many records as were counted,
less those that are known to be others. Where Kafka no longer has all offsets, the records of a cause may be gone, and
those that are missing may be others: they are unchecked, unless the sums of their offsets say which they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.model.expired_letters import Expired
from frazil.model.progress import GroupPartition, OffsetSums, PartitionProgress, TableState
from frazil.model.routes import are_shapes
from frazil.model.spelling import plural
from frazil.proof.group import group_progress, rows_elsewhere
from frazil.proof.rows import TAKEN_OUT_BY
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition, missing_one, offsets_of, sums_of
from frazil.proof.verification import first_named, listed_offsets
from frazil.verify.lost_keys import forgotten_in, forgotten_sums_in
from frazil.verify.proven import ComparedTable
from frazil.verify.skipped import unshown
from frazil.verify.window import Compared


@dataclass(frozen=True, slots=True)
class Causes:
    """How many records of a partition are neither rows nor dead letters, by the cause that the tables have counted.

    `skipped` are all that were skipped, and `skipped_unshown` how many at most for a reason that a record does not
    show any more. `letters` were deleted. `forgotten` are erased rows. `removed` are rows that others removed.
    """

    progress: PartitionProgress
    skipped: int
    skipped_unshown: int
    elsewhere: int
    letters: Expired
    forgotten: int
    forgotten_sums: OffsetSums | None
    removed: int

    @staticmethod
    def of(
        tables: Sequence[ComparedTable], ledger: TableState, where: TopicPartition, letters: Expired, removed: int
    ) -> Causes:
        skipped, elsewhere = _not_shown(tables, ledger, where)
        return Causes(
            progress=progress_by_source(ledger)[where],
            skipped=skipped,
            skipped_unshown=skipped if _was_routed_otherwise(ledger, where) else min(skipped, unshown(ledger)),
            elsewhere=elsewhere,
            letters=letters,
            forgotten=forgotten_in(tables, where),
            forgotten_sums=forgotten_sums_in(tables, where),
            removed=removed,
        )


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """The records of a partition that are missing, against their causes. `clean`: the tables prove their own rows.

    `beyond` are those that the present spec skips, beyond all that the table has counted as skipped. In a table that
    follows keys, such a record may have been a row or a delete.
    """

    found: Compared
    causes: Causes
    clean: bool
    follows_keys: bool

    @property
    def beyond(self) -> int:
        return 0 if self.follows_keys else max(self.found.skipped - self.causes.skipped, 0)

    @property
    def count(self) -> int:
        return len(self.found.missing) + self.beyond

    @property
    def skipped_then(self) -> int:
        """The number of records counted as skipped that the present spec does not skip, or that Kafka lacks."""
        return max(self.causes.skipped - self.found.skipped, 0)

    @property
    def letters(self) -> int:
        """The number of records that dead letters which were deleted explain.

        If exactly so many are missing, and no others explain any, the sums of their offsets must agree, too.
        """
        letters, others = self.causes.letters, self.skipped_then + self.causes.elsewhere + self.causes.forgotten
        alone = others == 0 and self.count == letters.count
        return 0 if alone and self._sums != letters.sums else letters.count

    @property
    def others(self) -> int:
        """The number of records that the causes explain together, apart from rows that other writers removed."""
        return self.skipped_then + self.causes.elsewhere + self.causes.forgotten + self.letters

    @property
    def removed(self) -> bool:
        """Return whether it takes rows that other writers removed to explain the number."""
        return self.causes.removed > 0 and self.count - self.others <= self.causes.removed

    @property
    def explained(self) -> bool:
        if self.removed:
            return self._good_explained
        if not (self.count <= self.others if self.clean else self.count == self.others):
            return False
        return not self._sums_contradict and self._good_explained

    @property
    def unchecked(self) -> int:
        """The number of records that the causes explain by their number alone: they may be others."""
        return 0 if self.count == 0 or self._whole or self._sums_agree else self.count

    @property
    def why(self) -> str:
        """Return why records are missing: skipped, in other tables, deleted, erased, or removed by other writers."""
        causes, then, letters = self.causes, self.skipped_then, self.letters
        said = ["removals by other writers"] * self.removed
        said += [f"the {then:,} that the table counted as skipped under other settings"] * (then > 0)
        said += [f"the {causes.elsewhere:,} in tables that are not compared"] * (causes.elsewhere > 0)
        deleted = f"the {plural(letters, 'dead letter')} deleted because of age or by `frazil forget`"
        said += [deleted] * (letters > 0)
        rows = causes.forgotten
        said += [f"the {plural(rows, 'row')} that {TAKEN_OUT_BY} took out"] * (rows > 0)
        number = f"{' and '.join(said)} explain the number"
        gone = "unchecked: Kafka no longer has all offsets that were read, so the missing ones may be others"
        return f"{number}; {gone}" if self.unchecked else number

    @property
    def what(self) -> str:
        """Return what is missing, and which offsets."""
        offsets = listed_offsets(self.offsets, len(self.found.missing))
        listed = [offsets] * bool(self.found.missing)
        if self.beyond:
            skipped, counted = len(self.found.skipped_offsets), self.causes.skipped
            which = listed_offsets(first_named(self.found.skipped_offsets), skipped)
            listed += [
                f"among the {skipped:,} that the spec skips now, of which the table has counted {counted:,} as"
                f" skipped: {which}"
            ]
        records = plural(self.count, "record")
        return f"missing: {records} in Kafka (not a row, a dead letter or skipped): {'; and '.join(listed)}"

    @property
    def offsets(self) -> tuple[int, ...]:
        return first_named(self.found.missing)

    @property
    def _sums(self) -> OffsetSums:
        return sums_of(offsets_of(self.found.missing))

    @property
    def _whole(self) -> bool:
        """Return whether Kafka has a record at each offset that was read: no record of any cause is gone."""
        return self.found.records == self.causes.progress.next - self.causes.progress.origin

    @property
    def _good_explained(self) -> bool:
        """Return whether causes explain the records that no spec refuses, of those that were skipped for few reasons.

        Where Kafka has all that was read, their number alone says so.
        """
        if self._whole or self.follows_keys:
            return True
        causes = self.causes
        skipped = min(self.skipped_then, causes.skipped_unshown)
        rows = causes.elsewhere + causes.forgotten + causes.removed
        return len(self.found.missing_good) <= skipped + rows + self.letters

    @property
    def _known(self) -> tuple[int, OffsetSums] | None:
        """Return the count and the sums of all offsets that are rightly missing; None if they are not known."""
        causes = self.causes
        if self.skipped_then or causes.elsewhere or self.beyond or causes.removed:
            return None
        if causes.forgotten_sums is None or (self.follows_keys and causes.forgotten):
            return None
        return causes.letters.count + causes.forgotten, causes.letters.sums + causes.forgotten_sums

    @property
    def _sums_agree(self) -> bool:
        return self._known == (self.count, self._sums)

    @property
    def _sums_contradict(self) -> bool:
        """Return whether the missing offsets are others than those that are known by their sums.

        If the record of one of these is gone, the difference of the sums is its offset.
        """
        if self._known is None:
            return False
        count, sums = self._known
        if count == self.count:
            return not self._sums_agree
        gone, progress = missing_one(sums, self._sums), self.causes.progress
        is_read = gone is not None and progress.origin <= gone < progress.next and gone not in self.found.missing
        return count == self.count + 1 and not is_read


def _not_shown(tables: Sequence[ComparedTable], ledger: TableState, where: TopicPartition) -> tuple[int, int]:
    """Return how many records of a partition were skipped, and how many are in tables that are not compared."""
    if ledger.group is None:
        return progress_by_source(ledger)[where].counts.skipped, 0
    skipped = group_progress(ledger.group).get(where, GroupPartition()).counts.skipped
    if are_shapes(ledger.group.routes):
        return skipped, 0
    return skipped, rows_elsewhere(ledger.group, {table.spec.table for table in tables}).get(where, 0)


def _was_routed_otherwise(ledger: TableState, where: TopicPartition) -> bool:
    """Return whether other routes have divided some records: another table may have refused them then."""
    since = GroupPartition() if ledger.group is None else group_progress(ledger.group).get(where, GroupPartition())
    return since.routed_since > progress_by_source(ledger)[where].origin
