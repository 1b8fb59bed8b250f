"""The front of the local REST catalog. Iceberg's server for tests accepts any token, so this one checks them.

It issues tokens for a client id and its secret (OAuth2 client credentials), and forwards requests that have a token
which it issued and which has not expired. It logs nothing, because requests contain secrets.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from frazil.local.rest_catalog.tokens import Tokens

TOKEN_PATH = "/v1/oauth/tokens"  # noqa: S105 - a path
GRANT = "client_credentials"
FORWARD_SECONDS = 120.0
NOT_FORWARDED = frozenset(("authorization", "connection", "content-length", "host", "transfer-encoding"))


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def bearer(self) -> str:
        scheme, _, token = self._authorization.partition(" ")
        return token if scheme.lower() == "bearer" else ""

    @property
    def client(self) -> tuple[str, str]:
        """The client id and the secret, from Basic authentication or from the form (RFC 6749, section 2.3.1)."""
        scheme, _, encoded = self._authorization.partition(" ")
        if scheme.lower() == "basic":
            try:
                client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                return "", ""
            return client_id, secret
        return self.form("client_id"), self.form("client_secret")

    def form(self, name: str) -> str:
        return parse_qs(self.body.decode("utf-8", "replace")).get(name, [""])[0]

    @property
    def _authorization(self) -> str:
        return next((value for name, value in self.headers.items() if name.lower() == "authorization"), "")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"


@dataclass(slots=True)
class Front:
    """Answers requests, with the catalog's server behind it on a port of loopback."""

    tokens: Tokens
    server_port: int

    def answer(self, request: Request) -> Answer:
        if request.path == TOKEN_PATH:
            return self._issue(request)
        if not self.tokens.accepts(request.bearer):
            return _problem(HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", "The bearer token is unknown or expired")
        return self.forward(request)

    def forward(self, request: Request) -> Answer:
        """Return what the catalog's server answers; 503 if it was not reached."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=FORWARD_SECONDS)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        try:
            connection.connect()
        except OSError as problem:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(problem))
        try:
            connection.request(request.method, request.target, request.body or None, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), answer.headers.get("Content-Type") or "application/json")
        except (OSError, http.client.HTTPException) as problem:
            return _problem(HTTPStatus.BAD_GATEWAY, "CommitStateUnknownException", str(problem))
        finally:
            connection.close()

    def _issue(self, request: Request) -> Answer:
        if request.form("grant_type") != GRANT:
            return _refusal(HTTPStatus.BAD_REQUEST, "unsupported_grant_type", f"only {GRANT} is supported")
        if not self.tokens.is_client(*request.client):
            return _refusal(HTTPStatus.UNAUTHORIZED, "invalid_client", "the client id or its secret is wrong")
        told = {"token_type": "bearer", "expires_in": int(self.tokens.seconds), "scope": request.form("scope")}
        return Answer(HTTPStatus.OK, json.dumps({"access_token": self.tokens.issue(), **told}).encode())


def _problem(status: HTTPStatus, kind: str, message: str) -> Answer:
    """Return an error of the REST catalog's specification."""
    return Answer(status, json.dumps({"error": {"message": message, "type": kind, "code": status.value}}).encode())


def _refusal(status: HTTPStatus, error: str, description: str) -> Answer:
    """Return an error of OAuth2 (RFC 6749, section 5.2)."""
    return Answer(status, json.dumps({"error": error, "error_description": description}).encode())


class FrontServer(ThreadingHTTPServer):
    """The front on a port of loopback; 0 is any free one."""

    daemon_threads = True

    def __init__(self, front: Front, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.front = front

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert isinstance(self.server, FrontServer)  # noqa: S101 - narrows the type
        answer = self.server.front.answer(Request(self.command, self.path, dict(self.headers.items()), body))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing, because requests contain secrets."""
