"""The proof of a group of tables: of each table, and that together they have each record once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.group.complete import left_ahead, staged_branch, why_apart
from frazil.materialize.group.rebuilt import is_ready
from frazil.materialize.state import Standing, standing
from frazil.model.errors import TableError
from frazil.model.progress import Counts, GroupPartition
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import BATCH_ID, carries_state
from frazil.ports import Lake
from frazil.proof.group import GroupTable, check_group, group_progress, rows_elsewhere
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, Verification
from frazil.verify.dead import DeadLetters, check_dead_letters, tally_dead_letters
from frazil.verify.proven import ComparedTable, count_table
from frazil.verify.scan import Watch
from frazil.verify.table import (
    compare,
    no_dead_letters,
    remembered_deletes,
    unwatched,
    verification_of,
    verify_table,
    without_state,
)

if TYPE_CHECKING:
    from frazil.verify.against_kafka import KafkaSide


def verify_together(
    lake: Lake, specs: Sequence[TableSpec], *, kafka: KafkaSide | None = None, watch: Watch = unwatched
) -> tuple[Verification, ...]:
    """Verify a table, or the tables of a group, whose ledger comes first; the last result is then that of the group.

    Raises as `verify_table`.
    """
    if specs[0].group is None:
        return (verify_table(lake, specs[0], kafka=kafka, watch=watch),)
    view, dead_view = lake.load(specs[0].identifier), lake.load(specs[0].dead_letters_identifier)
    if view is None:
        return tuple(_without_ledger(lake, specs, dead_view))
    try:
        ledger = standing(view, pipeline=specs[0].pipeline)
    except TableError as error:
        what = "not verified, because the state of the group's ledger cannot be read"
        others = (without_state(spec, None, FindingKind.NO_STATE, what) for spec in specs[1:])
        return (without_state(specs[0], view.head, FindingKind.NO_STATE, error.what), *others)
    tables = [_Table(specs[0], ledger), *(_loaded(lake, spec, ledger) for spec in specs[1:])]
    return _verified(lake, ledger, tables, dead_view, kafka, watch)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a group as it was at the ledger's batch. `at` is None if it is not there, or cannot be read there.

    `takes_part` is false if it does not have this batch and is not expected to.
    """

    spec: TableSpec
    at: Standing | None
    takes_part: bool = True
    finding: Discrepancy | None = None
    note: str = ""

    @property
    def check(self) -> Check:
        """The check that it has the ledger's batch."""
        findings = () if self.finding is None else (self.finding,)
        return Check("batch", "the batch of the group's ledger", findings, (self.note,) if self.note else ())


def _without_ledger(lake: Lake, specs: Sequence[TableSpec], dead_view: TableView | None) -> Iterator[Verification]:
    made = dead_view is not None or any(lake.load(spec.identifier) is not None for spec in specs[1:])
    for spec in specs:
        what = f"the ledger of the group, {specs[0].identifier}, was dropped"
        missing = without_state(spec, None, FindingKind.NO_TABLE, what)
        yield missing if made else Verification(spec.identifier, None, None, None, Counts(), ())


def _loaded(lake: Lake, spec: TableSpec, ledger: Standing) -> _Table:
    """Load another table of the group, after the ledger: it may be ahead of the ledger, or a step behind."""
    group = ledger.state.group
    view, has_line = lake.load(spec.identifier), group is not None and group.line_of(spec.table) is not None
    if view is None:
        what = f"the table was dropped: the ledger of its group, {ledger.view.identifier}, counts its rows"
        finding = Discrepancy(FindingKind.NO_TABLE, spec.identifier, what) if has_line else None
        return _Table(spec, None, takes_part=False, finding=finding)
    try:
        at = standing(view, pipeline=spec.pipeline)
        if at.state.itself == ledger.state.itself:
            return _Table(spec, at, takes_part=group is not None and group.has(spec.table))
        return _placed(lake, spec, at, ledger)
    except TableError as error:
        return _Table(spec, None, finding=Discrepancy(FindingKind.NO_STATE, spec.identifier, error.what))


def _placed(lake: Lake, spec: TableSpec, at: Standing, ledger: Standing) -> _Table:
    """Return a table that is at another batch than the ledger, at the ledger's batch if it has it or can get it."""
    batch, view = ledger.state.itself, at.view
    then = None if left_ahead(ledger, at) else _before_next_batch(view, batch.batch_id)
    takes_part = ledger.state.group is not None and ledger.state.group.has(spec.table)
    if then is not None:
        return _Table(spec, standing(replace(view, head=then.id), pipeline=spec.pipeline), takes_part=takes_part)
    if not takes_part:
        return _Table(spec, at, takes_part=False)
    if is_ready(at, batch.batch_id) and not why_apart(ledger, at) and (rebuilt := lake.rebuilt(view)) is not None:
        note = "the rebuild of its group is not complete; the next run completes it"
        return _Table(spec, standing(rebuilt, pipeline=spec.pipeline), note=note)
    branch = staged_branch(at, batch.batch_id)
    if branch is None or why_apart(ledger, at):
        what = (
            f"the table is at epoch {at.state.epoch} (batch {at.state.batch_id}), its group's ledger"
            f" {ledger.view.identifier} at epoch {batch.epoch} (batch {batch.batch_id}), and the next run cannot bring"
            " both to one batch"
        )
        return _Table(spec, at, finding=Discrepancy(FindingKind.GROUP_APART, spec.identifier, what))
    note = f"the last batch of the group is staged on the branch {branch}; the next run makes it visible"
    return _Table(spec, standing(replace(view, head=view.branches[branch]), pipeline=spec.pipeline), note=note)


def _before_next_batch(view: TableView, batch_id: str) -> Snapshot | None:
    """Return the newest snapshot of `main` whose state is that of a batch; None if it has no such batch."""
    newest: Snapshot | None = None
    for snapshot in view.ancestry(view.head):
        newest = newest or snapshot
        if carries_state(snapshot):
            if snapshot.summary[BATCH_ID] == batch_id:
                return newest
            newest = None
    return None


def _verified(
    lake: Lake,
    ledger: Standing,
    tables: Sequence[_Table],
    dead_view: TableView | None,
    kafka: KafkaSide | None,
    watch: Watch,
) -> tuple[Verification, ...]:
    dead = None if dead_view is None else tally_dead_letters(dead_view, ledger, watch=watch)
    counted = [
        None
        if table.at is None
        else count_table(as_applied(table.spec, table.at.view.properties), table.at, watch=watch)
        for table in tables
    ]
    letters = {} if dead is None else dead.offsets
    results: list[Verification] = []
    compared: list[ComparedTable] = []
    parts: list[GroupTable] = []
    for table, own in zip(tables, counted, strict=True):
        if own is None:
            checks = (table.check,) if table.finding else ()
            results.append(Verification(table.spec.identifier, None, None, None, Counts(), checks))
            continue
        others = () if own.spec.group is not None and own.spec.group.has_shapes else counted
        elsewhere = [letters, *(each.seen for each in others if each is not None and each is not own)]
        proven = own.proven(_union(elsewhere))
        own_checks = (*proven.checks, *remembered_deletes(lake, own.at), table.check)
        results.append(verification_of(own.spec.identifier, own.at, own_checks, proven))
        if table.finding is None:
            compared.append(ComparedTable(own.spec, own.at, proven))
            parts.append(GroupTable(own.spec.table, own.at.state, proven.seen, takes_part=table.takes_part))
    of_group = _group_checks(ledger, parts, compared, dead, tables[0].spec)
    if kafka is not None and dead_view is not None:
        so_far = [*(check for result in results for check in result.checks), *of_group]
        of_group += compare(compared, dead_view, kafka, so_far, watch)
    return (*results, _of_group(tables[0].spec, ledger, of_group))


def _union(offsets: Sequence[Mapping[TopicPartition, BitMap64]]) -> dict[TopicPartition, BitMap64]:
    found: dict[TopicPartition, BitMap64] = {}
    for each in offsets:
        for at, some in each.items():
            found[at] = found.get(at, BitMap64()) | some
    return found


def _group_checks(
    ledger: Standing,
    parts: Sequence[GroupTable],
    tables: Sequence[ComparedTable],
    dead: DeadLetters | None,
    spec: TableSpec,
) -> list[Check]:
    group = ledger.state.group
    if group is None:
        lacking = f"the state of {spec.identifier} at epoch {ledger.state.epoch} has none of its group"
        findings = (Discrepancy(FindingKind.NO_STATE, spec.pipeline.name, lacking),) if ledger.state.epoch else ()
        return [Check("group", "nothing has been read yet", findings)]
    check = check_group(ledger.state, group, parts)
    if dead is None:
        return [check, no_dead_letters(spec, ledger, group.total().dead_letters)]
    if any(table.proven.rows is None for table in tables):
        return [check, *dead.checks]
    known = group_progress(group)
    counted = {at: known.get(at, GroupPartition()).counts.dead_letters for at in progress_by_source(ledger.state)}
    rows = {table.spec.identifier: table.proven.seen for table in tables}
    letters = check_dead_letters(
        ledger,
        dead,
        rows,
        counted=counted,
        others_removed=any(table.proven.others_removed for table in tables),
        elsewhere=rows_elsewhere(group, {table.spec.table for table in tables}),
    )
    return [check, *dead.checks, letters]


def _of_group(spec: TableSpec, ledger: Standing, checks: Sequence[Check]) -> Verification:
    return Verification(
        table=spec.pipeline.name,
        snapshot_id=ledger.view.head,
        epoch=ledger.state.epoch,
        complete_through=ledger.state.complete_through,
        counts=Counts() if ledger.state.group is None else ledger.state.group.total(),
        checks=tuple(checks),
    )
