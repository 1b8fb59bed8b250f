"""What is known of a secret without what is in it: when its value came, and how it rotates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class SecretHistory:
    """`since` is when the current value came, None where there is none.

    `schedule` is None where it does not rotate by itself; `every` where the schedule tells no time between two.
    `pending_since` is of a version that was begun and never became current.
    """

    since: datetime | None
    schedule: str | None = None
    every: timedelta | None = None
    last_rotation: datetime | None = None
    next_rotation: datetime | None = None
    pending_since: datetime | None = None
