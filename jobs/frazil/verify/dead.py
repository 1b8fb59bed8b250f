"""Are the dead letters those that were counted, each once, and none of them also a row?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.former_columns import former_columns
from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.dead_letter_checks import COLUMNS_HINT, missing_columns
from frazil.materialize.dead_letter_marks import EPOCH_COLUMN, MARK_READ, LiveReplays, has_marks
from frazil.materialize.dead_letters import PREPARED_PREFIX, tagged
from frazil.materialize.layout import DEAD_LETTER_COLUMNS
from frazil.materialize.state import Standing
from frazil.model.dead_letter import told_of_replayed
from frazil.model.expired_letters import Expired, expired_letters
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spelling import plural
from frazil.model.summary import BATCH_ID, EPOCH, ROWS_UUID
from frazil.proof.rows import TAKEN_OUT_BY
from frazil.proof.sources import DEAD_LETTER_SOURCE, add_batch, progress_by_source
from frazil.proof.tally import Tallies, Tally, TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, first_named, listed_offsets
from frazil.verify.changed_columns import columns_made_again, columns_of_other_types, fate_of
from frazil.verify.files import check_files
from frazil.verify.scan import Watch

NO_OTHER_ROWS: Mapping[TopicPartition, int] = {}
COLUMNS = ("topic", "generation", "partition", "offset", "table_uuid")


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of the table and its topics as they are now.

    `earlier` are those of topics that were replaced since, and of a table that was dropped and made again.

    `notes` say what is no fault. `counted` is false where files or changed columns of other writers keep them from
    being counted.
    """

    tallies: Tallies
    earlier: int
    notes: tuple[str, ...]
    checks: tuple[Check, ...] = field(default_factory=tuple)
    counted: bool = True
    expired: Mapping[TopicPartition, Expired] = field(default_factory=dict)
    """Dead letters that were deleted because of their age."""
    marks: Tallies = field(default_factory=lambda: Tallies({}))
    """The marks of replays. Their dead letters must be rows, and are not counted as dead letters."""

    @property
    def offsets(self) -> Mapping[TopicPartition, BitMap64]:
        """The dead letters without a mark."""
        return {at: tally.seen - self.marked(at) for at, tally in self.tallies.by_source.items()}

    def marked(self, at: TopicPartition) -> BitMap64:
        return self.marks.by_source[at].seen if at in self.marks.by_source else BitMap64()


def visible_snapshot(view: TableView, state: TableState, *, rows_uuid: str) -> Snapshot | None:
    """The dead letters that belong to a state of the rows.

    A run that died after publishing its rows leaves its dead letters prepared on a branch; the next run reveals them.
    Those of later epochs do not count: the rows were rolled back, or another batch was published a moment ago.
    """
    revealed = any(s.summary.get(BATCH_ID) == state.batch_id for s in view.ancestry(view.head))
    prepared = [] if revealed or not state.batch_id else list(_prepared(view, state.batch_id))
    if prepared:
        return max(prepared, key=lambda s: s.committed_at)
    head = view.head
    for snapshot in view.ancestry(view.head):
        same_table = snapshot.summary.get(ROWS_UUID) == rows_uuid
        if same_table and int(snapshot.summary[EPOCH]) > state.epoch and snapshot.parent_id in view.snapshots:
            head = snapshot.parent_id
    return None if head is None else view.snapshots[head]


def _prepared(view: TableView, batch_id: str) -> Iterator[Snapshot]:
    for name, head in view.branches.items():
        if name.startswith(PREPARED_PREFIX) and view.snapshots[head].summary.get(BATCH_ID) == batch_id:
            yield view.snapshots[head]


def tally_dead_letters(view: TableView, at: Standing, *, watch: Watch) -> DeadLetters:
    """Add up the dead letters of the present generation of each topic."""
    state = at.state
    snapshot = visible_snapshot(view, state, rows_uuid=at.view.uuid)
    sources = progress_by_source(state)
    tallies, marks = (Tallies({source: Tally(p.origin, p.next) for source, p in sources.items()}) for _ in range(2))
    if snapshot is None:
        return DeadLetters(tallies, 0, ())
    changed = tuple(_changed_columns(view))
    if changed:
        return DeadLetters(tallies, 0, (), (Check("dead-letter columns", "", changed),), counted=False)
    files = check_files(view, snapshot, name="dead-letter files", watch=watch)
    if files.unprovable:
        return DeadLetters(tallies, 0, (), (files.check,), counted=False)
    columns = (*COLUMNS, *MARK_READ) if has_marks(view) else COLUMNS
    scan = TableScan(view, columns=columns, snapshot_id=snapshot.id, without=files.unreadable)
    made_again = tuple(_made_again(view, snapshot, files.unreadable))
    if made_again:
        return DeadLetters(tallies, 0, (), (Check("dead-letter columns", "", made_again),), counted=False)
    earlier, replays = 0, LiveReplays.of(at.view)
    for batch in scan.batches():
        traced = _traced(batch)
        tallies.rows += batch.num_rows - traced.num_rows
        tallies.unsourced += batch.num_rows - traced.num_rows
        present, old = _present(traced, at)
        if EPOCH_COLUMN in present.schema.names:
            add_batch(marks, DEAD_LETTER_SOURCE, present.filter(replays.have(present)))
            present = present.filter(present.column(EPOCH_COLUMN).is_null())
        earlier += old
        add_batch(tallies, DEAD_LETTER_SOURCE, present)
    notes = tuple(_notes(view, snapshot, earlier))
    return DeadLetters(tallies, earlier, notes, (files.check,), marks=marks, expired=expired_by_source(view, at))


def expired_by_source(view: TableView, at: Standing) -> Mapping[TopicPartition, Expired]:
    """Return the dead letters of the topics as they are now that were deleted because of their age."""
    snapshot = visible_snapshot(view, at.state, rows_uuid=at.view.uuid)
    found = expired_letters(view, None if snapshot is None else snapshot.id, tagged(view))
    return {
        (source.topic, number): found.of((at.view.uuid, source.topic, source.generation, number))
        for source in at.state.sources
        for number in source.partitions
    }


def _changed_columns(view: TableView) -> Iterator[Discrepancy]:
    for name in missing_columns(view):
        now = next((each.name_now for each in former_columns(view, name) if each.name_now is not None), None)
        fate = "renamed or dropped" if "[]" in name else fate_of(now)
        what = f"the column {name} was {fate} by another writer: {COLUMNS_HINT}"
        yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)
    yield from columns_of_other_types(view, DEAD_LETTER_COLUMNS)


def _made_again(view: TableView, snapshot: Snapshot, unreadable: Collection[str]) -> Iterator[Discrepancy]:
    names = [column.name for column in DEAD_LETTER_COLUMNS]
    return columns_made_again(view, snapshot.id, names, "earlier dead letters are null in it", without=unreadable)


def _traced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The dead letters that name their table and the generation of their topic, as all that Frazil writes do."""
    return batch.filter(pc.and_(batch.column("table_uuid").is_valid(), batch.column("generation").is_valid()))


def _present(batch: pa.RecordBatch, at: Standing) -> tuple[pa.RecordBatch, int]:
    """Drop dead letters of a replaced table or topic of the same name. Return the rest and how many were dropped."""
    of_another = pc.fill_null(pc.not_equal(batch.column("table_uuid"), at.view.uuid), False)
    present = batch.filter(pc.invert(of_another))
    for source in at.state.sources:
        same = pc.equal(present.column("topic"), source.topic)
        earlier = pc.and_(same, pc.less(present.column("generation"), source.generation))
        present = present.filter(pc.invert(pc.fill_null(earlier, False)))
    return present, batch.num_rows - present.num_rows


def _notes(view: TableView, snapshot: Snapshot, earlier: int) -> Iterator[str]:
    if any(snapshot.id == older.id for older in view.ancestry(view.head)):
        if snapshot.id != view.head:
            yield f"dead letters of batches that the table does not have are left out (after snapshot {snapshot.id})"
    else:
        yield f"the last batch's dead letters are staged (snapshot {snapshot.id}); the next run makes them visible"
    if earlier:
        yield f"not counted: {plural(earlier, 'dead letter')} of a replaced table or topic"


Rows = Mapping[str, Mapping[TopicPartition, BitMap64]]
"""The offsets of the rows of tables, by what the tables are called."""


def check_dead_letters(
    at: Standing,
    found: DeadLetters,
    rows: Rows,
    *,
    counted: Mapping[TopicPartition, int],
    others_removed: bool = False,
    elsewhere: Mapping[TopicPartition, int] = NO_OTHER_ROWS,
    followed: Mapping[TopicPartition, int] = NO_OTHER_ROWS,
    taken_out: Mapping[TopicPartition, int] = NO_OTHER_ROWS,
) -> Check:
    """Compare the dead letters with the rows and with the `counted` number of each partition.

    `others_removed` says that other writers removed rows. `elsewhere` is how many rows are in tables of a group that
    are not verified, and `followed` how many records of a table that follows keys became no row, or not for long.
    `taken_out` is how many rows went because they were old or were erased.
    """
    findings = list(_unsourced(found.tallies))
    notes = list(found.notes)
    if not found.counted:
        what = "the dead letters were not counted, because of what other writers changed"
        return Check("dead letters", "", (Discrepancy(FindingKind.UNPROVABLE, "dead letters", what),))
    for source, count in counted.items():
        tally = found.tallies.by_source[source]
        name = f"{source[0]}-{source[1]}"
        unmarked, seen = found.offsets[source], BitMap64()
        expected = count - found.expired.get(source, Expired()).count
        findings += _of_partition(name, expected, tally, unmarked, rolled_back=at.rolled_back)
        for table, of_table in rows.items():
            findings += _both(name, unmarked, of_table.get(source, BitMap64()), table)
            seen |= of_table.get(source, BitMap64())
        findings += _of_marks(name, found.marks.by_source.get(source), tally)
        without_row = found.marked(source) - seen
        no_row = followed.get(source, 0)
        if len(without_row) > no_row:
            gone = no_row + taken_out.get(source, 0)
            excuse = _excuse(len(without_row), elsewhere.get(source, 0), gone, others_removed=others_removed)
            offsets = first_named(without_row)
            what = f"marked as replayed, but not rows: {listed_offsets(offsets, len(without_row))}"
            if excuse:
                notes.append(f"{name}: {what}; {excuse}")
            else:
                findings.append(Discrepancy(FindingKind.REPLAYED_WITHOUT_ROW, name, what, offsets))
        if at.rolled_back and tally.outside:
            notes.append(f"{name}: {plural(tally.outside, 'dead letter')} of batches that were rolled back")
    says = _says(found, counted, all_are_rows=not followed)
    return Check("dead letters", says, tuple(findings), tuple(notes))


def _says(found: DeadLetters, counted: Mapping[TopicPartition, int], *, all_are_rows: bool) -> str:
    letters = plural(sum(counted.values()), "dead letter")
    says = f"{letters}: the counted number in each partition, each once, none also a row"
    expired = sum(each.count for each in found.expired.values())
    if expired:
        says += f"; `maintain.keep_dead_letters` or `frazil forget` deleted {expired:,} of them"
    replayed = sum(len(found.marked(source)) for source in counted)
    return f"{says}; {told_of_replayed(replayed, all_are_rows=all_are_rows, more='more ')}" if replayed else says


def _excuse(without_row: int, elsewhere: int, gone: int, *, others_removed: bool) -> str:
    """Return why replayed letters may have no row in the tables, or nothing."""
    if others_removed:
        return "other writers removed rows"
    if without_row <= elsewhere:
        return f"tables that are not verified have {plural(elsewhere, 'row')}"
    return f"rows that {TAKEN_OUT_BY} took out explain the number" if without_row <= gone else ""


def _of_marks(name: str, marks: Tally | None, letters: Tally) -> Iterator[Discrepancy]:
    """Yield a discrepancy for letters that are marked twice, and for marks whose letter is gone."""
    if marks is not None and marks.doubled:
        offsets = first_named(marks.doubled)
        what = f"dead letters that are marked as replayed twice: {listed_offsets(offsets, len(marks.doubled))}"
        yield Discrepancy(FindingKind.DOUBLED_DEAD_LETTERS, name, what, offsets)
    gone = BitMap64() if marks is None else marks.seen - letters.seen
    if gone:
        offsets = first_named(gone)
        what = f"marked as replayed, but no dead letters: {listed_offsets(offsets, len(gone))}"
        yield Discrepancy(FindingKind.DEAD_LETTER_COUNT, name, what, offsets)


def _unsourced(tallies: Tallies) -> Iterator[Discrepancy]:
    if tallies.unsourced:
        lacking = "without table, topic, generation, partition or offset"
        what = f"{plural(tallies.unsourced, 'dead letter')} {lacking}: another writer inserted or changed them"
        yield Discrepancy(FindingKind.DEAD_LETTER_COUNT, "dead letters", what)
    for (topic, partition), count in sorted(tallies.strangers.items()):
        what = f"{plural(count, 'dead letter')} of a partition that was never read"
        yield Discrepancy(FindingKind.DEAD_LETTER_COUNT, f"{topic}-{partition}", what)


def _of_partition(
    name: str, expected: int, tally: Tally, unmarked: BitMap64, *, rolled_back: bool
) -> Iterator[Discrepancy]:
    if len(unmarked) != expected:
        what = f"{plural(len(unmarked), 'dead letter')} in the table, counted: {expected:,}"
        yield Discrepancy(FindingKind.DEAD_LETTER_COUNT, name, what)
    if tally.outside and not rolled_back:
        offsets = tuple(tally.named_outside)
        outside = listed_offsets(offsets, tally.outside)
        what = f"dead letters with {outside}, expected all in [{tally.origin}, {tally.next})"
        yield Discrepancy(FindingKind.OUT_OF_BOUNDS, name, what, offsets)
    if tally.doubled:
        offsets = first_named(tally.doubled)
        what = f"{plural(tally.surplus, 'duplicate dead letter')}: {listed_offsets(offsets, len(tally.doubled))}"
        yield Discrepancy(FindingKind.DOUBLED_DEAD_LETTERS, name, what, offsets)


def _both(name: str, dead: BitMap64, rows: BitMap64, table: str) -> Iterator[Discrepancy]:
    both = dead & rows
    if both:
        offsets = first_named(both)
        what = f"in both {table} and the dead letters: {listed_offsets(offsets, len(both))}"
        yield Discrepancy(FindingKind.ROW_AND_DEAD_LETTER, name, what, offsets)
