"""A double of a service, answering on loopback in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from devcloud.http_double import Double, Server


@contextmanager
def served(double: Double) -> Iterator[Server]:
    with Server(double, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
