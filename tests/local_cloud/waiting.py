"""Wait for what the cloud on this machine does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

MOST_SECONDS = 500
LOOK_SECONDS = 0.2


def eventually(
    look: Callable[[], Any],
    is_so: Callable[[Any], bool],
    *,
    explain: Callable[[], str] = str,
    most_seconds: float = MOST_SECONDS,
) -> Any:
    """The first look that is so. The test fails with the last one, and with what `explain` says."""
    deadline = time.monotonic() + most_seconds
    while not is_so(seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r}\n{explain()}"
        time.sleep(LOOK_SECONDS)
    return seen
