"""Tables of a group whose ledger was replaced by its rebuild: each of the others has its part ready, and takes it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from frazil.materialize.epoch_tags import epoch_tag, has_epoch_tags
from frazil.materialize.foreign import changed_rows, count_foreign
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.model.errors import FrazilError
from frazil.model.pipeline import Pipeline
from frazil.model.snapshot import READY_BRANCH, Snapshot
from frazil.model.spec import TableSpec
from frazil.model.summary import BATCH_ID, REPLACES, state_in
from frazil.ports import Lake


def is_ready(behind: Standing, batch_id: str) -> bool:
    """Return whether the table has its part of the ledger's batch ready, which is a rebuild of the group."""
    ready = _ready(behind)
    return ready is not None and ready.summary.get(BATCH_ID) == batch_id


def head_when_ready(behind: Standing, batch_id: str) -> int | None:
    """Return the snapshot on which the table takes its part of the ledger's batch, unless it is the head or gone."""
    head = _head_when_ready(behind) if is_ready(behind, batch_id) else None
    return head if head != behind.view.head and head in behind.view.snapshots else None


def changed_since_ready(behind: Standing) -> str:
    """Return that another writer has changed rows of the table since its rebuild was made ready, or nothing.

    Files that were rewritten have the same rows.
    """
    head = _head_when_ready(behind)
    if head == behind.view.head:
        return ""
    with suppress(FrazilError):
        before = standing(replace(behind.view, head=head), pipeline=Pipeline.of_state(behind.state))
        if not changed_rows(count_foreign(behind), count_foreign(before)):
            return ""
    changed = f"{behind.view.identifier} was changed by another writer before it had the rebuilt rows of its group"
    if head not in behind.view.snapshots:
        return f"{changed}, and snapshot {head}, which these rows replace, has expired"
    return f"{changed}: set its `main` to snapshot {head}, and the next run completes the rebuild"


def take_rebuilt(lake: Lake, spec: TableSpec, behind: Standing) -> None:
    """Let the table be what its rebuild has made ready. Raises CommitError if another process came first."""
    ready = _ready(behind)
    assert ready is not None  # noqa: S101 - `is_ready` found it
    state = state_in(ready)
    tags = [CHECKPOINT_TAG, *([epoch_tag(state.epoch)] if has_epoch_tags(spec) else [])]
    statistics = None if state.remembered is None else state.remembered.file
    lake.take_rebuilt(behind.view, tags=tags, statistics=statistics)


def _head_when_ready(behind: Standing) -> int:
    ready = _ready(behind)
    assert ready is not None  # noqa: S101 - `is_ready` found it
    return int(ready.summary[REPLACES])


def _ready(at: Standing) -> Snapshot | None:
    head = at.view.branches.get(READY_BRANCH)
    return None if head is None else at.view.snapshots[head]
