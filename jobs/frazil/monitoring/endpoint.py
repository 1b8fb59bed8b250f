"""Serve metrics to Prometheus, and the status page to people, over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from frazil.model.errors import FrazilError, SettingError
from frazil.monitoring.prometheus import CONTENT_TYPE

ADDRESS = "127.0.0.1"
KEPT_SECONDS = 10.0
"""Requests within this time get the same answer: several scrapers cost no more than one."""

REQUEST_SECONDS = 10.0
POLL_SECONDS = 0.1
HTML = "text/html; charset=utf-8"


@dataclass(slots=True)
class Kept:
    """An answer that is made when it is asked for, by one thread, and kept for `KEPT_SECONDS`."""

    make: Callable[[], str]
    content_type: str
    clock: Callable[[], float] = time.monotonic
    _text: str = ""
    _until: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self) -> str:
        with self._lock:
            if self.clock() >= self._until:
                self._text = self.make()
                self._until = self.clock() + KEPT_SECONDS
            return self._text


class Endpoint:
    """Answers `/metrics` and `/` on the loopback address. Raises SettingError if the port cannot be used."""

    def __init__(self, port: int, *, metrics: Callable[[], str], page: Callable[[], str]) -> None:
        answers = {"/metrics": Kept(metrics, CONTENT_TYPE), "/": Kept(page, HTML)}
        handler = type("Handler", (_Handler,), {"answers": answers})
        try:
            self._server = ThreadingHTTPServer((ADDRESS, port), handler)
        except OSError as problem:
            raise SettingError(
                f"--metrics-port {port}: cannot listen on {ADDRESS}:{port}: {problem.strerror or problem}",
                hint="choose a port above 1023 that no other process uses",
            ) from problem
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True, name="frazil-metrics"
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    answers: dict[str, Kept]
    timeout = REQUEST_SECONDS
    server_version = "frazil"
    sys_version = ""

    def do_GET(self) -> None:
        kept = self.answers.get(self.path.partition("?")[0])
        if not self._is_for_this_machine():
            self._answer(403, "the Host header names another machine\n")
        elif kept is None:
            self._answer(404, "there are /metrics and /\n")
        else:
            try:
                text = kept.text()
            except FrazilError as failure:
                self._answer(503, f"{failure.what}\n")
            else:
                self._answer(200, text, kept.content_type)

    do_HEAD = do_GET  # noqa: N815 - the name is the library's

    def _is_for_this_machine(self) -> bool:
        """Return whether the request names this server: a page elsewhere may have its name resolved to loopback."""
        return self.headers.get("Host", "").partition(":")[0] in {ADDRESS, "localhost"}

    def _answer(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a request is no event of a table."""
