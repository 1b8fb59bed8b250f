"""A process that runs for weeks takes up rotated secrets: with a vault and a clock in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from frazil.adapters.registry import ConfluentRegistry
from frazil.adapters.spark import worker
from frazil.cli.clients import open_clients
from frazil.cli.credential_refresher import READ_SECONDS, SECONDS_AFTER_FAILURE, CredentialRefresher
from frazil.model.errors import ServiceError
from frazil.model.secret import Secret
from frazil.model.settings import RegistrySettings
from frazil.specs.load import load_settings

FILE = """
kafka:
  bootstrap.servers: %s
  security.protocol: sasl_ssl
  sasl.mechanism: PLAIN
  sasl.username: ${secret:consumer#key}
  sasl.password: ${secret:consumer#secret}
schema_registry:
  url: http://127.0.0.1:1
  basic.auth.user.info: ${secret:registry}
catalog:
  type: rest
  uri: https://catalog.example.com
  client_id: frazil
  client_secret: ${secret:catalog}
"""


@dataclass
class Vault:
    """AWS Secrets Manager. `asked` counts; `before_answer` may raise."""

    secrets: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    before_answer: Callable[[], None] = lambda: None

    def read(self, name: str) -> str | None:
        self.asked += 1
        self.before_answer()
        return self.secrets.get(name)


@dataclass
class Process:
    """A `frazil materialize` that runs for weeks, with its clients only."""

    folder: Path
    vault: Vault = field(default_factory=lambda: Vault({"consumer": _pair(1), "registry": "user:1", "catalog": "one"}))
    now: float = 1000.0

    def __post_init__(self) -> None:
        (self.folder / "tables").mkdir()
        (self.folder / "tables" / "a.yaml").write_text("topic: orders")
        self.write("broker-1:9092")
        settings = self._load()
        clients = open_clients(settings, cast(Any, None), on_receipt=lambda receipt: None)
        self.watch = CredentialRefresher(settings, clients, load=self._load, clock=lambda: self.now)

    def write(self, brokers: str) -> None:
        (self.folder / "frazil.yaml").write_text(FILE % brokers)

    def _load(self) -> Any:
        return load_settings(self.folder / "frazil.yaml", {}, self.vault)


def _pair(number: int) -> str:
    return f'{{"key": "key-{number}", "secret": "secret-{number}"}}'


class NoBroker:
    """A client that connects to nothing."""

    def __init__(self, settings: object) -> None:
        self.settings = settings


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    for module in ("frazil.cli.clients", "frazil.cli.credential_refresher"):
        monkeypatch.setattr(f"{module}.KafkaTopics", NoBroker)
    return Process(tmp_path)


def test_a_rotated_secret_is_taken_up_after_a_while(process: Process) -> None:
    first = process.watch.clients()
    process.vault.secrets["consumer"] = _pair(2)

    process.now += READ_SECONDS - 1
    assert process.watch.clients() is first
    process.now += 1
    second = process.watch.clients()

    assert second.kafka["sasl.password"] == Secret("secret-2")
    assert second.topics is not first.topics
    assert (second.registry, second.lake) == (first.registry, first.lake)


def test_each_door_is_opened_anew_for_its_own_secret(process: Process) -> None:
    first = process.watch.clients()
    process.vault.secrets["registry"] = "user:2"

    process.now += READ_SECONDS
    second = process.watch.clients()

    assert second.registry_settings.properties == {"basic.auth.user.info": Secret("user:2")}
    assert second.registry is not first.registry
    assert second.topics is first.topics


def test_a_rotated_secret_of_the_catalog_opens_only_the_catalog_anew(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    first = process.watch.clients()
    process.vault.secrets["catalog"] = "two"
    process.now += READ_SECONDS

    with caplog.at_level(logging.INFO):
        second = process.watch.clients()

    rest = process.watch.settings.catalog.rest
    assert rest is not None and rest.properties["client_secret"] == Secret("two")
    assert second.lake is not first.lake
    assert (second.registry, second.topics) == (first.registry, first.topics)
    assert [(each.message, each.__dict__["of"]) for each in caplog.records] == [("secrets_taken_up", "catalog")]


def test_another_address_of_the_catalog_waits_for_a_restart(process: Process) -> None:
    first = process.watch.clients()
    file = process.folder / "frazil.yaml"
    file.write_text(file.read_text().replace("catalog.example", "other.example"))
    process.now += READ_SECONDS

    assert process.watch.clients() is first


def test_what_has_not_changed_is_not_opened_anew_and_not_asked_for_each_batch(process: Process) -> None:
    first, asked = process.watch.clients(), process.vault.asked

    for _ in range(100):
        process.now += READ_SECONDS / 50
        assert process.watch.clients() is first

    assert process.vault.asked == asked + 2 * 4  # of the file, twice: two of one secret, one of each other


def test_after_a_failure_it_is_looked_soon_for_a_key_that_was_taken_out_of_use(process: Process) -> None:
    first = process.watch.clients()
    process.vault.secrets["consumer"] = _pair(2)
    process.now += SECONDS_AFTER_FAILURE - 1

    process.watch.invalidate()
    assert process.watch.clients() is first
    process.now += 1

    assert process.watch.clients().kafka["sasl.username"] == Secret("key-2")


def test_secrets_that_cannot_be_read_leave_the_clients_as_they_are(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    def down() -> None:
        raise ServiceError("The secret cannot be read: it is an outage.", hint="wait")

    first = process.watch.clients()
    process.vault.secrets["consumer"] = _pair(2)
    process.vault.before_answer = down
    process.now += READ_SECONDS
    with caplog.at_level(logging.WARNING):
        assert process.watch.clients() is first
    assert "secrets_not_read_again" in caplog.messages

    process.vault.before_answer = lambda: None
    process.now += SECONDS_AFTER_FAILURE
    assert process.watch.clients().kafka["sasl.password"] == Secret("secret-2")


def test_other_changes_wait_for_a_restart(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    first = process.watch.clients()
    process.write("broker-2:9092")
    process.vault.secrets["consumer"] = _pair(2)
    process.now += READ_SECONDS

    with caplog.at_level(logging.WARNING):
        assert process.watch.clients() is first

    assert "settings_changed" in caplog.messages


def test_no_secret_is_in_what_is_logged(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.vault.secrets["consumer"] = _pair(2)
    process.now += READ_SECONDS

    with caplog.at_level(logging.INFO):
        process.watch.clients()

    assert [(each.message, each.__dict__["of"]) for each in caplog.records] == [("secrets_taken_up", "kafka")]
    assert "secret-2" not in repr(process.watch) and "secret-2" not in repr(process.watch.clients())


def test_tasks_ask_the_registry_with_the_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_registries", {})
    before = RegistrySettings("http://127.0.0.1:1", {"basic.auth.user.info": Secret("user:1")})
    after = RegistrySettings("http://127.0.0.1:1", {"basic.auth.user.info": Secret("user:2")})
    closed = []

    def close(registry: ConfluentRegistry) -> None:
        closed.append(registry)

    monkeypatch.setattr(ConfluentRegistry, "close", close)

    first, again, second = worker._registry(before), worker._registry(before), worker._registry(after)

    assert first is again
    assert second is not first
    assert list(worker._registries.values()) == [second]
    assert closed == [first.registry], "its connection would stay open until Python collects it"
