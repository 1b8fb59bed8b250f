"""How the AWS double sends its answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from werkzeug.serving import make_server

from frazil.local.aws_double.call_record import Environ, StartResponse
from frazil.local.aws_double.server import WholeAnswers

BODY = b"x" * 10_000


def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Length", str(len(BODY)))])
    return [BODY]


class Sending(socket.socket):
    """A socket that keeps what is sent at once."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(fileno=connected.detach())
        self.sent: list[bytes] = []

    def send(self, data: bytes, flags: int = 0, /) -> int:
        self.sent.append(bytes(data))
        return super().send(data, flags)

    def sendall(self, data: bytes, flags: int = 0, /) -> None:
        self.sent.append(bytes(data))
        super().sendall(data, flags)


@contextmanager
def requests(connected: socket.socket) -> Iterator[Callable[[], object]]:
    """Yield what answers a request on the connection."""
    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=WholeAnswers)
    yield lambda: WholeAnswers(connected, ("127.0.0.1", 1), server)
    server.server_close()


def test_the_headers_of_an_answer_are_sent_together_with_its_body() -> None:
    client, connected = socket.socketpair()
    client.sendall(b"GET / HTTP/1.1\r\nHost: double\r\n\r\n")
    client.shutdown(socket.SHUT_WR)
    with client, Sending(connected) as sending, requests(sending) as answer_it:
        answer_it()

        (whole,) = sending.sent
        assert b"Connection: close" in whole
        assert whole.endswith(BODY)


def test_a_client_that_asks_before_it_sends_a_body_is_answered_once_and_at_once() -> None:
    client, connected = socket.socketpair()
    client.settimeout(10)
    with ThreadPoolExecutor() as other, client, connected, requests(connected) as answer_it:
        client.sendall(b"PUT / HTTP/1.1\r\nHost: double\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        done = other.submit(answer_it)

        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        client.shutdown(socket.SHUT_WR)
        done.result()
        assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
