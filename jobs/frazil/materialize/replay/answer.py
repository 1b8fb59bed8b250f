"""Ask for a replay, and answer: the request and its result are a property of the table of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from frazil.materialize.replay.request import ReplayRequest, ReplayResult, request_property, requests_in
from frazil.model.moments import rfc3339
from frazil.ports import Lake

ANSWERS_KEPT = timedelta(hours=1)
"""How long an answer stays that the command which asked no longer waits for."""


def ask(lake: Lake, table: str, request: ReplayRequest) -> None:
    """Leave a request for a running driver. Raises Misuse if there is no such table."""
    lake.set_properties(table, put=request_property(request))


def answer(lake: Lake, table: str, request: ReplayRequest, result: ReplayResult, *, now: datetime) -> None:
    """Store the result of a request in its place, unless it was withdrawn, and remove old answers."""
    view = lake.load(table)
    there = () if view is None else requests_in(view.properties)
    put = request_property(replace(request, result=result)) if request.id in {each.id for each in there} else {}
    oldest = rfc3339((now - ANSWERS_KEPT).replace(microsecond=0))
    remove = [each.property_name for each in there if each.result is not None and each.at < oldest]
    if put or remove:
        lake.set_properties(table, put=put, remove=remove)


def answer_to(lake: Lake, table: str, request: ReplayRequest) -> ReplayResult | None:
    """Return the result of a request; None if it has not been performed."""
    view = lake.load(table)
    found = {} if view is None else {each.id: each.result for each in requests_in(view.properties)}
    return found.get(request.id)


def withdraw(lake: Lake, table: str, request: ReplayRequest) -> None:
    """Remove a request, performed or not."""
    lake.set_properties(table, put={}, remove=[request.property_name])
