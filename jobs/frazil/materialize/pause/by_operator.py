"""Pause and resume a table for an operator: the table stores it, so that every process and machine sees it."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime

from frazil.materialize.pause.pausing import (
    ACCEPTED_PROPERTY,
    PAUSED_PROPERTY,
    Accepted,
    Pause,
    accepted_through,
    dead_letter_schemas_of,
    dead_letter_schemas_property,
    pause_of,
    pause_property,
)
from frazil.materialize.state import standing
from frazil.model.errors import Misuse
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake


def pause(lake: Lake, spec: TableSpec, *, by: str, why: str, at: datetime) -> Pause | None:
    """Pause the table; the earlier pause where there is one, which then stays as it is."""
    already = pause_of(_loaded(lake, spec).properties)
    if already is None:
        lake.set_properties(spec.identifier, put={PAUSED_PROPERTY: pause_property(by=by, why=why, at=at)})
    return already


def resume(lake: Lake, spec: TableSpec, *, dead_letter_schemas: Collection[int] = ()) -> Pause | None:
    """Resume the table; return the pause that ended, or None if the table was not paused.

    Bad records that caused the pause are accepted: the same batch then goes through. Records of `dead_letter_schemas`
    become dead letters from now on, which holds for a table that is not paused as well.

    Raises Misuse for a schema that the table has columns for.
    """
    view = _loaded(lake, spec)
    put = _given_up(view, spec, dead_letter_schemas)
    ended = pause_of(view.properties)
    if ended is not None and ended.accept is not None:
        put[ACCEPTED_PROPERTY] = json.dumps(_furthest(accepted_through(view.properties), ended.accept))
    if ended is not None or put:
        lake.set_properties(spec.identifier, put=put, remove=() if ended is None else (PAUSED_PROPERTY,))
    return ended


def _given_up(view: TableView, spec: TableSpec, schema_ids: Collection[int]) -> dict[str, str]:
    if not schema_ids:
        return {}
    state = standing(view, pipeline=spec.pipeline).state
    held = sorted({*state.schema_ids, *state.key_schema_ids} & set(schema_ids))
    if held:
        raise Misuse(
            f"the schema {held[0]} has columns in {spec.identifier}, so its records can become rows",
            hint="name the schema that caused the pause: `frazil status` shows it",
        )
    return dead_letter_schemas_property({*dead_letter_schemas_of(view.properties), *schema_ids})


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
            f"the catalog has no table {spec.identifier}, which {spec.source_file} describes",
            hint="run `frazil materialize --create-only` first",
        )
    return view
