"""Pausing and resuming a table: a property of the table itself, so that every process and machine sees it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from jobs.materialize.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY, Accepted, accepted_through, pause_property
from jobs.model.errors import Misuse
from jobs.model.snapshot import TableView
from jobs.model.spec import TableSpec
from jobs.ports import Lake


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a table does not go on. `accept` is how far `resume` lets bad records through; None where none were bad."""

    by: str
    at: str
    why: str
    accept: Accepted | None = None

    def __str__(self) -> str:
        return f"by {self.by} at {self.at}: {self.why}"


def pause_of(view: TableView) -> Pause | None:
    said = view.properties.get(PAUSED_PROPERTY)
    if said is None:
        return None
    try:
        value = json.loads(said)
        accept = value.get("accept")
        ends = None if accept is None else accepted_through({ACCEPTED_PROPERTY: json.dumps(accept)})
        return Pause(str(value.get("by", "?")), str(value.get("at", "?")), str(value.get("why", "")), ends)
    except (ValueError, AttributeError):
        return Pause("?", "?", said)


def pause(lake: Lake, spec: TableSpec, *, by: str, why: str, at: datetime) -> Pause | None:
    """Pause the table; the earlier pause where there is one, which then stays as it is."""
    already = pause_of(_loaded(lake, spec))
    if already is None:
        lake.set_properties(spec.identifier, put={PAUSED_PROPERTY: pause_property(by=by, why=why, at=at)})
    return already


def resume(lake: Lake, spec: TableSpec) -> Pause | None:
    """Let the table go on; the pause that ended, or None where it was not paused.

    Bad records that caused the pause are accepted: the same batch then goes through.
    """
    view = _loaded(lake, spec)
    ended = pause_of(view)
    if ended is None:
        return None
    put = {}
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


def _loaded(lake: Lake, spec: TableSpec) -> TableView:
    view = lake.load(spec.identifier)
    if view is None:
        raise Misuse(
            f"there is no table {spec.identifier} in the catalog, though {spec.source_file} describes it",
            hint="run `frazil materialize --create-only` first",
        )
    return view
