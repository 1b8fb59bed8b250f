"""Compare this machine's clock with the clocks of services. Signatures, tokens and certificates depend on it."""

from __future__ import annotations

from datetime import datetime

from frazil.doctor.finding import Finding

MOST_SECONDS = 60.0
"""The maximum difference. AWS rejects signatures 5 minutes off; timestamps in tables are wrong long before that."""


def compare_clocks(whose: str, *, theirs: datetime, ours: datetime) -> Finding:
    off = (ours - theirs).total_seconds()
    what = f"against {whose}"
    if abs(off) <= MOST_SECONDS:
        return Finding("clock", what, "ok", f"{abs(off):.0f} s apart")
    found = f"this machine is {abs(off):,.0f} s {'ahead' if off > 0 else 'behind'}"
    return Finding("clock", what, "failed", found, "turn on time synchronisation: `timedatectl set-ntp true`")
