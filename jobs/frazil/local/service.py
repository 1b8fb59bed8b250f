"""What the supervisor has to know of a service to start it, wait for it and stop it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Ports = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: its command, and what it gets on top of our environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Service:
    """One service. Every port has a preferred number; the one called `main` is the one that clients use."""

    name: str
    preferred_ports: Ports
    start_seconds: float
    stop_seconds: float
    address: Callable[[Ports], str]
    fetch: Callable[[], object]
    """Make sure that its files are on this machine."""
    prepare: Callable[[Path, Ports], Launch]
    """Write its configuration and data into its folder; the launch that uses them."""
    answers: Callable[[Ports], bool]
    """Ask it something that only a working one answers."""
