"""A process that runs ingest tasks keeps one reader, and closes it in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.adapters.kafka.partition_consumer import NO_RECORDS
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.spark import worker
from frazil.model.errors import BrokerError
from frazil.model.plan import OffsetRange
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.records import OptionalFields

SERVERS: dict[str, SettingValue] = {"bootstrap.servers": "127.0.0.1:1"}
ONE = OffsetRange("orders", 0, 0, 10, partition_end=10, max_bytes=10**9)
PLAIN = OptionalFields(timestamp_type=False, leader_epoch=False)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[KafkaReader]]:
    """Collects the readers that were closed."""
    found: list[KafkaReader] = []
    plain = KafkaReader.close
    monkeypatch.setattr(worker, "_readers", {})
    monkeypatch.setattr(worker, "_registries", {})

    def close(reader: KafkaReader) -> None:
        found.append(reader)
        plain(reader)

    monkeypatch.setattr(KafkaReader, "close", close)
    yield found
    for reader in worker._readers.values():
        plain(reader)


def task_of(servers: dict[str, SettingValue]) -> Any:
    context = SimpleNamespace(kafka=servers, registry=RegistrySettings("http://127.0.0.1:1"))
    return SimpleNamespace(context=context)


def test_the_reader_of_a_failed_task_is_closed(closed: list[KafkaReader], monkeypatch: pytest.MonkeyPatch) -> None:
    failure = BrokerError("it is down", hint="")
    reading: list[Any] = []

    def failing(task: object, *, reader: KafkaReader, registry: object) -> None:
        monkeypatch.setattr(reader, "_chunks", lambda *_: iter([NO_RECORDS]))
        reads = reader.read([ONE], PLAIN)
        next(next(reads))
        reading.append(reads)
        raise failure

    monkeypatch.setattr(worker, "ingest", failing)

    assert worker.run(task_of(SERVERS)) is failure
    assert len(closed) == 1
    assert not worker._readers
    reading[0].close()


def test_a_reader_with_other_settings_is_closed_before_the_next_is_opened(closed: list[KafkaReader]) -> None:
    first = worker._reader(SERVERS)
    second = worker._reader({**SERVERS, "client.id": "renewed"})

    assert closed == [first]
    assert list(worker._readers.values()) == [second]


def test_a_worker_starts_without_the_registry_client() -> None:
    """Its packages take 0.2 s to import, and most tasks ask the registry nothing."""
    check = "import sys, frazil.adapters.spark.daemon as _; print('confluent_kafka.schema_registry' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)

    assert found.stdout == "False\n"
