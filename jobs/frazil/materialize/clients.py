"""The clients of external systems that the steps of a run use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, get_args

from frazil.maintain.background import Background
from frazil.model.errors import DefectError
from frazil.model.receipt import Receipt
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.outputs.ports import OutputClients
from frazil.ports import DeltaLogs, Lake, SchemaRegistry, Snowflake, TaskRunner, Topics

BatchStep = Literal[
    "create", "create_dead_letters", "recover", "follow_spec", "evolve", "repartition",
    "plan", "ingest", "prepare", "stage", "publish", "reveal", "announce", "send",
]  # fmt: skip
ReplayStep = Literal[
    "replay_choose", "replay_decode", "replay_stage", "replay_prepare", "replay_publish", "replay_reveal"
]
STEPS: tuple[BatchStep, ...] = get_args(BatchStep)
"""The steps of a batch in their order; docs/architecture.md says what a crash between two of them leaves behind."""

REPLAY_STEPS: tuple[ReplayStep, ...] = get_args(ReplayStep)
"""The steps of a replay, which comes before `plan` if there is a request for one: `create` and so on, then these."""

Step = BatchStep | ReplayStep

Observer = Callable[[Literal["before", "after"], Step], None]


def _ignore(table: str) -> None:
    del table


def _no_outputs() -> OutputClients:
    raise DefectError("no client for output topics was given", hint="this is a defect in Frazil: report it")


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients that the steps use, the clock and the source of ids. `observe` is called before and after each step.

    `on_batch_end` is called with the table's name after each batch, whether it was published, failed, or read nothing.
    `delta_logs` imports its library when the first table needs it. `snowflake` is None unless the settings name a user
    who may refresh external tables. `outputs` opens the clients of output topics when the first table needs them.
    """

    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    runner: TaskRunner
    kafka: Mapping[str, SettingValue]
    registry_settings: RegistrySettings | None
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    on_receipt: Callable[[Receipt], None]
    observe: Observer
    delta_logs: Callable[[], DeltaLogs]
    snowflake: Snowflake | None = None
    background: Background = field(default_factory=Background)
    on_batch_end: Callable[[str], None] = field(default=_ignore)
    outputs: Callable[[], OutputClients] = field(default=_no_outputs)


class ClientSource(Protocol):
    """Provides the current clients: secrets may have changed since the process started."""

    def clients(self) -> Clients: ...

    def invalidate(self) -> None:
        """Read the secrets again soon: a service failed, perhaps because a secret was revoked."""
        ...
