"""The outside world, as the steps of a run use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from frazil.maintain.background import Background
from frazil.model.receipt import Receipt
from frazil.model.spec import RegistrySettings, SettingValue
from frazil.ports import DeltaLogs, Lake, SchemaRegistry, Snowflake, TaskRunner, Topics

Step = Literal["evolve", "plan", "ingest", "prepare", "stage", "publish", "reveal", "announce"]
STEPS: tuple[Step, ...] = ("evolve", "plan", "ingest", "prepare", "stage", "publish", "reveal", "announce")

Observer = Callable[[Literal["before", "after"], Step], None]


@dataclass(frozen=True, slots=True)
class Doors:
    """The outside world, as the steps use it. `observe` is called before and after every step.

    `delta_logs` opens its door when the first table needs it, which costs an import. `snowflake` is there where the
    settings name a user who may refresh external tables.
    """

    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    runner: TaskRunner
    kafka: Mapping[str, SettingValue]
    registry_settings: RegistrySettings
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    announce: Callable[[Receipt], None]
    observe: Observer
    delta_logs: Callable[[], DeltaLogs]
    snowflake: Snowflake | None = None
    background: Background = field(default_factory=Background)


class Doorkeeper(Protocol):
    """Gives the doors as they are to be opened now: secrets may have changed since the process started."""

    def doors(self) -> Doors: ...

    def doubt(self) -> None:
        """Something outside failed, so a secret may no longer be good."""
        ...
