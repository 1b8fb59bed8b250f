"""The rights that the documentation asks for, against a broker that enforces them: enough, and none too many."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from own_broker import broker_with

from frazil.adapters.kafka.output_topics import KafkaOutputTopics
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.model.errors import BrokerError
from frazil.model.outputs import OUTPUT_GROUP, Marker, OutputSpec, Part, ShardPlace
from frazil.model.plan import OffsetRange
from frazil.model.secret import SettingValue
from frazil.outputs.ports import Encoded
from frazil.records import OptionalFields
from frazil.specs.kafka_keys import READER_GROUP

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
DOCUMENTED = re.compile(r"^\| `([A-Z]+)` \| (each topic|the group) ", re.MULTILINE)
TOPIC = "orders"
OUTPUTS_PAGE = PAGE.parent / "outputs.md"
OF_OUTPUTS = re.compile(r"^\| (Topic|TransactionalId|Group), [^|]* \| ([A-Za-z, ]+) \|$", re.MULTILINE)
CLEAN = OutputSpec("clean", "clean")
OF_CLEAN = ShardPlace("0b9c", CLEAN.name, CLEAN.topic, shard=0)
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="admin" password="admin" user_admin="admin" user_job="job";'
)
ENFORCING = f"""
listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.plaintext.plain.sasl.jaas.config={JAAS}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""
"""Later lines of a broker's configuration win. The controller's listener has no named users."""

EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
UNTIL_SEEN_SECONDS = 20.0


def _login(address: str, user: str) -> dict[str, SettingValue]:
    sasl = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": user}
    return {"bootstrap.servers": address, "security.protocol": "sasl_plaintext", **sasl}


def _documented() -> list[AclBinding]:
    kinds = {"each topic": (ResourceType.TOPIC, TOPIC), "the group": (ResourceType.GROUP, READER_GROUP)}
    return [
        AclBinding(
            *kinds[on], ResourcePatternType.LITERAL, "User:job", "*", AclOperation[word], AclPermissionType.ALLOW
        )
        for word, on in DOCUMENTED.findall(PAGE.read_text())
    ]


def _documented_of_outputs() -> list[AclBinding]:
    kinds = {
        "Topic": (ResourceType.TOPIC, CLEAN.topic, ResourcePatternType.LITERAL),
        "TransactionalId": (ResourceType.TRANSACTIONAL_ID, OUTPUT_GROUP, ResourcePatternType.PREFIXED),
        "Group": (ResourceType.GROUP, OUTPUT_GROUP, ResourcePatternType.PREFIXED),
    }
    return [
        AclBinding(*kinds[kind], "User:job", "*", AclOperation[word.upper()], AclPermissionType.ALLOW)
        for kind, words in OF_OUTPUTS.findall(OUTPUTS_PAGE.read_text())
        for word in words.split(", ")
    ]


class Enforcing:
    """A broker that asks what its users may do, and its administrator."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = AdminClient({**_login(address, "admin"), "log_level": 0})

    def begin(self) -> None:
        """Wait for it, and write ten records."""
        deadline = time.monotonic() + 180
        while not self._answers():
            assert time.monotonic() < deadline, "the broker does not answer"
        for created in self.admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(CLEAN.topic, 1, 1)]).values():
            created.result(30)
        producer = Producer({**_login(self.address, "admin"), "log_level": 0})
        for number in range(10):
            producer.produce(TOPIC, str(number))
        assert producer.flush(30) == 0

    def allow(self, acls: Sequence[AclBinding]) -> None:
        """These, and no others."""
        for deleted in self.admin.delete_acls([EVERY]).values():
            deleted.result(30)
        for created in self.admin.create_acls(list(acls)).values() if acls else ():
            created.result(30)

    def refusal_of_a_batch(self, *, within: float) -> BrokerError | None:
        """What a batch does, over and over: describe the topic, and read all that is in it."""
        reader, topics = KafkaReader(_login(self.address, "job")), KafkaTopics(_login(self.address, "job"))
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                end = topics.describe(TOPIC).partitions[0].end  # type: ignore[union-attr]
                wanted = OffsetRange(TOPIC, 0, start=0, end=end, partition_end=end, max_bytes=1 << 20)
                read = sum(
                    len(part.offsets)
                    for chunks in reader.read([wanted], OptionalFields(timestamp_type=False, leader_epoch=False))
                    for part in chunks
                )
            except BrokerError as refused:
                return refused
            assert read == end == 10
            time.sleep(0.1)
        return None

    def sent(self) -> None:
        """Send an epoch of one record to the output topic, as the user of the job. Raises BrokerError."""
        topics = KafkaOutputTopics(_login(self.address, "job"))
        topics.check_permissions(CLEAN)
        assert topics.partitions(CLEAN.topic) == 1
        topics.markers([OF_CLEAN])
        producer = topics.open(OF_CLEAN)
        try:
            marker = Marker(1, 7, part=Part(8, 9))
            producer.begin()
            producer.add(Encoded(None, pa.array([b"row"]), pa.array([0], pa.int32())))
            producer.commit(marker)
            assert producer.marker() == marker
        finally:
            producer.close()

    def _answers(self) -> bool:
        try:
            return len(self.admin.list_topics(timeout=1).brokers) == 1
        except KafkaException:
            return False


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enforcing]:
    with broker_with(ENFORCING, tmp_path_factory.mktemp("enforcing")) as address:
        enforcing = Enforcing(address)
        enforcing.begin()
        yield enforcing


def test_the_documented_acls_suffice(enforcing: Enforcing) -> None:
    enforcing.allow(_documented())

    assert enforcing.refusal_of_a_batch(within=3) is None
    assert KafkaTopics(_login(enforcing.address, "job")).look_up_group()


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_without_one_of_them_the_error_names_it(enforcing: Enforcing, operation: str) -> None:
    documented = _documented()
    (missing,) = [acl for acl in documented if acl.operation is AclOperation[operation]]

    enforcing.allow([acl for acl in documented if acl is not missing])

    refused = enforcing.refusal_of_a_batch(within=UNTIL_SEEN_SECONDS)
    assert refused is not None
    assert "authorization failed" in refused.what
    assert f"{operation} " in refused.hint
    assert missing.name in refused.hint


def test_the_doctor_misses_the_right_that_a_short_read_does_not_need(enforcing: Enforcing) -> None:
    enforcing.allow([acl for acl in _documented() if acl.restype is ResourceType.TOPIC])

    with pytest.raises(BrokerError, match="could not describe the group") as refused:
        KafkaTopics(_login(enforcing.address, "job")).look_up_group()

    assert f"grant DESCRIBE on the group {READER_GROUP}" in refused.value.hint


def test_the_documented_acls_of_an_output_suffice(enforcing: Enforcing) -> None:
    enforcing.allow(_documented_of_outputs())

    enforcing.sent()


@pytest.mark.parametrize(
    ("kind", "operation", "says"),
    [
        (ResourceType.TOPIC, "WRITE", "does not allow this user to write to the output topic clean: expected WRITE"),
        (
            ResourceType.TOPIC,
            "READ",
            "does not allow this user to commit offsets of the output topic clean: expected READ",
        ),
        (ResourceType.TRANSACTIONAL_ID, "WRITE", "take over the transactions"),
        (ResourceType.GROUP, "READ", "does not allow this user to commit offsets of the group"),
    ],
    ids=["write topic", "read topic", "transactional id", "group"],
)
def test_without_one_of_them_the_output_names_it(
    enforcing: Enforcing, kind: ResourceType, operation: str, says: str
) -> None:
    documented = _documented_of_outputs()
    (missing,) = [acl for acl in documented if acl.restype is kind and acl.operation is AclOperation[operation]]
    enforcing.allow([acl for acl in documented if acl is not missing])

    deadline = time.monotonic() + UNTIL_SEEN_SECONDS
    with pytest.raises(BrokerError) as refused:
        while time.monotonic() < deadline:
            enforcing.sent()

    assert says in refused.value.what
    assert operation in refused.value.hint
    assert missing.name in refused.value.hint
