"""What the registry and the broker in memory promise, the real ones keep: the same tests for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from breadth import Place

from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import ConfluentRegistry
from frazil.model.errors import BrokerError, RegistryError
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.spec import RegistrySettings, StartEarliest, StartLatest, StartOffsets
from frazil.ports import SchemaRegistry, Topics
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record

NOBODY_LISTENS = "127.0.0.1:1"
NO_SUCH_ID = 2_000_000_000
RECORDS = 5


@dataclass(frozen=True)
class Registry:
    client: SchemaRegistry
    register: Callable[[str, str], int]
    down: SchemaRegistry


@dataclass(frozen=True)
class Cluster:
    """`topic` has two partitions; the first holds RECORDS records."""

    client: Topics
    topic: str
    down: Topics


@pytest.fixture(params=["real", "in memory"])
def registry(request: pytest.FixtureRequest, place: Place) -> Iterator[Registry]:
    if request.param == "real":
        addresses = (place.services.schema_registry_url, f"http://{NOBODY_LISTENS}")
        client, down = (ConfluentRegistry(RegistrySettings(address, {})) for address in addresses)
        with closing(client), closing(down):
            yield Registry(client, lambda subject, text: place.register(subject, json.loads(text)), down)
    else:
        memory = RegistryInMemory()
        yield Registry(memory, lambda subject, text: memory.register(subject, text).id, RegistryInMemory(down=True))


@pytest.fixture(params=["real", "in memory"])
def cluster(request: pytest.FixtureRequest, place: Place) -> Cluster:
    if request.param == "real":
        topic = place.topic(partitions=2)
        place.send(topic, *[b"value"] * RECORDS)
        client = KafkaTopics({"bootstrap.servers": place.services.bootstrap_servers})
        return Cluster(client, topic, KafkaTopics({"bootstrap.servers": NOBODY_LISTENS}))
    facts = TopicFacts("orders", "id", {0: PartitionFacts(0, RECORDS), 1: PartitionFacts(0, 0)})
    return Cluster(TopicsInMemory({"orders": facts}), "orders", TopicsInMemory(down=True))


def test_the_newest_schema_of_a_subject_is_found_and_older_ones_by_id(registry: Registry, place: Place) -> None:
    subject = f"{place.name}-value"
    older = registry.register(subject, record(a_field("n")))
    newer = registry.register(subject, record(a_field("n"), {**a_field("m"), "default": 0}))

    latest, by_id = registry.client.latest(subject), registry.client.by_id(older)

    assert latest is not None
    assert by_id is not None
    assert (latest.id, latest.format, by_id.id) == (newer, "AVRO", older)
    assert json.loads(by_id.text) == json.loads(record(a_field("n")))
    assert by_id.references == ()


def test_what_the_registry_lacks_is_none_and_remembered(registry: Registry, place: Place) -> None:
    before = registry.client.remembers_missing(NO_SUCH_ID)

    assert registry.client.by_id(NO_SUCH_ID) is None
    assert (before, registry.client.remembers_missing(NO_SUCH_ID)) == (False, True)
    assert registry.client.latest(f"{place.name}-nowhere") is None


def test_subjects_are_listed_by_how_they_begin(registry: Registry, place: Place) -> None:
    for subject in ("-a", "-b", "x"):
        registry.register(place.name + subject, record(a_field("n")))

    assert sorted(registry.client.subjects_under(f"{place.name}-")) == [f"{place.name}-a", f"{place.name}-b"]


def test_a_registry_that_is_down_is_never_taken_for_one_without_the_schema(registry: Registry) -> None:
    with pytest.raises(RegistryError):
        registry.down.by_id(1)
    with pytest.raises(RegistryError):
        registry.down.latest("orders-value")


def test_a_topic_is_described_with_where_its_partitions_begin_and_end(cluster: Cluster) -> None:
    facts = cluster.client.describe(cluster.topic)

    assert facts is not None
    assert facts.topic == cluster.topic
    assert facts.topic_id
    assert {n: (each.earliest, each.end) for n, each in facts.partitions.items()} == {0: (0, RECORDS), 1: (0, 0)}
    assert cluster.topic in cluster.client.names()
    assert cluster.client.describe(f"{cluster.topic}-nowhere") is None


def test_a_start_is_an_offset_for_each_partition(cluster: Cluster) -> None:
    facts = cluster.client.describe(cluster.topic)
    assert facts is not None

    starts = (StartEarliest(), StartLatest(), StartOffsets({0: 3}))

    assert [dict(cluster.client.first_offsets(facts, start)) for start in starts] == [
        {0: 0, 1: 0},
        {0: RECORDS, 1: 0},
        {0: 3, 1: 0},
    ]


def test_a_cluster_that_is_down_is_never_taken_for_one_without_the_topic(cluster: Cluster) -> None:
    with pytest.raises(BrokerError):
        cluster.down.describe(cluster.topic)
