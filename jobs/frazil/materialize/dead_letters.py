"""Dead letters become visible exactly when their batch does, in two steps.

They are prepared on a branch of their own table before the rows are published, and revealed right after. The
next process finishes a prepared branch whose batch the rows carry; a branch whose batch they do not carry is dropped
once another batch has been published, when it never can be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from frazil.materialize.branches import ATTEMPTS, BaseExpiredError, Staged, branch_names, given_up, stage_on_branch
from frazil.materialize.dead_letter_checks import check_dead_letters
from frazil.materialize.dead_letter_marks import EPOCH_COLUMN, has_marks
from frazil.materialize.layout import ADDED_DEAD_LETTER_COLUMNS, DEAD_LETTER_COLUMNS, TABLE_PROPERTIES
from frazil.materialize.rewrite_tags import rewrite_tags
from frazil.materialize.state import CHECKPOINT_TAG, Standing
from frazil.model.changes import AddColumn
from frazil.model.errors import (
    CommitError,
    CommitRejectedError,
    FrazilError,
    StateLostError,
)
from frazil.model.expired_letters import EXPIRED, expired_letters
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import BATCH_ID, EPOCH, FORMAT_VERSION, PIPELINE, ROWS_UUID, VERSION, carries_state
from frazil.modes.mode import BatchChange
from frazil.ports import Lake

LOG = logging.getLogger(__name__)

PREPARED_PREFIX = "frazil_prepared_"
NO_BATCH = ""
REBUILT = "frazil.rebuilt"
"""A summary key of dead letters of a rebuild: the epoch after which they take the place of all others; 0 for all."""


def ensure_dead_letters(lake: Lake, spec: TableSpec, here: Standing) -> TableView:
    """The spec's dead-letter table, made if it is missing and the table of rows counts no dead letters.

    Raises as `check_dead_letters` does.
    """
    view = lake.load(spec.dead_letters_identifier)
    check_dead_letters(view, spec, here)
    if view is None:
        try:
            view = create_dead_letters(lake, spec)
        except CommitRejectedError:
            view = _load(lake, spec.dead_letters_identifier)
            check_dead_letters(view, spec, here)
    return _with_added_columns(lake, view)


def create_dead_letters(lake: Lake, spec: TableSpec) -> TableView:
    """Make the spec's dead-letter table, empty. Raises CommitError."""
    return lake.create(
        spec.dead_letters_identifier,
        DEAD_LETTER_COLUMNS + ADDED_DEAD_LETTER_COLUMNS,
        partition_by=(),
        properties=TABLE_PROPERTIES,
        summary=_summary(spec.pipeline.name, epoch=0, batch_id=NO_BATCH),
        tag=CHECKPOINT_TAG,
    )


def _with_added_columns(lake: Lake, view: TableView) -> TableView:
    """Return the table with the columns that an earlier release did not make. Raises as `reveal`."""
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        there = {column.name for column in view.columns}
        lacking = [each for each in ADDED_DEAD_LETTER_COLUMNS if each.name not in there]
        if not lacking:
            return view
        try:
            return lake.change_schema(view, [AddColumn(each.name, each.type, each.doc) for each in lacking], {})
        except CommitError as failed:
            reason = failed
        view = _load(lake, view.identifier)
    raise given_up(view.identifier, "add columns", reason) from reason


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of a batch: generation by topic, and offsets by topic and partition.

    Visible dead letters of the same table of rows with these offsets, or later ones, are of batches that were taken
    back.
    """

    rows_uuid: str
    sources: Mapping[str, tuple[int, Mapping[int, int]]]

    @staticmethod
    def after(state: TableState, rows_uuid: str) -> Beginning:
        """Return the start of the batch that follows a state."""
        nexts = {s.topic: (s.generation, {n: p.next for n, p in s.partitions.items()}) for s in state.sources}
        return Beginning(rows_uuid, nexts)

    @staticmethod
    def of_last(state: TableState, rows_uuid: str) -> Beginning:
        """Return the start of the batch that a state ends with."""
        starts = {s.topic: (s.generation, {n: p.start for n, p in s.partitions.items()}) for s in state.sources}
        return Beginning(rows_uuid, starts)

    def taken_back(self, epoch: int, *, marks: bool) -> str:
        """Return a filter in Iceberg's language for dead letters from here on, and for marks since an epoch.

        `marks` says whether the table has the columns of marks.
        """
        if not marks:
            return self.condition
        # the library keeps every row with a null in a column that is compared, unless the filter speaks of nulls
        since = f"{EPOCH_COLUMN} IS NOT NULL AND {EPOCH_COLUMN} >= {epoch}"
        return f"({self.condition}) OR (table_uuid = '{self.rows_uuid}' AND {since})"

    @property
    def condition(self) -> str:
        """Return a filter in Iceberg's language for dead letters from here on."""
        of_table = f"table_uuid = '{self.rows_uuid}'"
        if not self.sources:
            return of_table
        known = ", ".join(f"'{topic}'" for topic in sorted(self.sources))
        of_known = [_from_here_on(topic, *each) for topic, each in sorted(self.sources.items())]
        return f"{of_table} AND ({' OR '.join([*of_known, f'topic NOT IN ({known})'])})"


def _from_here_on(topic: str, generation: int, offsets: Mapping[int, int]) -> str:
    behind = [f"(partition = {number} AND offset >= {offset})" for number, offset in sorted(offsets.items())]
    known = ", ".join(str(number) for number in sorted(offsets))
    new = [f"partition NOT IN ({known})"] if known else ["partition >= 0"]
    here = f"(generation = {generation} AND ({' OR '.join(behind + new)}))"
    return f"(topic = '{topic}' AND (generation > {generation} OR {here}))"


def prepare(lake: Lake, identifier: str, *, plan: BatchPlan, writer: str, files: Sequence[WrittenFile]) -> None:
    """Stage a batch's dead letters on a branch that no reader sees, unless they are already staged.

    Raises StateLostError if the table was dropped, and CommitError if every attempt to commit failed.
    """
    view = _load(lake, identifier)
    place = _parent_for(view, plan.epoch, plan.table_uuid)
    nothing_to_change = not files and place.whole and place.base == view.head
    if nothing_to_change or _prepared_of(view, plan.batch_id) is not None:
        return
    names = branch_names(PREPARED_PREFIX, writer + "_" + plan.batch_id)
    summary = {
        **_summary(plan.state.pipeline, epoch=plan.epoch, batch_id=plan.batch_id),
        ROWS_UUID: plan.table_uuid,
    }
    beginning = Beginning.after(plan.state, plan.table_uuid)
    _stage(lake, view, names=names, files=files, summary=summary, beginning=beginning)


def prepare_rebuilt(
    lake: Lake,
    identifier: str,
    *,
    plan: BatchPlan,
    after: TableState,
    since: int,
    writer: str,
    files: Sequence[WrittenFile],
) -> None:
    """Stage the dead letters of a rebuilt table, in the place of those of all its batches after the epoch `since`.

    `after` is the rebuilt table's state. Raises as `prepare`.
    """
    summary = {
        **_summary(plan.state.pipeline, epoch=plan.epoch, batch_id=plan.batch_id),
        ROWS_UUID: plan.table_uuid,
        REBUILT: str(since),
    }
    names = branch_names(PREPARED_PREFIX, writer + "_" + plan.batch_id)
    view, beginning = _load(lake, identifier), Beginning.of_last(after, plan.table_uuid)
    _stage(lake, view, names=names, files=files, summary=summary, beginning=beginning)


def keep_pending(lake: Lake, spec: TableSpec, *, plan: BatchPlan, writer: str, files: Sequence[WrittenFile]) -> None:
    """Keep the dead letters of a batch that is not published on the branch where they would be prepared.

    A failure is only logged: the error that keeps the batch from being published matters more.
    """
    table = spec.dead_letters_identifier
    try:
        prepare(lake, table, plan=plan, writer=writer, files=files)
    except FrazilError as failure:
        LOG.warning("pending_dead_letters_not_kept", extra={"table": table, "problem": failure.what})


def reveal(lake: Lake, identifier: str, *, state: TableState, rows: str, rows_uuid: str) -> TableView:
    """Make the prepared dead letters of the batch that a state ends with visible, unless they already are.

    Does nothing if the table `rows` does not end with that batch: either another driver revealed them and published
    more, or the batch was rolled back. To reveal them then would take out the dead letters of later batches.

    Returns the table of dead letters as it is then.
    Raises StateLostError if the table was dropped, and CommitError if every attempt to commit failed.
    """
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        view = _load(lake, identifier)
        prepared = _prepared_of(view, state.batch_id)
        if prepared is None or _carries(view, state.batch_id):
            return view
        if not _is_last(lake, rows, rows_uuid, state.batch_id):  # read after `view`, which the commit below compares
            return _load(lake, identifier)  # whoever published more may have revealed them since `view`
        if prepared.base != _parent_for(view, state.epoch, rows_uuid).base:
            _stage_again(lake, view, prepared, Beginning.of_last(state, rows_uuid))
            continue
        drop = [*_branches_of(view, state.batch_id), *rewrite_tags(view)]
        try:
            lake.publish(view, branch=prepared.branch, tag=CHECKPOINT_TAG, drop=drop)
        except CommitError as failed:
            reason = failed
    view = _load(lake, identifier)
    if not _carries(view, state.batch_id):
        raise given_up(identifier, "reveal its dead letters", reason) from reason
    return view


def _is_last(lake: Lake, rows: str, rows_uuid: str, batch_id: str) -> bool:
    """Return whether the table of rows ends with a batch, or is not there any more: another one has its own epochs."""
    view = lake.load(rows)
    if view is None or view.uuid != rows_uuid:
        return True
    last = next((snapshot for snapshot in view.ancestry(view.head) if carries_state(snapshot)), None)
    return last is not None and last.summary[BATCH_ID] == batch_id


def pending_batches(view: TableView) -> dict[str, int]:
    """Batches whose dead letters are kept for a look and not visible: batch id → the snapshot that has them."""
    found = {view.snapshots[head].summary.get(BATCH_ID, ""): head for _, head in _prepared(view)}
    return {batch_id: head for batch_id, head in found.items() if not _carries(view, batch_id)}


def unrevealed(view: TableView, rows_uuid: str, *, since: int) -> bool:
    """Return whether a batch of this epoch or a later one is prepared, and not visible."""
    prepared = (view.snapshots[head] for _, head in _prepared(view))
    of_table = (snapshot for snapshot in prepared if snapshot.summary.get(ROWS_UUID) == rows_uuid)
    return any(_epoch(each) >= since and not _carries(view, each.summary[BATCH_ID]) for each in of_table)


def drop_others(lake: Lake, identifier: str, *, plan: BatchPlan) -> None:
    """Drop prepared branches of batches that can never be published, right after the batch of `plan` was.

    Branches of later epochs belong to another process that took over while this one slept. After a rollback its epochs
    are not later, so nothing is dropped unless the table of rows ends with this batch. Branches of another table of
    rows are never dropped here: epochs of two tables cannot be compared. Raises StateLostError if the dead letters were
    dropped.
    """
    view = _load(lake, identifier)
    prepared = ((name, view.snapshots[head]) for name, head in _prepared(view))
    same_table = ((name, s) for name, s in prepared if s.summary.get(ROWS_UUID) == plan.table_uuid)
    others = [n for n, s in same_table if _epoch(s) <= plan.epoch and s.summary.get(BATCH_ID) != plan.batch_id]
    if not others or not _is_last(lake, plan.table, plan.table_uuid, plan.batch_id):  # read after `view`
        return
    try:
        lake.drop_branches(view, others)
    except CommitError:
        return  # Whoever publishes next drops them.


def _stage_again(lake: Lake, view: TableView, prepared: Staged, beginning: Beginning) -> None:
    """Stage the same files on the current head, because the table changed since (a compaction, for example)."""
    said = view.snapshots[prepared.snapshot_id].summary
    kept = {n: text for n, text in said.items() if n.startswith("frazil.") and n != EXPIRED}
    names = branch_names(f"{prepared.branch}_on_{view.head}_", "")
    files = lake.added_files(view, prepared.snapshot_id)
    _stage(lake, view, names=names, files=files, summary=kept, beginning=beginning)


def _stage(
    lake: Lake,
    view: TableView,
    *,
    names: Iterator[str],
    files: Sequence[WrittenFile],
    summary: Mapping[str, str],
    beginning: Beginning,
) -> None:
    change = BatchChange(files, figures={})
    for _ in range(ATTEMPTS):
        epoch = int(summary[EPOCH])
        place = _parent_for(view, epoch, beginning.rows_uuid)
        letters = expired_letters(view, place.base, tagged(view))
        expired, document = letters.stored()
        without = None if place.whole else beginning.taken_back(epoch, marks=has_marks(view))
        if REBUILT in summary:
            since = int(summary[REBUILT])
            without = beginning.taken_back(since + 1, marks=has_marks(view))
            if not since:
                expired, document = letters.without(beginning.rows_uuid).written()
                without = replace(beginning, sources={}).condition
        try:
            stage_on_branch(
                lake,
                view,
                base=place.base,
                names=names,
                change=change,
                summary={**summary, **expired},
                document=document,
                without=without,
            )
        except BaseExpiredError as expired:
            view, reason = _load(lake, view.identifier), expired
        else:
            return
    raise given_up(view.identifier, "prepare dead letters", reason) from reason


@dataclass(frozen=True, slots=True)
class _Parent:
    """The parent snapshot of new dead letters. If it is not `whole`, some of its dead letters must be removed first."""

    base: int
    whole: bool


def _parent_for(view: TableView, epoch: int, rows_uuid: str) -> _Parent:
    """Return the parent for dead letters of an epoch: the head, or the snapshot before a batch that was rolled back.

    The table of rows was rolled back if dead letters of this epoch, or of a later one, and of the same table are
    visible before it is published: they are read again, and must not appear twice. Where the snapshot from before them
    has expired, or another table's came on top of them, they are taken out.
    """
    assert view.head is not None  # noqa: S101 - the table was made with a snapshot
    carriers = [snapshot for snapshot in view.ancestry(view.head) if EPOCH in snapshot.summary]
    known = [snapshot for snapshot in carriers or tagged(view) if snapshot.summary.get(ROWS_UUID) == rows_uuid]
    later = [snapshot for snapshot in known if _epoch(snapshot) >= epoch]
    if not later:
        all_known = bool(known) or (bool(carriers) and not carriers[-1].summary[BATCH_ID])
        return _Parent(view.head, whole=all_known)
    taken_back = list(takewhile(lambda snapshot: snapshot in later, carriers))
    if len(taken_back) < len(later):
        return _Parent(view.head, whole=False)
    oldest = taken_back[-1]
    before = oldest.parent_id
    return _Parent(before, whole=True) if before in view.snapshots and before else _Parent(oldest.id, whole=False)


def tagged(view: TableView) -> list[Snapshot]:
    """The snapshot of the last batch, where the chain from the head does not reach it any more."""
    snapshot = view.snapshots.get(view.tags.get(CHECKPOINT_TAG, -1))
    return [] if snapshot is None else [snapshot]


def _prepared(view: TableView) -> Iterator[tuple[str, int]]:
    return ((name, head) for name, head in view.branches.items() if name.startswith(PREPARED_PREFIX))


def _branches_of(view: TableView, batch_id: str) -> Iterator[str]:
    return (name for name, head in _prepared(view) if view.snapshots[head].summary.get(BATCH_ID) == batch_id)


def _prepared_of(view: TableView, batch_id: str) -> Staged | None:
    branch = max(
        _branches_of(view, batch_id), key=lambda b: view.snapshots[view.branches[b]].committed_at, default=None
    )
    if branch is None:
        return None
    head = view.branches[branch]
    base = next((s.id for s in view.ancestry(head) if s.summary.get(BATCH_ID) != batch_id), 0)
    return Staged(branch, head, base, figures={})


def _carries(view: TableView, batch_id: str) -> bool:
    return any(snapshot.summary.get(BATCH_ID) == batch_id for snapshot in view.ancestry(view.head))


def _epoch(snapshot: Snapshot) -> int:
    return int(snapshot.summary[EPOCH])


def _summary(pipeline: str, *, epoch: int, batch_id: str) -> dict[str, str]:
    return {VERSION: FORMAT_VERSION, PIPELINE: pipeline, EPOCH: str(epoch), BATCH_ID: batch_id}


def _load(lake: Lake, identifier: str) -> TableView:
    view = lake.load(identifier)
    if view is None:
        raise StateLostError(
            f"the table {identifier}, which holds the dead letters, was dropped",
            hint="restore it: the proof of completeness needs it",
        )
    return view
