"""How the AWS double sends its answers."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from werkzeug.serving import make_server

from frazil.local.aws_double.call_record import Environ, StartResponse
from frazil.local.aws_double.server import WholeAnswers

BODY = b"x" * 10_000


def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
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


def test_the_headers_of_an_answer_are_sent_together_with_its_body() -> None:
    client, connected = socket.socketpair()
    client.sendall(b"GET / HTTP/1.1\r\nHost: double\r\n\r\n")
    client.shutdown(socket.SHUT_WR)
    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=WholeAnswers)
    with client, Sending(connected) as sending:
        WholeAnswers(sending, ("127.0.0.1", 1), server)
        server.server_close()

        (whole,) = sending.sent
        assert b"Connection: close" in whole
        assert whole.endswith(BODY)
