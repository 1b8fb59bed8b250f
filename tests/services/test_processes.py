"""Which process listens on a port."""

from __future__ import annotations

import os
import socket

import psutil
import pytest

from frazil.local.processes import listens
from frazil.local.state import Running

OURSELVES, ANOTHER = Running(os.getpid(), "now"), Running(os.getppid(), "before")


def test_only_the_process_that_listens_does() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        assert (listens(OURSELVES, port), listens(ANOTHER, port)) == (True, False)

    assert not listens(OURSELVES, port)


def test_the_sockets_of_a_process_are_not_listed_while_nothing_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list takes 10 ms of CPU, and the start of a service asks for one ten times a second."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(psutil.Process, "net_connections", lambda *_, **__: pytest.fail("listed"))

        assert not listens(OURSELVES, taken.getsockname()[1])
