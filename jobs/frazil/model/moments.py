"""Format timestamps as RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: datetime) -> str:
    """Return `2026-01-31T12:00:00Z`, with a fraction of the second only if `at` has one."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
