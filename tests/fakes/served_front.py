"""The front of the local REST catalog in a thread of the test, where it can count, alter and lose answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from frazil.local.rest import CLIENT_ID, CLIENT_SECRET
from frazil.local.rest_catalog.front import Answer, Front, FrontServer, Request
from frazil.local.rest_catalog.tokens import Tokens
from frazil.local.state import read_state
from tests.own_processes import SERVICES


class NoAnswerError(Exception):
    """The connection closes without an answer."""


@dataclass(slots=True)
class Meddling(Front):
    """Keeps what clients ask. `act` is given the first commit to a table, and what forwards it; it is used once."""

    asked: list[Request] = field(default_factory=list)
    fate: Fate | None = None

    @property
    def commits(self) -> int:
        return sum(_is_commit(request) for request in self.asked)

    @property
    def tokens_asked(self) -> int:
        return sum(request.path.endswith("/oauth/tokens") for request in self.asked)

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return Front.answer(self, request)

    def forward(self, request: Request) -> Answer:
        if self.fate is None or not _is_commit(request):
            return Front.forward(self, request)
        fate, self.fate = self.fate, None
        if fate.lands:
            Front.forward(self, request)
        if fate.answer is None:
            raise NoAnswerError
        return fate.answer


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a commit: whether the server carries it out, and what the client hears; None for nothing."""

    lands: bool
    answer: Answer | None


def _is_commit(request: Request) -> bool:
    return request.method == "POST" and "/tables/" in request.path


def tokens_for_the_client(*, seconds: float = 3600.0) -> Tokens:
    return Tokens(CLIENT_ID, CLIENT_SECRET, seconds=seconds)


def port_behind() -> int:
    """Return the port of the server behind the front of the service that the fixture `rest_catalog_url` starts."""
    return read_state(Path(os.environ[SERVICES]))["rest"].ports["server"]


class _QuietServer(FrontServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: an answer was lost on purpose."""


@contextmanager
def served_front(front: Front) -> Iterator[str]:
    """Serve the front on a port of loopback, and yield its address."""
    with _QuietServer(front, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.address
        finally:
            server.shutdown()
            thread.join(10)
