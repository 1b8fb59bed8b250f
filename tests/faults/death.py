"""Who is killed in a test of a driver with Spark."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Death:
    """Ends a `driver`, its process `group`, or the `worker` that it is called in; `nobody` lives on."""

    who: str
    driver: int

    def __call__(self) -> None:
        match self.who:
            case "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            case "driver":
                os.kill(self.driver, signal.SIGKILL)
            case "group":
                os.killpg(os.getpgid(self.driver), signal.SIGKILL)
