from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from frazil.adapters.kafka.msk_iam import new_token, region_of
from frazil.adapters.kafka.topics import consumer_settings, librdkafka
from frazil.model.errors import BrokerError, SettingError
from frazil.model.spec import SettingValue

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
