"""Pausing, in a table's own properties: who, when, why, and which bad records `resume` lets through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

PAUSED_PROPERTY = "frazil.paused"
"""A table property: JSON of who paused the table, when and why. Its presence pauses the table."""

ACCEPTED_PROPERTY = "frazil.accepted-through"
"""A table property: JSON of topic → partition → offset. Up to there `resume` has accepted bad records."""

Accepted = Mapping[str, Mapping[int, int]]


def accepted_through(properties: Mapping[str, str]) -> Accepted:
    raw = json.loads(properties.get(ACCEPTED_PROPERTY, "{}"))
    return {topic: {int(n): int(offset) for n, offset in ends.items()} for topic, ends in raw.items()}


def pause_property(*, by: str, why: str, at: datetime, accept: Accepted | None = None) -> str:
    """Who paused a table, when and why; `accept` is how far `resume` lets bad records through."""
    said: dict[str, object] = {"by": by, "at": at.isoformat(timespec="seconds"), "why": why}
    return json.dumps(said if accept is None else {**said, "accept": accept})
