"""What doubles of services on loopback share: a request and an answer as values, and the socket that carries them."""

from __future__ import annotations

import base64
import binascii
import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. `body` None: nothing but the status."""

    status: int
    body: Mapping[str, Any] | list[Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    target: str
    authorization: str = ""
    content: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path.rstrip("/")

    def parameter(self, name: str) -> str | None:
        return next(iter(parse_qs(urlsplit(self.target).query).get(name, [])), None)

    @property
    def who(self) -> tuple[str, str]:
        """The key and the secret of Basic authentication; empty ones where there is none."""
        scheme, _, encoded = self.authorization.partition(" ")
        try:
            key, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return "", ""
        return (key, secret) if scheme == "Basic" else ("", "")


class Double(Protocol):
    """All of a service without a network."""

    def answer(self, asked: Asked) -> Answer: ...


class _Handler(BaseHTTPRequestHandler):
    """Takes requests from the socket; the server holds the double."""

    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, self.path, self.headers.get("Authorization") or "", content)
        assert isinstance(self.server, Server)  # noqa: S101 - narrows the type
        answer = self.server.double.answer(asked)
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing, because requests contain keys."""


class Server(ThreadingHTTPServer):
    """The double on a port of loopback; 0 is any free one, and so is one that is taken."""

    daemon_threads = True

    def __init__(self, double: Double, port: int) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as taken:
            if taken.errno != errno.EADDRINUSE:
                raise
            super().__init__(("127.0.0.1", 0), _Handler)
        self.double = double

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"
