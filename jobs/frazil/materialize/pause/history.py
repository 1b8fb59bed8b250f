"""What operators did to a table, kept in its properties: who paused, resumed, rewound or erased, when and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from frazil.materialize.pause.pausing import OPERATIONS_PROPERTY, UNKNOWN, Pause
from frazil.model.moments import rfc3339
from frazil.model.spec import TableSpec
from frazil.ports import Lake

KEPT = 20


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: `pause`, `resume`, `rewind`, `rebuild` or `forget`. `why` may be empty."""

    what: str
    by: str
    at: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} by {self.by} at {self.at}{f': {self.why}' if self.why else ''}"


def operation(what: str, *, by: str, at: datetime, why: str = "") -> Operation:
    return Operation(what, by, rfc3339(at.replace(microsecond=0)), why)


def ended_pause(pause: Pause) -> Operation:
    """Return the operation of a pause that is over."""
    why = "while `frazil forget` erased rows" if pause.erasure else pause.why
    return Operation("pause", pause.by, pause.at, why)


def operations(properties: Mapping[str, str]) -> tuple[Operation, ...]:
    """Return the operations, oldest first; none if the property is not what Frazil writes."""
    try:
        stored = json.loads(properties.get(OPERATIONS_PROPERTY, "[]"))
        return tuple(Operation(*(str(each.get(name, default)) for name, default in _FIELDS.items())) for each in stored)
    except (ValueError, AttributeError, TypeError):
        return ()


_FIELDS = {"what": UNKNOWN, "by": UNKNOWN, "at": UNKNOWN, "why": ""}


def with_operations(properties: Mapping[str, str], *added: Operation) -> dict[str, str]:
    """Return the property with further operations; the oldest ones are left out."""
    kept = [*operations(properties), *added][-KEPT:]
    return {OPERATIONS_PROPERTY: json.dumps([asdict(each) for each in kept])}


def note(lake: Lake, spec: TableSpec, done: Operation) -> None:
    """Keep an operation in the table, or in the ledger of its group. Raises CatalogError."""
    view = lake.load(spec.identifier)
    if view is not None:
        lake.set_properties(spec.identifier, put=with_operations(view.properties, done))
