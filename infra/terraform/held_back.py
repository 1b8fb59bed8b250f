"""Hold Ctrl-C and its like back while a process is being started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Deliver the first signal that would end this process at the end of the block only.

    A KeyboardInterrupt in the middle of `Popen` leaves a process that nobody waits for. Signals reach the main thread
    only, so elsewhere there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    handled = {number: handler for number, handler in before.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
    if arrived:
        signal.raise_signal(arrived[0])
