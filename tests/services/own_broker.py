"""A broker of one test module, with settings that the shared one does not have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frazil.local import broker
from frazil.local.loopback import choosing_ports


@contextmanager
def broker_with(properties: str, folder: Path) -> Iterator[str]:
    """Start a broker with these lines added to its properties; yield its address. It may not be ready yet."""
    with choosing_ports(folder / "claims") as choose:
        ports = {"main": choose(None), "controller": choose(None)}
        launch = broker.prepare(folder, ports)
        with (folder / "server.properties").open("a") as added:
            added.write(properties)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(launch.command, stdout=log, stderr=log)
        try:
            yield broker.address(ports)
        finally:
            process.terminate()
            process.wait(60)
