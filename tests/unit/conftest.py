"""Unit tests work on values: a test that opens a connection fails."""

from __future__ import annotations

import socket
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        pytest.fail("a unit test may not use the network; give it a fake, or move it to tests/services")

    for act in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, act, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
