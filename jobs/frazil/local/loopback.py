"""Choose free ports on loopback, so that concurrent `up` commands of one user do not choose the same port."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ChoosePort = Callable[[int | None], int]
"""Takes the preferred port and returns it if it is free, else another free port."""


@contextmanager
def choosing_ports(register: Path) -> Iterator[ChoosePort]:
    """Yield a function that chooses ports and reserves them until the end of the block.

    Before a service listens on its port, the operating system does not show that the port is taken. A reservation is a
    lock on the byte of the file `register` at the port's number, so it ends at the latest when the process ends.
    """
    register.parent.mkdir(parents=True, exist_ok=True)
    with register.open("a") as claims:
        chosen: set[int] = set()

        def choose(wished: int | None) -> int:
            port = wished
            while port is None or port in chosen or not (_claim(claims, port) and _is_free(port)):
                port = _free_port()
            chosen.add(port)  # a process may lock what it has locked
            return port

        yield choose


def _claim(claims: IO[str], port: int) -> bool:
    try:
        fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
