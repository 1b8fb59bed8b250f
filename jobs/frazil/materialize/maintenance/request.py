"""Requests of `frazil maintain`: properties of a table, which a running driver takes up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from frazil.materialize.answers import store_answer, stored_request
from frazil.model.moments import rfc3339
from frazil.ports import Lake

MAINTENANCE_PREFIX = "frazil.maintenance-request."
"""The beginning of a table property for each request: JSON of what to do, who asked and when."""


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done. `more`: there are more files to rewrite, for another request.

    `files` became `into` files, for which `copied_rows` were copied. Each scan of these files saves the time in which
    it reads `saved_rows`. `error` is what kept it from going on, and `hint` what to do; what was done before stays.
    """

    files: int = 0
    into: int = 0
    copied_rows: int = 0
    deleted_rows: int = 0
    saved_rows: int = 0
    seconds: float = 0.0
    expired_snapshots: int = 0
    more: bool = False
    error: str | None = None
    hint: str = ""

    def __add__(self, other: MaintenanceResult) -> MaintenanceResult:
        return MaintenanceResult(
            self.files + other.files,
            self.into + other.into,
            self.copied_rows + other.copied_rows,
            self.deleted_rows + other.deleted_rows,
            self.saved_rows + other.saved_rows,
            self.seconds + other.seconds,
            self.expired_snapshots + other.expired_snapshots,
            other.more,
            other.error,
            other.hint,
        )


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """What to do: rewrite files, expire snapshots; and who asked, and when. `result` is None until it is done."""

    id: str
    by: str
    at: str
    compact: bool = True
    expire: bool = True
    result: MaintenanceResult | None = None

    @property
    def property_name(self) -> str:
        return MAINTENANCE_PREFIX + self.id

    def as_property(self) -> dict[str, str]:
        stored = {name: value for name, value in asdict(self).items() if value is not None and name != "id"}
        return {self.property_name: json.dumps(stored)}


def new_request(*, id: str, by: str, at: datetime, compact: bool, expire: bool) -> MaintenanceRequest:  # noqa: A002 - the name of the field
    return MaintenanceRequest(id, by, rfc3339(at.replace(microsecond=0)), compact, expire)


def requests_in(properties: Mapping[str, str]) -> tuple[MaintenanceRequest, ...]:
    """Return all requests, oldest first; a property that cannot be read is left out."""
    found = (_request(name, text) for name, text in properties.items() if name.startswith(MAINTENANCE_PREFIX))
    return tuple(sorted((each for each in found if each is not None), key=lambda each: (each.at, each.id)))


def open_requests(properties: Mapping[str, str]) -> tuple[MaintenanceRequest, ...]:
    """Return the requests that have not been performed, oldest first."""
    return tuple(request for request in requests_in(properties) if request.result is None)


def ask(lake: Lake, table: str, request: MaintenanceRequest) -> None:
    """Leave a request for a running driver. Raises Misuse if there is no such table."""
    lake.set_properties(table, put=request.as_property())


def answer(lake: Lake, table: str, request: MaintenanceRequest, result: MaintenanceResult, *, now: datetime) -> None:
    """Store the result of a request in its place, unless it was withdrawn, and remove old answers."""
    answered = replace(request, result=result).as_property()
    store_answer(lake, table, request.id, answered, requests_in, now)


def answer_to(lake: Lake, table: str, request: MaintenanceRequest) -> MaintenanceResult | None:
    """Return the result of a request; None if it has not been performed."""
    found = stored_request(lake, table, request.id, requests_in)
    return None if found is None else found.result


def withdraw(lake: Lake, table: str, request: MaintenanceRequest) -> None:
    """Remove a request, performed or not."""
    lake.set_properties(table, put={}, remove=[request.property_name])


def _request(name: str, text: str) -> MaintenanceRequest | None:
    try:
        stored = json.loads(text)
        result = stored.pop("result", None)
        found = None if result is None else MaintenanceResult(**result)
        return MaintenanceRequest(id=name.removeprefix(MAINTENANCE_PREFIX), result=found, **stored)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
