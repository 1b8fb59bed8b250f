"""Requests to replay dead letters: properties of the table of rows, which a running driver takes up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from uuid import UUID

from frazil.model.moments import rfc3339
from frazil.model.schemas import SchemaId
from frazil.model.spelling import plural

REQUEST_PREFIX = "frazil.replay-request."
"""The beginning of a table property for each request: JSON of which dead letters, who asked and when."""

Record = tuple[str, int, int]
"""A topic, a partition and an offset."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How many dead letters were replayed, in which snapshots, and how many were not, by the reason.

    In a table that follows keys, some of those that were replayed are `deletes`, or `duplicates` of a newer row.

    `error` is what kept the replay from going on, and `hint` what to do; the snapshots from before it stay.
    """

    replayed: int = 0
    snapshots: tuple[int, ...] = ()
    stayed: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    """Of each reason, one record and what was wrong with it."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """How many became rows of each table that got any."""
    error: str | None = None
    hint: str = ""
    deletes: int = 0
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which dead letters to replay: those with a reason, with a schema, of one record, or all; and who asked, and when.

    `result` is None until the request has been performed.
    """

    id: str
    by: str
    at: str
    reason: str | None = None
    schema_id: int | str | None = None
    """The id of the value's schema; a UUID as text."""
    record: Record | None = None
    result: ReplayResult | None = None

    @property
    def property_name(self) -> str:
        return REQUEST_PREFIX + self.id

    @property
    def equal(self) -> dict[str, object]:
        """Return the values that columns of the dead letters must have."""
        topic, partition, offset = self.record or (None, None, None)
        of_schema = "schema_uuid" if isinstance(self.schema_id, str) else "schema_id"
        wanted: dict[str, object] = {"reason": self.reason, of_schema: self.schema_id}
        wanted |= {"topic": topic, "partition": partition, "offset": offset}
        return {name: value for name, value in wanted.items() if value is not None}

    def __str__(self) -> str:
        chosen = [f"{name} {value}" for name, value in self.equal.items()]
        return f"dead letters {'with ' + ', '.join(chosen) if chosen else 'of all reasons'}, by {self.by} at {self.at}"


def new_request(
    *,
    id: str,  # noqa: A002 - the name of the field
    by: str,
    at: datetime,
    reason: str | None = None,
    schema_id: SchemaId | None = None,
    record: Record | None = None,
) -> ReplayRequest:
    stored = str(schema_id) if isinstance(schema_id, UUID) else schema_id
    return ReplayRequest(id, by, rfc3339(at.replace(microsecond=0)), reason, stored, record)


def request_property(request: ReplayRequest) -> dict[str, str]:
    stored = {name: value for name, value in asdict(request).items() if value is not None and name != "id"}
    return {request.property_name: json.dumps(stored)}


def requests_in(properties: Mapping[str, str]) -> tuple[ReplayRequest, ...]:
    """Return all requests, oldest first; a property that cannot be read is left out."""
    found = (_request(name, text) for name, text in properties.items() if name.startswith(REQUEST_PREFIX))
    return tuple(sorted((each for each in found if each is not None), key=lambda each: (each.at, each.id)))


def open_requests(properties: Mapping[str, str]) -> tuple[ReplayRequest, ...]:
    """Return the requests that have not been performed, oldest first."""
    return tuple(request for request in requests_in(properties) if request.result is None)


def _request(name: str, text: str) -> ReplayRequest | None:
    try:
        stored = json.loads(text)
        record, result = stored.get("record"), stored.get("result")
        return ReplayRequest(
            id=name.removeprefix(REQUEST_PREFIX),
            by=str(stored["by"]),
            at=str(stored["at"]),
            reason=stored.get("reason"),
            schema_id=stored.get("schema_id"),
            record=None if record is None else (str(record[0]), int(record[1]), int(record[2])),
            result=None if result is None else ReplayResult(**{**result, "snapshots": tuple(result["snapshots"])}),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def stayed_text(result: ReplayResult) -> str:
    """Return what became of those that could not be replayed: `2 stay dead letters: truncated 2`."""
    total = sum(result.stayed.values())
    verb = "stays a dead letter" if total == 1 else "stay dead letters"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(result.stayed.items()))
    return f"{total:,} {verb}: {reasons}"


def replayed_text(result: ReplayResult) -> str:
    """Return what became of those that were replayed: `3 dead letters became 2 rows and 1 duplicate`."""
    rows = result.replayed - result.deletes - result.duplicates
    letters = plural(result.replayed, "dead letter")
    if rows == result.replayed:
        return f"{letters} became {'a row' if rows == 1 else 'rows'}"
    counts = {"row": rows, "delete": result.deletes, "duplicate": result.duplicates}
    *first, last = [plural(count, word) for word, count in counts.items() if count]
    return f"{letters} became {' and '.join(([', '.join(first)] if first else []) + [last])}"
