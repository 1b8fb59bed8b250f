"""`python -m frazil.local.rest_catalog PORT SERVER_PORT COMMAND...`: the process behind `rest` of `frazil local up`.

COMMAND is the catalog's server, which ends when this process ends. The client and its secret are in the environment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from frazil.local.aws_double import children
from frazil.local.rest_catalog.front import Front, FrontServer
from frazil.local.rest_catalog.tokens import Tokens

CLIENT_ID = "FRAZIL_REST_CLIENT_ID"
CLIENT_SECRET = "FRAZIL_REST_CLIENT_SECRET"  # noqa: S105 - the name of a variable
GRACE_SECONDS = 20.0
OUTPUT = Path("/dev/stdout")


def main(port: int, server_port: int, command: Sequence[str]) -> int:
    """Serve until SIGTERM, or until the server behind ends: its exit status is then this one's."""
    tokens = Tokens(os.environ.pop(CLIENT_ID), os.environ.pop(CLIENT_SECRET))
    signal.signal(signal.SIGTERM, _leave)
    server = children.run(command, environment=dict(os.environ), folder=Path.cwd(), stdout=OUTPUT, stderr=OUTPUT)
    front = FrontServer(Front(tokens, server_port), port)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        return server.wait() or 0
    finally:
        server.end(grace_seconds=GRACE_SECONDS)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
