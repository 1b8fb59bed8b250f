"""The same tests for the clients in memory, which other tests use, and for the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any
from uuid import uuid4

import boto3
import pytest
from breadth import REGION, Place
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic
from reader_engines import ENGINES

from frazil.adapters.aws.secrets import SecretsManager
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import ConfluentRegistry
from frazil.model.errors import BrokerError, RegistryError, SubjectMissingError
from frazil.model.plan import OffsetRange, PartitionFacts, TopicFacts
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaDefinition
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.model.spec import StartEarliest, StartLatest, StartOffsets
from frazil.ports import RecordReader, SchemaRegistry, Topics
from frazil.records import OptionalFields
from infra.deploy.kafka.topics import Admin, connect
from tests.fakes.clients_in_memory import (
    AdminInMemory,
    RegistryInMemory,
    SecretsInMemory,
    TopicsInMemory,
    a_field,
    record,
)
from tests.fakes.reader_in_memory import ReaderInMemory, Sent
from tests.fakes.vault_in_memory import CURRENT, PENDING, PREVIOUS, SecretInMemory, VaultInMemory

NOBODY_LISTENS = "127.0.0.1:1"
NO_SUCH_ID = 2_000_000_000
RECORDS = 5


@dataclass(frozen=True)
class Registry:
    client: SchemaRegistry
    register: Callable[..., int]
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
            yield Registry(
                client, lambda subject, text, **more: place.register(subject, json.loads(text), **more), down
            )
    else:
        memory = RegistryInMemory()
        down_too = RegistryInMemory(down=True)
        yield Registry(memory, lambda subject, text, **more: memory.register(subject, text, **more).id, down_too)


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


def test_references_come_with_their_names_dependencies_first(registry: Registry, place: Place) -> None:
    of = f"{place.name}-".replace("-", "_")
    registry.register(f"{of}money", record(a_field("cents"), name="Money"))
    used = [("of.Money", f"{of}money")]
    registry.register(f"{of}line", record(a_field("price", "Money"), name="Line"), references=used)
    used = [("of.Line", f"{of}line"), ("of.Money", f"{of}money")]

    schema = registry.client.by_id(
        registry.register(f"{of}order", record(a_field("line", "Line"), a_field("paid", "Money")), references=used)
    )

    assert schema is not None
    assert [each.name for each in schema.references] == ["of.Money", "of.Line"]
    assert [json.loads(each.text)["name"] for each in schema.references] == ["Money", "Line"]


def test_versions_of_a_subject_are_found_by_number(registry: Registry, place: Place) -> None:
    subject = f"{place.name}-value"
    ids = [registry.register(subject, record(a_field("n"))), registry.register(subject, record(a_field("m")))]

    found = [registry.client.version(subject, number) for number in (1, 2)]

    assert [each.id for each in found] == ids
    with pytest.raises(SubjectMissingError, match=f"no version 3 of {subject}, which has 1, 2"):
        registry.client.version(subject, 3)
    with pytest.raises(SubjectMissingError, match=f"no subject {place.name}-nowhere"):
        registry.client.version(f"{place.name}-nowhere", 1)


def test_a_schema_that_is_not_registered_has_no_id(registry: Registry) -> None:
    resolved = registry.client.resolve(SchemaDefinition("AVRO", record(a_field("n"))))

    assert resolved == RegisteredSchema(UNREGISTERED, "AVRO", record(a_field("n")))


def test_one_text_has_one_id_in_every_subject(registry: Registry, place: Place) -> None:
    text = record(a_field(f"n_{place.name}".replace("-", "_")))
    as_value, as_key = (registry.register(f"{place.name}-{part}", text) for part in ("value", "key"))

    assert as_key == as_value
    assert registry.register(f"{place.name}-key", record(a_field("m"))) != as_value


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


SENT: tuple[Sent, ...] = ((b"k", b"0"), (None, b"1"), (b"k", None), (b"k", b"3"), (b"k", b"4"))


@pytest.fixture(params=[*ENGINES, "in memory"])
def partition(request: pytest.FixtureRequest, place: Place) -> Iterator[tuple[RecordReader, str]]:
    """A reader, and a topic whose only partition holds SENT."""
    if request.param == "in memory":
        yield ReaderInMemory(SENT, chunk=2), "orders"
        return
    topic = place.topic()
    for key, value in SENT:
        place.send(topic, value, key=key)
    servers: dict[str, SettingValue] = {"bootstrap.servers": place.services.bootstrap_servers}
    with closing(KafkaReader(servers, chunk_bytes=2, engine=request.param)) as reader:
        yield reader, topic


@pytest.mark.parametrize(("start", "end"), [(0, 5), (1, 4), (4, 5)])
def test_a_range_is_read_in_order_up_to_its_end_and_no_further(
    partition: tuple[RecordReader, str], start: int, end: int
) -> None:
    reader, topic = partition
    wanted = OffsetRange(topic, 0, start, end, partition_end=len(SENT), max_bytes=1 << 20)

    chunks = list(chain.from_iterable(reader.read([wanted], OptionalFields(timestamp_type=False, leader_epoch=False))))

    assert [offset for chunk in chunks for offset in chunk.offsets.to_pylist()] == list(range(start, end))
    assert [key for chunk in chunks for key in chunk.keys.to_pylist()] == [key for key, _ in SENT[start:end]]
    assert [value for chunk in chunks for value in chunk.values.to_pylist()] == [value for _, value in SENT[start:end]]
    assert chunks[-1].next_offset == end
    assert all(chunk.next_offset == later.first_offset for chunk, later in pairwise(chunks))
    assert all(chunk.timestamp_types is None and chunk.leader_epochs is None for chunk in chunks)


@pytest.fixture(params=["real", "in memory"])
def admin(request: pytest.FixtureRequest, place: Place) -> Admin:
    if request.param == "real":
        return connect({"bootstrap.servers": place.services.bootstrap_servers})
    return AdminInMemory()


def test_a_topic_is_created_once_with_its_partitions(admin: Admin) -> None:
    name, ours = f"twin-{uuid4().hex[:8]}", {"retention.ms": "3600000"}

    admin.create_topics([NewTopic(name, 3, 1, config=ours)], request_timeout=30)[name].result(30)
    again = admin.create_topics([NewTopic(name, 5, 1, config=ours)], request_timeout=30)[name].exception(30)

    assert isinstance(again, KafkaException)
    assert again.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    listed = admin.list_topics(timeout=30).topics[name]
    assert (len(listed.partitions), listed.error) == (3, None)


@pytest.fixture(params=["real", "in memory"])
def secrets_manager(request: pytest.FixtureRequest, place: Place) -> tuple[Any, str]:
    """A client of Secrets Manager, and the name of a secret that has no version."""
    name = f"frazil/test/{uuid4().hex[:8]}"
    if request.param == "in memory":
        return VaultInMemory(SecretInMemory(name, {})), name
    address, local = place.services.aws_endpoint_url, "local"
    keys = {"aws_access_key_id": local, "aws_secret_access_key": local}
    client = boto3.client("secretsmanager", endpoint_url=address, region_name=REGION, **keys)
    client.create_secret(Name=name)
    return client, name


def test_a_new_version_becomes_current_and_the_former_one_previous(secrets_manager: tuple[Any, str]) -> None:
    client, name = secrets_manager
    first, second = (str(uuid4()) for _ in range(2))

    def put(version: str, text: str, *stages: str) -> None:
        client.put_secret_value(
            SecretId=name, ClientRequestToken=version, SecretString=text, VersionStages=list(stages)
        )

    put(first, "one", CURRENT)
    put(second, "two", PENDING)
    before = client.get_secret_value(SecretId=name)["SecretString"]
    pending = client.get_secret_value(SecretId=name, VersionStage=PENDING)["SecretString"]
    client.update_secret_version_stage(
        SecretId=name, VersionStage=CURRENT, MoveToVersionId=second, RemoveFromVersionId=first
    )

    assert (before, pending, client.get_secret_value(SecretId=name)["SecretString"]) == ("one", "two", "two")
    assert client.get_secret_value(SecretId=name, VersionId=first)["SecretString"] == "one"
    stages = client.describe_secret(SecretId=name)["VersionIdsToStages"]
    assert {version: set(each) for version, each in stages.items()} == {first: {PREVIOUS}, second: {CURRENT, PENDING}}
    listed = client.list_secret_version_ids(SecretId=name, IncludeDeprecated=True)["Versions"]
    assert {each["VersionId"] for each in listed} == {first, second}


def test_a_version_keeps_its_value_and_what_is_missing_is_not_found(secrets_manager: tuple[Any, str]) -> None:
    client, name = secrets_manager
    version = str(uuid4())

    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_secret_value(SecretId=name)
    for _ in range(2):
        client.put_secret_value(SecretId=name, ClientRequestToken=version, SecretString="one", VersionStages=[CURRENT])
    with pytest.raises(client.exceptions.ResourceExistsException):
        client.put_secret_value(SecretId=name, ClientRequestToken=version, SecretString="two", VersionStages=[CURRENT])
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_secret(SecretId=f"{name}-nowhere")

    read = SecretsManager(client) if not isinstance(client, VaultInMemory) else SecretsInMemory({name: "one"})
    assert (read.read(name), read.read(f"{name}-nowhere")) == ("one", None)
