"""Pause a table only if it is still in the state that the run planned from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from frazil.materialize.account import Ingested
from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.clients import Clients
from frazil.materialize.pause.limits import through
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, pause_by_run, pause_of
from frazil.materialize.state import standing
from frazil.materialize.verdicts import FENCED_HINT, loaded
from frazil.model.errors import (
    CommitError,
    CommitRejectedError,
    FencedError,
    FrazilError,
    IncompatibleSchemaError,
    UnsupportedChangeError,
)
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake


@dataclass(slots=True)
class Pauser:
    """Pauses one table for what a run finds. `planned_on` is the state that the run saw last."""

    spec: TableSpec
    planned_on: TableState | None = None

    def pause(self, clients: Clients, error: FrazilError, got: Ingested | None = None) -> None:
        """Pause the table. `resume` then accepts what was read, if `got` is given. Raises as `pause_at`."""
        accept = None if got is None else through(got.ranges)
        said = pause_by_run(because=error, at=clients.now(), accept=accept)
        assert self.planned_on is not None  # noqa: S101 - every reason to pause comes after the first look
        pause_at(clients.lake, self.spec, self.planned_on, said, because=error)

    @contextmanager
    def at_refusals(self, clients: Clients) -> Iterator[None]:
        """Pause the table for a schema or a change event that does not fit, whether the driver finds out or a task."""
        try:
            yield
        except (IncompatibleSchemaError, UnsupportedChangeError) as refused:
            self.pause(clients, refused)
            raise


def pause_at(lake: Lake, spec: TableSpec, planned: TableState, reason: str, *, because: FrazilError) -> None:
    """Pause the table for `reason`, a value of the property. A pause by an operator is kept.

    A table that was rolled back or rebuilt meanwhile is left alone: the next batch judges it anew. Raises FencedError
    where another process has published since, so that what it did is not paused for what this one found before.
    """
    failure: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        view = loaded(lake, spec.identifier)
        if view.properties.get(PAUSED_PROPERTY) == reason or _paused_by_operator(view):
            return
        now = standing(view, pipeline=spec.pipeline).state
        if now.last_read != planned.last_read:
            _check_fenced(spec, planned, now, because)
            return
        try:
            lake.set_property_at(view, PAUSED_PROPERTY, reason)
        except CommitError as failed:
            failure = failed
        else:
            return
    raise given_up(spec.identifier, "pause", failure) from failure


def _paused_by_operator(view: TableView) -> bool:
    """Return whether an operator paused the table; the run then leaves that pause in place."""
    there = pause_of(view.properties)
    return there is not None and not there.by_run


def _check_fenced(spec: TableSpec, planned: TableState, now: TableState, because: FrazilError) -> None:
    if now.epoch >= planned.epoch and now.generation == planned.generation:
        raise FencedError(
            f"{spec.identifier}: another process published epoch {now.epoch} (writer {now.writer}) after this one had"
            f" planned on epoch {planned.epoch}; the table was not paused for: {because.what}",
            hint=FENCED_HINT,
        ) from because
