"""Answers to requests that are properties of a table: of `frazil maintain`, and of replays of dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from frazil.model.moments import rfc3339
from frazil.ports import Lake

ANSWERS_KEPT = timedelta(hours=1)
"""How long an answer stays that the command which asked no longer waits for."""


class Request(Protocol):
    """A request, performed if it has a result."""

    @property
    def id(self) -> str: ...

    @property
    def at(self) -> str: ...

    @property
    def result(self) -> object | None: ...

    @property
    def property_name(self) -> str: ...


AnyRequest = TypeVar("AnyRequest", bound=Request)
RequestsIn = Callable[[Mapping[str, str]], Sequence[AnyRequest]]
"""Returns the requests of one kind in the properties of a table."""


def store_answer(
    lake: Lake,
    table: str,
    request_id: str,
    answered: Mapping[str, str],
    requests_in: RequestsIn[Request],
    now: datetime,
) -> None:
    """Put the answered request in its place, unless it was withdrawn, and remove old answers."""
    there = _requests_of(lake, table, requests_in)
    put = answered if request_id in {each.id for each in there} else {}
    oldest = rfc3339((now - ANSWERS_KEPT).replace(microsecond=0))
    remove = [each.property_name for each in there if each.result is not None and each.at < oldest]
    if put or remove:
        lake.set_properties(table, put=put, remove=remove)


def stored_request(lake: Lake, table: str, request_id: str, requests_in: RequestsIn[AnyRequest]) -> AnyRequest | None:
    """Return a request as it is now; None if it was withdrawn."""
    return {each.id: each for each in _requests_of(lake, table, requests_in)}.get(request_id)


def _requests_of(lake: Lake, table: str, requests_in: RequestsIn[AnyRequest]) -> Sequence[AnyRequest]:
    view = lake.load(table)
    return () if view is None else requests_in(view.properties)
