"""Read which batches a table consists of, from the receipts in its retained snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from frazil.materialize.state import Standing, standing
from frazil.model.errors import StateLostError
from frazil.model.progress import TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.model.summary import carries_state, is_rewrite, receipt_in, state_in
from frazil.ports import Lake
from frazil.proof.chain import BatchSnapshot, Chain, Link, OtherCommit, chain_of, check_chain
from frazil.proof.rows import TAKEN_OUT_BY
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, Verification

READ_AT_ONCE = 8
"""How many receipts are read at the same time: each is the beginning of one small object."""

BY_FRAZIL, BY_REPLAY, BY_OTHERS = "rewritten by Frazil", "replay of dead letters", "another writer"
BY_FORGET = f"rows taken out by {TAKEN_OUT_BY}"


def with_chains(lake: Lake, together: Sequence[TableSpec], results: Sequence[Verification]) -> tuple[Verification, ...]:
    """Return the results of a table or of a group with the batches of each table, as `with_chain`.

    The last result of a group is not that of a table, and stays as it is.
    """
    tables = [with_chain(lake, spec, result) for spec, result in zip(together, results, strict=False)]
    return (*tables, *results[len(tables) :])


def with_chain(lake: Lake, spec: TableSpec, verification: Verification) -> Verification:
    """Return the result with the batches of the table, as of the snapshot that was verified, and their check.

    A result without a state stays as it is, and so does that of a table whose rebuild is not complete: its batches are
    not those of `main` yet. Raises CatalogError where the catalog or storage does not answer.
    """
    view = lake.load(spec.identifier)
    if view is None or verification.epoch is None or verification.snapshot_id not in view.snapshots:
        return verification
    try:
        at = standing(replace(view, head=verification.snapshot_id), pipeline=spec.pipeline)
    except StateLostError:
        return verification
    try:
        chain = read_chain(at)
    except StateLostError as lost:
        check = Check("ranges", "", (Discrepancy(FindingKind.NO_STATE, spec.identifier, lost.what),))
        return replace(verification, checks=(*verification.checks, check))
    check = check_chain(chain, shares=spec.group is not None, joins=spec.ledger is not None)
    return replace(verification, checks=(*verification.checks, check), chain=chain)


def read_chain(at: Standing) -> Chain:
    """Return the batches and the other commits of the retained snapshots. Raises StateLostError for a damaged one."""
    snapshots = list(at.view.ancestry(at.view.head))
    carriers = [each for each in snapshots if carries_state(each)]
    with ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="receipts") as pool:
        found = dict(zip((each.id for each in carriers), pool.map(_document, carriers), strict=True))
    links: dict[TopicPartition, list[Link]] = {where: [] for where in progress_by_source(at.state)}
    others: list[OtherCommit] = []
    generation = at.state.generation
    for snapshot in snapshots:
        state, receipt = found.get(snapshot.id, (None, None))
        if receipt is None or receipt.replayed or receipt.forgotten is not None:
            others += _other(snapshot, receipt)
            continue
        is_rebuilt = state is not None and state.generation != generation
        for where, link in _links(snapshot, receipt):
            if where in links and not (is_rebuilt and _is_read_again(links[where], link)):
                links[where].append(link)
    oldest_first = {where: each[::-1] for where, each in links.items()}
    return chain_of(progress_by_source(at.state), oldest_first, others[::-1])


def _document(snapshot: Snapshot) -> tuple[TableState, Receipt | None]:
    return state_in(snapshot), receipt_in(snapshot)


def _links(snapshot: Snapshot, receipt: Receipt) -> Iterator[tuple[TopicPartition, Link]]:
    batch = BatchSnapshot(receipt.epoch, receipt.batch_id, snapshot.id, snapshot.committed_at)
    for each in receipt.ranges:
        if each.end > each.start:
            yield (each.topic, each.partition), Link(batch, each.start, each.end, each.counts, each.gaps)


def _is_read_again(later: Sequence[Link], link: Link) -> bool:
    """Return whether a rebuild, whose receipt is one range for all that it read, covers the range of a batch in it."""
    return bool(later) and link.end > later[-1].start


def _other(snapshot: Snapshot, receipt: Receipt | None) -> Iterator[OtherCommit]:
    """Yield the snapshot, unless it is the first one of the table, which has no rows."""
    if receipt is None and carries_state(snapshot):
        return
    by = BY_FRAZIL if is_rewrite(snapshot) else BY_OTHERS
    if receipt is not None:
        by = BY_REPLAY if receipt.forgotten is None else BY_FORGET
    added, removed = snapshot.figure("added-records"), snapshot.figure("deleted-records")
    yield OtherCommit(snapshot.id, snapshot.committed_at, snapshot.operation, by, added, removed)
