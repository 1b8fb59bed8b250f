"""Ask for a replay, and answer: the request and its result are a property of the table of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from frazil.materialize.answers import store_answer, stored_request
from frazil.materialize.replay.request import ReplayRequest, ReplayResult, request_property, requests_in
from frazil.ports import Lake


def ask(lake: Lake, table: str, request: ReplayRequest) -> None:
    """Leave a request for a running driver. Raises Misuse if there is no such table."""
    lake.set_properties(table, put=request_property(request))


def answer(lake: Lake, table: str, request: ReplayRequest, result: ReplayResult, *, now: datetime) -> None:
    """Store the result of a request in its place, unless it was withdrawn, and remove old answers."""
    answered = request_property(replace(request, result=result))
    store_answer(lake, table, request.id, answered, requests_in, now)


def answer_to(lake: Lake, table: str, request: ReplayRequest) -> ReplayResult | None:
    """Return the result of a request; None if it has not been performed."""
    found = stored_request(lake, table, request.id, requests_in)
    return None if found is None else found.result


def withdraw(lake: Lake, table: str, request: ReplayRequest) -> None:
    """Remove a request, performed or not."""
    lake.set_properties(table, put={}, remove=[request.property_name])
