"""The current state of a table: that of the nearest Frazil snapshot in the ancestry of `main`."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.errors import ForeignOwnerError, ForeignTableError, FormatVersionError, StateLostError
from frazil.model.pipeline import Pipeline
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.summary import carries_state, state_in

CHECKPOINT_TAG = "frazil_checkpoint"
"""Keeps the snapshot that carries the state alive through any expiry. It is moved with every publish."""
GENERATION_PROPERTY = "frazil.generation"
"""A table property: how often the table was rebuilt, as its state says too. A new table has none."""
WRITABLE_FORMAT = 2
"""The format version of Iceberg that tables are made with; PyIceberg writes no manifests of version 3."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A table's state, the snapshot that carries it, and the later snapshots of other writers.

    `rolled_back` is true if the tag is ahead of `main`: the table was rolled back, and its offsets with it.
    """

    view: TableView
    state: TableState
    carrier: Snapshot
    foreign: tuple[Snapshot, ...]
    rolled_back: bool


def standing(view: TableView, *, pipeline: Pipeline) -> Standing:
    """Return the state at the head of `main`.

    Raises ForeignTableError where Frazil never wrote the table, ForeignOwnerError where another pipeline does, and
    StateLostError where the chain from the head to our last snapshot is broken.
    """
    on_top: list[Snapshot] = []
    for snapshot in view.ancestry(view.head):
        if carries_state(snapshot):
            return _checked(view, snapshot, tuple(reversed(on_top)), pipeline)
        on_top.append(snapshot)
    if not on_top or (on_top[-1].parent_id is None and CHECKPOINT_TAG not in view.tags):
        raise ForeignTableError(
            f"the table {view.identifier} exists and Frazil did not create it",
            hint="run `frazil materialize --adopt` to keep its rows beside Frazil's, or choose another `table`",
        )
    raise _chain_broken(view, on_top[-1])


def check_format(view: TableView) -> None:
    """Raise FormatVersionError if the table was upgraded. It can still be read."""
    if view.format_version > WRITABLE_FORMAT:
        raise FormatVersionError(
            f"the table {view.identifier} has Iceberg format version {view.format_version},"
            f" expected {WRITABLE_FORMAT}: another engine upgraded it",
            hint="Iceberg has no downgrade: see docs/operate.md, FormatVersionError",
        )


def _checked(view: TableView, carrier: Snapshot, foreign: tuple[Snapshot, ...], pipeline: Pipeline) -> Standing:
    state = state_in(carrier)
    if not pipeline.owns(state):
        raise ForeignOwnerError(
            f"the table {view.identifier} is owned by the pipeline {Pipeline.of_state(state)}, not by {pipeline}",
            hint="give this spec another `table`; if the table should continue with other topics, keep one of its"
            " topics in the spec until a batch has added the new ones",
        )
    _check_generation(view, carrier, state)
    tagged = view.tags.get(CHECKPOINT_TAG)
    rolled_back = tagged is not None and all(s.id != tagged for s in view.ancestry(view.head))
    return Standing(view, state, carrier, foreign, rolled_back)


def generation_property(generation: int) -> dict[str, str]:
    return {GENERATION_PROPERTY: str(generation)}


def generation_of(view: TableView) -> int:
    """Return how often the table was rebuilt."""
    return int(view.properties.get(GENERATION_PROPERTY, "0"))


def _check_generation(view: TableView, carrier: Snapshot, state: TableState) -> None:
    """Raise StateLostError if `main` was rolled back to rows from before a rebuild, which the spec did not make."""
    now = generation_of(view)
    if state.generation != now:
        raise StateLostError(
            f"the table {view.identifier} has generation {now}, and its snapshot {carrier.id} generation"
            f" {state.generation}: `main` was rolled back across a rebuild, which leaves the columns and the"
            " properties of the rebuilt table as they are",
            hint=f"roll `main` forward to the tag {CHECKPOINT_TAG}; to have the former rows, restore the former spec,"
            f" then run `frazil rebuild {view.identifier}`",
        )


def _chain_broken(view: TableView, oldest: Snapshot) -> StateLostError:
    return StateLostError(
        f"the table {view.identifier} holds rows but its state is unreachable: the ancestry of `main` ends at"
        f" snapshot {oldest.id} ({oldest.operation}), {_end_of_chain(oldest)}, before any Frazil snapshot",
        hint="see docs/operate.md, StateLostError: find the newest Frazil snapshot and roll `main` back to it",
    )


def _end_of_chain(oldest: Snapshot) -> str:
    if oldest.parent_id is not None:
        return f"whose parent {oldest.parent_id} has expired"
    return (
        "which has no parent because another engine replaced the table (CREATE OR REPLACE TABLE) or expired snapshots"
    )
