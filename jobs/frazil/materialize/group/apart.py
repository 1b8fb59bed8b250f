"""The tables of a group are not at one batch, and Frazil cannot bring them to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from frazil.materialize.group.rebuilt import head_when_ready
from frazil.materialize.state import CHECKPOINT_TAG, Standing, generation_of
from frazil.model.errors import GroupApartError, StateLostError
from frazil.model.progress import BatchRef
from frazil.model.snapshot import Snapshot
from frazil.model.summary import BATCH_ID, EPOCH, carries_state, state_in

SEE = "see docs/operate.md, GroupApartError"


def tables_apart(group: str, tables: Sequence[Standing], why: str) -> GroupApartError:
    """Return the error that names the batch of each table, of which the ledger is the first, and a way back to one.

    That is what completes a rebuild, or else the snapshots of the newest batch that all have.
    """
    listed = "; ".join(f"{each.view.identifier} is at epoch {_named(each.state.itself)}" for each in tables)
    return GroupApartError(f"the tables of {group} are not at one batch: {listed}; {why}", hint=_way_back(tables))


def _way_back(tables: Sequence[Standing]) -> str:
    ledger, *others = tables
    heads = {each.view.identifier: head_when_ready(each, ledger.state.batch_id) for each in others}
    if ways := _ways({name: head for name, head in heads.items() if head is not None}):
        return f"set `main` of {ways}, and run again; {SEE}"
    if common := _newest_common(tables):
        batch, snapshots = common
        return f"set `main` of each table to epoch {_named(batch)}: {_ways(snapshots)}; {SEE}"
    return (
        "no batch is left in all of them: drop the tables of the group, and run `frazil materialize`; rows whose"
        f" records Kafka no longer has are lost then; {SEE}"
    )


def _ways(snapshots: Mapping[str, int]) -> str:
    return ", ".join(f"{name} to snapshot {at}" for name, at in snapshots.items())


def _named(batch: BatchRef) -> str:
    return f"{batch.epoch} (batch {batch.batch_id or 'none'})"


def _newest_common(tables: Sequence[Standing]) -> tuple[BatchRef, dict[str, int]] | None:
    found = {each.view.identifier: {_batch(s): s.id for s in _carriers(each)} for each in tables}
    common = set.intersection(*(set(of_table) for of_table in found.values()))
    newest = max(common, key=lambda batch: batch.epoch, default=None)
    return None if newest is None else (newest, {name: of_table[newest] for name, of_table in found.items()})


def _carriers(at: Standing) -> Iterator[Snapshot]:
    """Yield the snapshots with a state that `main` has, or had before it was rolled back, since its last rebuild."""
    tagged = at.view.ancestry(at.view.tags.get(CHECKPOINT_TAG))
    for snapshot in chain(at.view.ancestry(at.view.head), tagged):
        with suppress(StateLostError):
            if carries_state(snapshot) and state_in(snapshot).generation == generation_of(at.view):
                yield snapshot


def _batch(snapshot: Snapshot) -> BatchRef:
    return BatchRef(int(snapshot.summary[EPOCH]), snapshot.summary[BATCH_ID])
