"""Pausing, in a table's own properties: who, when, why, and which bad records `resume` lets through."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from frazil.model.errors import FrazilError, IncompatibleSchemaError
from frazil.model.moments import rfc3339
from frazil.model.schemas import ExcludedSchemas, SchemaId, id_in, in_order, stored_id
from frazil.model.snapshot import TableView

PAUSED_PROPERTY = "frazil.paused"
"""A table property: JSON of who paused the table, when and why. Its presence pauses the table."""

ACCEPTED_PROPERTY = "frazil.accepted-through"
"""A table property: JSON of topic → partition → offset. Up to there `resume` has accepted bad records."""

DEAD_LETTER_SCHEMAS_PROPERTY = "frazil.dead-letter-schemas"
"""A table property: JSON of `values` and `keys` → schema ids. Records that were written with one become dead letters.

Earlier releases stored one list, which means both.
"""

OPERATIONS_PROPERTY = "frazil.operations"
"""A table property: JSON of what operators did, oldest first (`history.py`). A pause is listed once it has ended."""

_OF_LEDGER = frozenset({PAUSED_PROPERTY, ACCEPTED_PROPERTY, DEAD_LETTER_SCHEMAS_PROPERTY, OPERATIONS_PROPERTY})

BY_FRAZIL = "frazil"
"""The name that `status` shows for a pause by a run. A user may have the same name."""

UNKNOWN = "?"
"""Who paused a table, and when, where the property is not what Frazil writes."""

Accepted = Mapping[str, Mapping[int, int]]


def accepted_through(properties: Mapping[str, str]) -> Accepted:
    raw = json.loads(properties.get(ACCEPTED_PROPERTY, "{}"))
    return {topic: {int(n): int(offset) for n, offset in ends.items()} for topic, ends in raw.items()}


def under_ledger(view: TableView, ledger: TableView | None) -> TableView:
    """Return a table of a group with the pause and the excluded schemas of its ledger, which count for all tables."""
    if ledger is None or ledger.identifier == view.identifier:
        return view
    own = {name: value for name, value in view.properties.items() if name not in _OF_LEDGER}
    of_ledger = {name: value for name, value in ledger.properties.items() if name in _OF_LEDGER}
    return replace(view, properties={**own, **of_ledger})


def excluded_schemas(properties: Mapping[str, str]) -> ExcludedSchemas:
    """Return the schemas that an operator excluded from the table."""
    stored = json.loads(properties.get(DEAD_LETTER_SCHEMAS_PROPERTY, "{}"))
    if isinstance(stored, list):
        return ExcludedSchemas(_ids(stored), _ids(stored))
    return ExcludedSchemas(_ids(stored.get("values", ())), _ids(stored.get("keys", ())))


def excluded_schemas_property(excluded: ExcludedSchemas) -> dict[str, str]:
    stored = {"values": _stored(excluded.values), "keys": _stored(excluded.keys)}
    return {DEAD_LETTER_SCHEMAS_PROPERTY: json.dumps(stored)}


def _ids(stored: Iterable[int | str]) -> frozenset[SchemaId]:
    return frozenset(map(id_in, stored))


def _stored(ids: Iterable[SchemaId]) -> list[int | str]:
    return [stored_id(each) for each in in_order(ids)]


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a table is paused, and how to continue (`hint`).

    `schema_id` is that of the writer schema that caused it, if one did; `of_key` says whether it is that of a key, None
    where an earlier release did not. `accept` is how far `resume` lets bad records through; None where none were bad.
    `by_run` says that a run paused the table, and no operator. `erasure` is the id of the erasure that ends with the
    pause; an operator's pause takes its place.
    """

    by: str
    at: str
    why: str
    accept: Accepted | None = None
    hint: str = ""
    by_run: bool = False
    schema_id: SchemaId | None = None
    of_key: bool | None = None
    erasure: str = ""

    def __str__(self) -> str:
        who = "by an unknown user" if self.by == UNKNOWN else f"by {self.by} at {self.at}"
        return f"{who}: {self.why}"


def pause_of(properties: Mapping[str, str]) -> Pause | None:
    said = properties.get(PAUSED_PROPERTY)
    if said is None:
        return None
    try:
        value = json.loads(said)
        accept = value.get("accept")
        ends = None if accept is None else accepted_through({ACCEPTED_PROPERTY: json.dumps(accept)})
        by, at = str(value.get("by", "?")), str(value.get("at", "?"))
        by_run, schema_id, of_key = value.get("by_run") is True, value.get("schema_id"), value.get("of_key")
        schema_id = None if schema_id is None else id_in(schema_id)
        why, hint, erasure = (str(value.get(name, "")) for name in ("why", "hint", "erasure"))
        return Pause(by, at, why, ends, hint, by_run, schema_id, of_key, erasure)
    except (ValueError, AttributeError):
        return Pause(UNKNOWN, UNKNOWN, said)


def pause_property(*, by: str, why: str, at: datetime, erasure: str = "") -> str:
    """The property's value for a pause by an operator: who, when and why, and for which erasure, if for one."""
    return json.dumps(_said(by, why, at) | ({"erasure": erasure} if erasure else {}))


def pause_by_run(*, because: FrazilError, at: datetime, accept: Accepted | None = None) -> str:
    """The property's value for a pause by a run; `accept` is how far `resume` lets bad records through."""
    more: dict[str, object] = {"by_run": True, "accept": accept, "hint": because.hint or None}
    if isinstance(because, IncompatibleSchemaError) and because.schema_id is not None:
        more |= {"schema_id": stored_id(because.schema_id), "of_key": because.of_key}
    return json.dumps(
        _said(BY_FRAZIL, because.what, at) | {name: value for name, value in more.items() if value is not None}
    )


def _said(by: str, why: str, at: datetime) -> dict[str, object]:
    return {"by": by, "at": rfc3339(at.replace(microsecond=0)), "why": why}
