"""Create the clients of external services from the settings, for the commands that need them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import open_registry
from frazil.materialize.clients import Clients, ClientSource, Observer, Step
from frazil.materialize.run import TableRun
from frazil.model.receipt import Receipt
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings, Settings, SnowflakeSettings
from frazil.model.spec import TableSpec
from frazil.outputs.ports import OutputClients
from frazil.ports import DeltaLogs, Lake, Snowflake, TaskRunner
from frazil.specs.select import read_together


def new_id() -> str:
    return uuid.uuid4().hex[:12]


def open_clients(
    settings: Settings, runner: TaskRunner, *, on_receipt: Callable[[Receipt], None], observe: Observer | None = None
) -> Clients:
    lake = IcebergLake(settings.catalog)
    return Clients(
        lake=lake,
        topics=KafkaTopics(settings.kafka),
        registry=open_registry(settings.registry),
        runner=runner,
        kafka=settings.kafka,
        registry_settings=settings.registry,
        now=lambda: datetime.now(UTC),
        new_id=new_id,
        on_receipt=on_receipt,
        observe=observe or _nobody,
        delta_logs=delta_logs_of(lake),
        snowflake=open_loader(settings.snowflake),
        outputs=outputs_of(settings.kafka, settings.registry),
    )


def outputs_of(kafka: Mapping[str, SettingValue], registry: RegistrySettings | None) -> Callable[[], OutputClients]:
    """Return a function that makes the clients of output topics when the first table needs them."""

    @cache
    def opened() -> OutputClients:
        from frazil.adapters.iceberg.snapshot_rows import SnapshotRows  # noqa: PLC0415 - few tables have outputs
        from frazil.adapters.kafka.output_topics import KafkaOutputTopics  # noqa: PLC0415
        from frazil.adapters.output_schemas import RegistrySchemas  # noqa: PLC0415

        return OutputClients(KafkaOutputTopics(kafka), RegistrySchemas(registry), SnapshotRows())

    return opened


def open_loader(settings: SnowflakeSettings | None) -> Snowflake | None:
    """Return the account that refreshes Delta tables, or None if none is configured. Logs in on first use."""
    if settings is None or settings.loader is None:
        return None
    from frazil.adapters.snowflake import SnowflakeAccount  # noqa: PLC0415 - few have an account

    return SnowflakeAccount(settings, settings.loader)


def delta_logs_of(lake: Lake) -> Callable[[], DeltaLogs]:
    """Return a function that opens the Delta logs of the lake on first use, because the library loads slowly."""

    @cache
    def opened() -> DeltaLogs:
        from frazil.adapters.delta.log import DeltaRsLogs  # noqa: PLC0415

        return DeltaRsLogs(lake.storage)

    return opened


def open_onlooker(settings: SnowflakeSettings | None) -> Snowflake | None:
    """Return the account that reads Snowflake's freshness: the reader, else the loader. Login times out in 5 s."""
    user = None if settings is None else settings.reader or settings.loader
    if settings is None or user is None:
        return None
    from frazil.adapters.snowflake import SnowflakeAccount  # noqa: PLC0415 - few have an account

    return SnowflakeAccount(settings, user, login_seconds=5)


def table_runs(
    clients: Clients, specs: tuple[TableSpec, ...], *, adopt: bool = False, client_source: ClientSource | None = None
) -> list[TableRun]:
    """Return one run for each table, or for all tables of a group, which must all be given.

    All have the same writer id, which is new in every process.
    """
    writer = new_id()
    return [
        TableRun(first, clients, writer, adopt=adopt, client_source=client_source, others=others)
        for first, *others in read_together(specs)
    ]


def _nobody(when: str, step: Step) -> None:
    del when, step
