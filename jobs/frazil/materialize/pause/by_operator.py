"""Pause and resume a table for an operator: the table stores it, so that every process and machine sees it."""

from __future__ import annotations

import json
from datetime import datetime

from frazil.materialize.pause.history import Operation, ended_pause, with_operations
from frazil.materialize.pause.pausing import (
    ACCEPTED_PROPERTY,
    PAUSED_PROPERTY,
    Accepted,
    Pause,
    accepted_through,
    pause_of,
    pause_property,
)
from frazil.model.errors import Misuse
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake


def pause(lake: Lake, spec: TableSpec, *, by: str, why: str, at: datetime, erasure: str = "") -> Pause | None:
    """Pause the table; return the earlier pause if there is one that stays as it is.

    One of an erasure does not stay: the end of that erasure then leaves this pause.
    """
    already = pause_of(loaded(lake, spec).properties)
    if already is not None and not already.erasure:
        return already
    said = pause_property(by=by, why=why, at=at, erasure=erasure)
    lake.set_properties(spec.identifier, put={PAUSED_PROPERTY: said})
    return None


def resume(lake: Lake, spec: TableSpec, *, resumed: Operation | None = None) -> Pause | None:
    """Resume the table; return the pause that ended, or None if the table was not paused.

    Bad records that caused the pause are accepted: the same batch then goes through. The table keeps the pause, and the
    operation that `resumed` it.
    """
    view = loaded(lake, spec)
    ended = pause_of(view.properties)
    if ended is None:
        return None
    done = (ended_pause(ended),) if resumed is None else (ended_pause(ended), resumed)
    put = with_operations(view.properties, *done)
    if ended.accept is not None:
        put[ACCEPTED_PROPERTY] = json.dumps(_furthest(accepted_through(view.properties), ended.accept))
    lake.set_properties(spec.identifier, put=put, remove=(PAUSED_PROPERTY,))
    return ended


def _furthest(one: Accepted, other: Accepted) -> Accepted:
    return {
        topic: {
            number: max(ends.get(topic, {}).get(number, -1) for ends in (one, other))
            for number in {*one.get(topic, {}), *other.get(topic, {})}
        }
        for topic in {*one, *other}
    }


def loaded(lake: Lake, spec: TableSpec) -> TableView:
    """Return the table. Raises Misuse if it does not exist yet."""
    view = lake.load(spec.identifier)
    if view is None:
        raise Misuse(
            f"the catalog has no table {spec.identifier}, which {spec.source_file} describes",
            hint="run `frazil materialize --create-only` first",
        )
    return view
