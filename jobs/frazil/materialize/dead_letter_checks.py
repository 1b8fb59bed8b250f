"""Whether a batch can continue with a dead-letter table: it is the spec's, has its columns, and was not dropped."""

from __future__ import annotations

from frazil.materialize.dead_letter_marks import Source
from frazil.materialize.layout import DEAD_LETTER_COLUMNS
from frazil.materialize.state import CHECKPOINT_TAG, Standing, check_format
from frazil.model.columns import OtherType, lacking, retyped
from frazil.model.errors import ForeignOwnerError, ForeignTableError, StateLostError
from frazil.model.pipeline import owner_name
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import PIPELINE
from frazil.proof.group import group_progress
from frazil.proof.sources import progress_by_source

COLUMNS_HINT = (
    "rename renamed columns back; restore dropped ones with their values, as in docs/operate.md, A column that was"
    " made again"
)
TYPE_HINT = (
    "rename the column, and restore the earlier one with its values as in docs/operate.md, A column that was made again"
)
ACCEPT_LOST_PROPERTY = "frazil.accept-lost-dead-letters"
"""Of the table of rows: how many lost dead letters an operator accepts."""


def check_dead_letters(view: TableView | None, spec: TableSpec, here: Standing | None) -> None:
    """Check that a batch can continue with the dead-letter table; `here` is None if the table is yet to be created.

    Raises StateLostError if it was dropped with dead letters, ForeignTableError or ForeignOwnerError if it is not the
    spec's or lacks columns, and FormatVersionError.
    """
    if view is not None:
        check_owner(view, spec)
        check_format(view)
        check_columns(view)
    elif here is not None:
        _check_not_lost(spec, here)


def check_columns(view: TableView) -> None:
    """Raise ForeignTableError if another writer renamed or dropped a column, or changed its type.

    Columns that others added are left null.
    """
    missing = missing_columns(view)
    if missing:
        lacks = f"the {'column' if len(missing) == 1 else 'columns'} {', '.join(missing)}"
        raise ForeignTableError(
            f"the table {view.identifier}, which holds the dead letters, lacks {lacks}, which"
            " another writer renamed or dropped",
            hint=COLUMNS_HINT,
        )
    changed = retyped_columns(view)
    if changed:
        raise ForeignTableError(
            f"the table {view.identifier}, which holds the dead letters, was changed by another writer:"
            f" {'; '.join(map(str, changed))}",
            hint=TYPE_HINT,
        )


def retyped_columns(view: TableView) -> tuple[OtherType, ...]:
    return retyped(DEAD_LETTER_COLUMNS, tuple(view.columns))


def missing_columns(view: TableView) -> tuple[str, ...]:
    return lacking(DEAD_LETTER_COLUMNS, tuple(view.columns))


def _check_not_lost(spec: TableSpec, here: Standing) -> None:
    lost = here.state.accounted.dead_letters
    if lost and here.view.properties.get(ACCEPT_LOST_PROPERTY) != str(lost):
        letters = f"{lost} dead letter{'s' if lost != 1 else ''}"
        raise StateLostError(
            f"the table {spec.dead_letters_identifier} was dropped, with the {letters} that the state of"
            f" {spec.identifier} counts",
            hint=f"run `frazil recover {spec.table}`; to continue without them, see docs/operate.md, StateLostError",
        )


def check_owner(view: TableView, spec: TableSpec) -> None:
    """Raise ForeignTableError or ForeignOwnerError if the table does not hold the spec's dead letters."""
    tagged = view.snapshots.get(view.tags.get(CHECKPOINT_TAG, -1))
    known = (*view.ancestry(view.head), *([] if tagged is None else [tagged]))
    owner = next((snapshot.summary[PIPELINE] for snapshot in known if PIPELINE in snapshot.summary), None)
    if owner is None:
        raise ForeignTableError(
            f"the table {view.identifier}, which would hold the dead letters, exists and Frazil did not create it",
            hint="rename or drop it, or choose another `table` for this spec",
        )
    if owner_name(owner) != spec.pipeline.name:
        raise ForeignOwnerError(
            f"the dead letters in {view.identifier} belong to the pipeline {owner_name(owner)}, not to"
            f" {spec.pipeline.name}",
            hint="give this spec another `table`",
        )


def counted_letters(state: TableState) -> dict[Source, int]:
    """Return how many dead letters the table, or its group, counts in each partition of the topics as they are now."""
    known = progress_by_source(state) if state.group is None else group_progress(state.group)
    generations = {source.topic: source.generation for source in state.sources}
    return {(topic, generations[topic], n): each.counts.dead_letters for (topic, n), each in known.items()}
