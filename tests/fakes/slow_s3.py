"""A part of S3 that takes uploads, and is silent while it copies an object, as S3 is with a large one."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from http.server import BaseHTTPRequestHandler

from tests.fakes.on_loopback import on_loopback

BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
DONE = b'<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
COPIED = b'<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>'
NOTHING_LISTED = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


def slow_s3(silent_seconds: float, copied: list[str]) -> AbstractContextManager[str]:
    """Serve it, and return its endpoint. Each copy appends its key to `copied`, once it is begun."""
    return on_loopback(_handler(silent_seconds, copied))


def _handler(silent_seconds: float, copied: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            if "x-amz-copy-source" in self.headers:
                copied.append(self.path)
                time.sleep(silent_seconds)
            self._answer(COPIED)

        def do_POST(self) -> None:
            self._answer(BEGUN if "uploads" in self.path else DONE)

        def do_GET(self) -> None:
            self._answer(NOTHING_LISTED)

        def do_HEAD(self) -> None:
            self._answer(b"")

        def do_DELETE(self) -> None:
            self._answer(b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Keep the test's output free of requests."""

        def _answer(self, body: bytes) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with suppress(OSError):  # the client may have given up
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/xml")
                self.send_header("ETag", '"x"')
                self.end_headers()
                self.wfile.write(body)

    return Handler
