from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from own_broker import broker_with
from reader_engines import ENGINES

from frazil.adapters.kafka.msk_iam import new_token, region_of
from frazil.adapters.kafka.reader import Engine, KafkaReader
from frazil.adapters.kafka.topics import consumer_settings, librdkafka
from frazil.model.errors import BrokerError, SettingError
from frazil.model.plan import OffsetRange
from frazil.model.secret import SettingValue
from frazil.records import OptionalFields

BROKERS = "b-1.lake.abcdef.c2.kafka.eu-central-1.amazonaws.com:9098"
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "aws_msk_iam": "true"}


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The regions that tokens were asked for."""
    regions: list[str] = []

    def token(region: str) -> tuple[str, float]:
        regions.append(region)
        return "token", time.time() + 900

    monkeypatch.setattr("frazil.adapters.kafka.msk_iam.new_token", token)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    yield regions


@pytest.mark.parametrize(
    ("servers", "env", "region"),
    [
        (BROKERS, {"AWS_REGION": "us-east-1"}, "eu-central-1"),
        ("boot-x.c3.kafka-serverless.us-west-2.amazonaws.com:9098", {}, "us-west-2"),
        ("kafka.example.com:9098", {"AWS_REGION": "us-east-1"}, "us-east-1"),
        ("kafka.example.com:9098", {"AWS_DEFAULT_REGION": "us-east-2"}, "us-east-2"),
    ],
)
def test_the_region_is_the_brokers_own_before_that_of_the_process(
    servers: str, env: dict[str, str], region: str
) -> None:
    assert region_of(servers, env) == region


def test_a_region_that_nothing_names_is_said() -> None:
    with pytest.raises(SettingError, match=r"the AWS region of kafka\.example\.com:9098 is unknown"):
        region_of("kafka.example.com:9098", {})


@pytest.mark.usefixtures("role")
def test_the_token_is_a_signed_request_to_connect_that_ends_in_a_quarter_of_an_hour() -> None:
    token, ends = new_token("eu-central-1")

    request = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    asked = parse_qs(request.query)
    assert request.hostname == "kafka.eu-central-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert 800 < ends - time.time() < 1000


def test_a_process_without_a_role_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    with pytest.raises(BrokerError, match="could not sign an MSK token for eu-central-1"):
        new_token("eu-central-1")


def test_the_setting_becomes_what_librdkafka_takes() -> None:
    settings: dict[str, SettingValue] = {"bootstrap.servers": BROKERS, "aws_msk_iam": "true"}

    given = librdkafka(settings)

    assert callable(given.pop("oauth_cb"))
    assert given == {
        "bootstrap.servers": BROKERS,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
    }
    assert librdkafka({"bootstrap.servers": "b", "aws_msk_iam": "false"}) == {"bootstrap.servers": "b"}


def test_a_consumer_asks_for_its_token_by_itself(asked: list[str]) -> None:
    consumer = Consumer(consumer_settings(NOBODY))

    consumer.poll(1.0)
    consumer.close()

    assert asked[:1] == ["eu-west-1"]


def test_an_admin_client_asks_for_its_token_by_itself(asked: list[str]) -> None:
    admin = AdminClient(librdkafka(NOBODY))

    deadline = time.monotonic() + 10
    while not asked and time.monotonic() < deadline:
        time.sleep(0.05)

    assert asked[:1] == ["eu-west-1"]
    del admin


# --- a broker that takes tokens -------------------------------------------------------------------------------------

TOPIC = "orders"
SENT = 10
TOKEN_SECONDS = 6.0
"""librdkafka looks once a second whether 0.8 of a token's life has passed: one of 3 s ends before it is replaced."""

TAKES_TOKENS = """
listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=OAUTHBEARER
sasl.mechanism.inter.broker.protocol=OAUTHBEARER
listener.name.plaintext.oauthbearer.sasl.jaas.config=\
  org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";
connections.max.reauth.ms=3600000
"""
"""Tokens without a signature. A connection ends with the token that opened it, unless it presents another one."""


def unsigned_token(seconds: float) -> tuple[str, float]:
    now = time.time()
    parts = ({"alg": "none"}, {"sub": "job", "iat": now, "exp": now + seconds})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{'.'.join(encoded)}.", now + seconds


def settings_with(new_token: Callable[[str], tuple[str, float]]) -> dict[str, object]:
    return {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": new_token}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose topic TOPIC holds SENT records."""
    with broker_with(TAKES_TOKENS, tmp_path_factory.mktemp("takes-tokens")) as address:
        fill(address)
        yield address


def fill(address: str) -> None:
    settings = {"bootstrap.servers": address, "log_level": 0, **settings_with(lambda _: unsigned_token(600))}
    admin = AdminClient(settings)
    deadline = time.monotonic() + 180
    while not answers(admin):
        assert time.monotonic() < deadline, "the broker does not answer"
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer(settings)
    for number in range(SENT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(30) == 0


def answers(admin: AdminClient) -> bool:
    try:
        return len(admin.list_topics(timeout=1).brokers) == 1
    except KafkaException:
        return False


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reader_outlives_its_tokens(servers: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it reads, across two ends of tokens, and after it was idle for longer than one lives."""
    given: list[float] = []

    def token(_: str) -> tuple[str, float]:
        given.append(time.monotonic())
        return unsigned_token(TOKEN_SECONDS)

    monkeypatch.setattr("frazil.adapters.kafka.topics.for_this_process", lambda _: settings_with(token))
    everything = OffsetRange(TOPIC, 0, 0, SENT, partition_end=SENT, max_bytes=1 << 20)
    plain = OptionalFields(timestamp_type=False, leader_epoch=False)
    with closing(KafkaReader({"bootstrap.servers": servers, "aws_msk_iam": "true"}, engine=engine)) as reader:
        began = time.monotonic()
        while time.monotonic() < began + 2.2 * TOKEN_SECONDS:
            assert sum(map(len, chain.from_iterable(reader.read([everything], plain)))) == SENT
            time.sleep(0.1)
        before_idle = len(given)
        time.sleep(1.2 * TOKEN_SECONDS)
        assert sum(map(len, chain.from_iterable(reader.read([everything], plain)))) == SENT

    assert before_idle >= 3
    assert len(given) > before_idle
