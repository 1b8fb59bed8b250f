"""The groups of a transformation in a topic of a real broker, with its schemas, also if the process is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from frazil.local.supervisor import LocalServices
from frazil.materialize.scheduling.schedule import Stopping
from frazil.model.outputs import OutputSpec
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.transforms.run import Transformation
from frazil.transforms.schedule import run_once
from frazil.transforms.send import TransformSending
from tests.fakes.watched_outputs import watched_outputs
from tests.faults.world import admin_of
from tests.made_topics import committed, make_topic
from tests.table.transformed_orders import DuckQueries, IcebergLake, Orders, spec_of

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The registry's client leaves its socket to the garbage collector."""

PARTITIONS = 3
SQL = "SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol"


@dataclass(frozen=True, slots=True)
class Given:
    """What a process needs to run the transformation."""

    folder: str
    brokers: str
    registry: str
    topic: str

    def run(self, reach: Callable[[str], None]) -> None:
        lake = IcebergLake(CatalogSettings("jdbc", self.folder))
        spec = spec_of(SQL, outputs=(OutputSpec(self.topic, self.topic),))
        clients = watched_outputs({"bootstrap.servers": self.brokers}, RegistrySettings(self.registry), reach)
        ids = (os.urandom(6).hex() for _ in iter(int, 1))
        made = Transformation(spec, lake, lambda: DuckQueries(lake), lambda: next(ids))
        made.sending = TransformSending(spec, lambda: clients)
        (report,) = run_once([made], Stopping(), lambda _: None)
        assert (report.failure, report.unsent) == (None, None)


def killed_at(given: Given, wanted: str) -> None:
    """Run the transformation; the process is killed at a moment of the send."""

    def reach(moment: str) -> None:
        if moment == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    given.run(reach)


def exit_code(given: Given, moment: str) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=killed_at, args=(given, moment))
    process.start()
    process.join(120)
    return process.exitcode


def test_each_state_of_a_group_is_in_the_topic_once_after_a_kill(services: LocalServices, tmp_path: Path) -> None:
    topic = f"totals-{os.urandom(4).hex()}"
    make_topic(admin_of(services), topic, PARTITIONS, {"cleanup.policy": "compact"})
    given = Given(str(tmp_path), services.bootstrap_servers, services.schema_registry_url, topic)
    orders = Orders(tmp_path)
    orders.add(1, 6, 11)
    given.run(lambda _: None)
    orders.add(1, 2, 22)

    assert exit_code(given, "in transaction") == -signal.SIGKILL
    orders.add(2)
    given.run(lambda _: None)

    found = list(read_committed(services, topic))
    assert sorted((str(key["symbol"]), value["orders"]) for key, value in found) == [
        ("None", 1), ("None", 2), ("s1", 2), ("s1", 3), ("s2", 1), ("s2", 2),
    ]  # fmt: skip
    assert {key["symbol"]: value["orders"] for key, value in found} == {
        row["symbol"]: row["orders"] for row in orders.rows_of()
    }


def read_committed(services: LocalServices, topic: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    decode = AvroDeserializer(SchemaRegistryClient({"url": services.schema_registry_url}))
    for record in committed(services.bootstrap_servers, topic):
        key = decode(record.key(), SerializationContext(topic, MessageField.KEY))
        value = decode(record.value(), SerializationContext(topic, MessageField.VALUE))
        assert key is not None and value is not None
        yield key, value
