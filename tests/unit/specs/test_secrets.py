"""Secrets are read, and never shown."""

from __future__ import annotations

import logging
import traceback
from io import StringIO

import pytest
from config_files import GOOD, Load

from frazil.adapters.aws.secrets import REMEMBERED_SECONDS, SecretsManager
from frazil.cli import logs
from frazil.model.errors import Misuse, ServiceError
from frazil.model.secret import Secret

SETTINGS = """
kafka:
  bootstrap.servers: ${secret:cluster#host}
  security.protocol: sasl_ssl
  sasl.mechanism: PLAIN
  sasl.username: ${env:USER_NAME}
  sasl.password: hush-1
  ssl.key.password: ${env:PASSWORD}
schema_registry:
  url: http://localhost:8081
  basic.auth.user.info: me:${secret:cluster#password}
catalog:
  s3.secret-access-key: hush-4
  s3.region: ${secret:region}
"""
WORD = "hush"
SECRETS = {"cluster": '{"host": "hush-5:9092", "password": "hush-3"}', "region": "hush-6"}
ENV = {"USER_NAME": "me", "PASSWORD": "hush-2"}


def test_no_secret_is_in_what_settings_print(load: Load) -> None:
    settings = load(SETTINGS, env=ENV, secrets=SECRETS)

    for text in (repr(settings), str(settings), f"{settings}", f"{settings.kafka} {settings.catalog.properties}"):
        assert "hush" not in text
    assert str(settings.kafka["sasl.password"]) == "***"


def test_every_secret_can_be_read(load: Load) -> None:
    settings = load(SETTINGS, env=ENV, secrets=SECRETS)

    found = {**settings.kafka, **settings.registry.properties, **settings.catalog.properties}
    assert {name: value.reveal() for name, value in found.items() if isinstance(value, Secret)} == {
        "bootstrap.servers": "hush-5:9092",
        "sasl.password": "hush-1",
        "ssl.key.password": "hush-2",
        "basic.auth.user.info": "me:hush-3",
        "s3.secret-access-key": "hush-4",
        "s3.region": "hush-6",
    }


def test_no_secret_is_in_a_log(load: Load) -> None:
    settings = load(SETTINGS, env=ENV, secrets=SECRETS)
    stream = StringIO()
    logger = logging.Logger("jobs.test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.handlers[0].setFormatter(logs.EventFormatter())

    logger.warning(
        "connected",
        extra={
            "settings": settings,
            "kafka": settings.kafka,
            "secret": "hush",
            "sasl_password": "hush",
            "values": list(settings.kafka.values()),
        },
    )

    assert "hush" not in stream.getvalue()
    assert "settings=<Settings> kafka=<dict> secret=*** sasl_password=*** values=***," in stream.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        "sasl.password: [hush]",
        "sasl.password: {hush: x}",
        "sasl.password: hush${",
        "sasl.password: hush${hush}",
        "security.protocol: ${env:PASSWORD}",
        "security.protocol: ${secret:hidden}",
        "sasl.password: ${secret:hidden#key}",
    ],
)
def test_no_secret_is_in_an_error(load: Load, line: str) -> None:
    text = GOOD.replace("kafka: {bootstrap.servers: localhost:9092}", f"kafka:\n  bootstrap.servers: b\n  {line}")

    with pytest.raises(Misuse) as raised:
        load(text, env={"PASSWORD": WORD}, secrets={"hidden": WORD})

    assert "hush" not in "".join(traceback.format_exception(raised.value))


def test_a_secret_without_the_key_names_the_keys_that_it_has(load: Load) -> None:
    text = GOOD.replace("localhost:9092", "'${secret:cluster#nme}'")

    with pytest.raises(Misuse) as raised:
        load(text, secrets=SECRETS)

    assert str(raised.value) == (
        "frazil.yaml:1:28: kafka.bootstrap.servers: the secret cluster has no key nme\n\nhint: its keys: host, password"
    )


class AwsClient:
    """Answers as boto3's client does."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, 0

    def get_secret_value(self, *, SecretId: str) -> object:  # noqa: N803 - AWS's name
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def refusal(code: str) -> Exception:
    from botocore.exceptions import ClientError  # noqa: PLC0415 - slow

    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")


def test_a_secret_is_asked_for_once() -> None:
    client = AwsClient({"SecretString": "text"})
    manager = SecretsManager(client)

    assert [manager.read("name"), manager.read("name")] == ["text", "text"]
    assert client.asked == 1


def test_a_secret_may_have_rotated_and_is_asked_for_again_after_a_while() -> None:
    client, now = AwsClient({"SecretString": "text"}), [0.0]
    manager = SecretsManager(client, lambda: now[0])
    manager.read("name")
    client.answer = {"SecretString": "rotated"}

    now[0] = REMEMBERED_SECONDS - 1
    assert manager.read("name") == "text"
    now[0] += 1
    assert manager.read("name") == "rotated"


def test_a_secret_that_aws_does_not_have_is_none() -> None:
    assert SecretsManager(AwsClient(refusal("ResourceNotFoundException"))).read("name") is None


def test_a_refusal_by_aws_is_not_taken_for_a_missing_secret() -> None:
    with pytest.raises(ServiceError, match="could not read the secret name from AWS Secrets Manager"):
        SecretsManager(AwsClient(refusal("AccessDeniedException"))).read("name")
