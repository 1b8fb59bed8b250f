"""How the supervisor starts a service and checks that it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Ports = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: its command, and the variables added to our environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Service:
    """One service. Every port has a preferred number; clients use the port called `main`."""

    name: str
    preferred_ports: Ports
    start_seconds: float
    stop_seconds: float
    address: Callable[[Ports], str]
    fetch: Callable[[], object]
    """Downloads the service's files if they are missing."""
    prepare: Callable[[Path, Ports], Launch]
    """Writes the service's configuration and data into its folder, and returns the launch."""
    answers: Callable[[Ports], bool]
    """Sends a request that only a working service answers; returns whether it was answered."""
