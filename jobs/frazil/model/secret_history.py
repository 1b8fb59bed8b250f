"""The metadata of a secret, without its value: when the value was set, and how it rotates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class SecretHistory:
    """The metadata of a secret. `since` is when the current value was set; None if there is no value.

    `schedule` is None without automatic rotation; `every` is None if the schedule has no fixed interval.
    `pending_since` is when a version was created that has not become current.
    """

    since: datetime | None
    schedule: str | None = None
    every: timedelta | None = None
    last_rotation: datetime | None = None
    next_rotation: datetime | None = None
    pending_since: datetime | None = None
