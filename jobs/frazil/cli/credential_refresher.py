"""Reconnect to services when a secret has been rotated, in a process that runs for weeks.

A replaced key stays valid until the next rotation, so secrets are read only at intervals. After a service has failed
they are read sooner, in case a key was revoked. Only secrets are read again: any other change of the configuration
needs a restart.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import open_registry
from frazil.cli.clients import delta_logs_of, outputs_of
from frazil.materialize.clients import Clients
from frazil.model.errors import FrazilError
from frazil.model.secret import Secret, SettingValue
from frazil.model.settings import RegistrySettings, Settings

LOG = logging.getLogger(__name__)

READ_SECONDS = 900.0
SECONDS_AFTER_FAILURE = 60.0
"""The least time between reads after a failure, so that secrets are not read for each batch during an outage."""


@dataclass(slots=True)
class CredentialRefresher:
    """The clients of all tables of a process (`materialize.clients.ClientSource`). `load` reads the settings again."""

    settings: Settings
    opened: Clients
    load: Callable[[], Settings] = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _read_at: float = field(init=False)
    _read_after: float = READ_SECONDS
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._read_at = self.clock()

    def clients(self) -> Clients:
        """Return the current clients. While one thread reads the secrets, the others use the existing clients."""
        if self.clock() - self._read_at >= self._read_after and self._reading.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._read_at = self.clock()
                self._reading.release()
        return self.opened

    def invalidate(self) -> None:
        self._read_after = SECONDS_AFTER_FAILURE

    def _read(self) -> None:
        try:
            found = self.load()
        except FrazilError as problem:
            LOG.warning("secrets_not_read_again", extra={"problem": problem.what, "hint": problem.hint})
            self._read_after = SECONDS_AFTER_FAILURE
            return
        self._read_after = READ_SECONDS
        self._apply(found)

    def _apply(self, found: Settings) -> None:
        if _without_secrets(found) != _without_secrets(self.settings):
            LOG.warning("settings_changed", extra={"file": found.source_file, "hint": "restart to apply them"})
            return
        self.opened = _reconnected(self.opened, self.settings, found)
        self.settings = replace(self.settings, kafka=found.kafka, registry=found.registry, catalog=found.catalog)


def _reconnected(clients: Clients, before: Settings, now: Settings) -> Clients:
    """Replace only the clients that use a changed secret."""
    if now.kafka != before.kafka:
        LOG.info("secrets_taken_up", extra={"of": "kafka"})
        clients = replace(clients, kafka=now.kafka, topics=KafkaTopics(now.kafka))
    if now.registry != before.registry:
        LOG.info("secrets_taken_up", extra={"of": "schema_registry"})
        clients = replace(clients, registry_settings=now.registry, registry=open_registry(now.registry))
    if now.catalog != before.catalog:
        LOG.info("secrets_taken_up", extra={"of": "catalog"})
        lake = IcebergLake(now.catalog)
        clients = replace(clients, lake=lake, delta_logs=delta_logs_of(lake))
    if (now.kafka, now.registry) != (before.kafka, before.registry):
        clients = replace(clients, outputs=outputs_of(now.kafka, now.registry))
    return clients


def _without_secrets(settings: Settings) -> tuple[object, ...]:
    """Return the settings of the connections, with secrets masked."""
    registry = settings.registry or RegistrySettings("")
    parts = (settings.kafka, registry.properties, settings.catalog.all_properties)
    catalog = (settings.catalog.type, settings.catalog.warehouse, settings.catalog.address)
    return (*map(_masked, parts), registry.url, catalog)


def _masked(values: Mapping[str, SettingValue]) -> Mapping[str, object]:
    return {name: Secret if isinstance(value, Secret) else value for name, value in values.items()}
