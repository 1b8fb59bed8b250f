"""Wait for what the cloud on this machine does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

MOST_SECONDS = 500
LOOK_SECONDS = 0.2
LOOKS_SHARE = 0.25
"""The share of the time that looks may take: those that read a whole table would slow down what they wait for."""


def eventually(
    look: Callable[[], Any],
    is_so: Callable[[Any], bool],
    *,
    explain: Callable[[], str] = str,
    most_seconds: float = MOST_SECONDS,
) -> Any:
    """The first look that is so. The test fails with the last one, and with what `explain` says."""
    deadline = time.monotonic() + most_seconds
    began = time.monotonic()
    while not is_so(seen := look()):
        ended = time.monotonic()
        assert ended < deadline, f"still {seen!r}\n{explain()}"
        time.sleep(max(LOOK_SECONDS, (ended - began) * (1 / LOOKS_SHARE - 1)))
        began = time.monotonic()
    return seen
