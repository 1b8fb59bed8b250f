"""What the handler reads from its event and environment, and what it logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from frazil.model.secret import Secret
from lambdas.rotate_keys.confluent_api_key import ConfluentApiKey, Waiting
from lambdas.rotate_keys.errors import DescriptionError
from lambdas.rotate_keys.handler import TOLD, answer
from lambdas.rotate_keys.rotation import Kind
from lambdas.rotate_keys.snowflake_rsa import SnowflakeRsa
from lambdas.rotate_keys.surroundings import Surroundings
from shared.confluent_api import ApiKey, ConfluentCloud
from tests.fakes.vault_in_memory import CURRENT, SecretInMemory, VaultInMemory

SETTINGS = {
    "FRAZIL_ENVIRONMENT": "dev",
    "SNOWFLAKE_ACCOUNT": "FRAZIL-DEV",
    "CONFLUENT_CLUSTER_ID": "lkc-1",
    "CONFLUENT_KAFKA_REST_ENDPOINT": "https://pkc-1.aws.confluent.cloud",
    "CONFLUENT_REGISTRY_ID": "lsrc-1",
    "CONFLUENT_REGISTRY_URL": "https://psrc-1.aws.confluent.cloud",
    "CONFLUENT_CLOUD_SECRET": "frazil/dev/cloud",
}
SNOWFLAKE = {"frazil-rotates": "snowflake_rsa", "frazil-user": "loader", "frazil-rotator-secret": "frazil/dev/rotator"}
CONFLUENT = {"frazil-rotates": "confluent_api_key", "frazil-account": "producer", "frazil-owner": "sa-1"}
CLOUD_KEY = '{"cloud_api_key": "K", "cloud_api_secret": "S"}'
WAITING = Waiting(lambda: 60.0, lambda _: None)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def kind_of(tags: dict[str, str], settings: dict[str, str] = SETTINGS, cloud: str | None = CLOUD_KEY) -> Kind:
    secrets = {"frazil/dev/cloud": cloud, "frazil/dev/rotator": "of the rotator"}

    def read(name: str) -> Secret | None:
        value = secrets[name]
        return None if value is None else Secret(value)

    return Surroundings(settings, read, WAITING).kind_of(tags)


def test_tags_say_whose_key_is_in_a_secret() -> None:
    snowflake, confluent = kind_of(SNOWFLAKE), kind_of(CONFLUENT)

    assert isinstance(snowflake, SnowflakeRsa)
    assert (snowflake.user, snowflake.bits, snowflake.account) == ("LOADER", 2048, "FRAZIL-DEV")
    assert snowflake.rotator is not None
    assert snowflake.rotator() == Secret("of the rotator")
    assert isinstance(confluent, ConfluentApiKey)
    assert (confluent.account, confluent.owner, confluent.retained) == ("producer", "sa-1", 2)


def test_a_user_without_a_rotator_rotates_itself() -> None:
    alone = kind_of({name: value for name, value in SNOWFLAKE.items() if "rotator" not in name})

    assert isinstance(alone, SnowflakeRsa)
    assert alone.rotator is None


@pytest.mark.parametrize(
    ("tags", "settings", "cloud", "words"),
    [
        ({}, {}, CLOUD_KEY, "has no tag frazil-rotates"),
        ({"frazil-rotates": "password"}, {}, CLOUD_KEY, "one of snowflake_rsa, confluent_api_key, found password"),
        ({"frazil-rotates": "snowflake_rsa"}, {}, CLOUD_KEY, "has no tag frazil-user"),
        (SNOWFLAKE, {"SNOWFLAKE_ACCOUNT": ""}, CLOUD_KEY, "no setting SNOWFLAKE_ACCOUNT"),
        (SNOWFLAKE, {"RSA_BITS": "1024"}, CLOUD_KEY, "RSA_BITS: expected 2048 or 4096, found 1024"),
        (SNOWFLAKE, {"FRAZIL_SNOWFLAKE_URL": "https://example.com"}, CLOUD_KEY, "expected a loopback address"),
        (CONFLUENT | {"frazil-account": "connector"}, {}, CLOUD_KEY, "must name an account with keys, found connector"),
        (CONFLUENT, {"KEYS_TO_RETAIN": "1"}, CLOUD_KEY, "a number of at least 2, found 1"),
        (CONFLUENT, {}, None, "holds no Cloud API key"),
        (CONFLUENT, {}, "whatever", "holds no Cloud API key"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    tags: dict[str, str], settings: dict[str, str], cloud: str | None, words: str
) -> None:
    with pytest.raises(DescriptionError, match=words) as refused:
        kind_of(tags, SETTINGS | settings, cloud)

    assert "deploy.sh create" in refused.value.hint


def invoked(client: Any, **event: Any) -> dict[str, str]:
    return dict(answer({"SecretId": "s", **event}, client=client, settings=SETTINGS, waiting=WAITING, now=NOW))


def test_the_first_key_is_answered_and_logged_without_the_private_half(capsys: pytest.CaptureFixture[str]) -> None:
    secret = SecretInMemory("s", {name: value for name, value in SNOWFLAKE.items() if "rotator" not in name})

    told = invoked(VaultInMemory(secret), Step="firstKey", tf={"action": "create"})

    logged = json.loads(capsys.readouterr().out)
    assert told.keys() == {"made", "user", "public_key", "fingerprint"}
    assert logged == {
        "event": "step_done",
        "step": "firstKey",
        "secret_id": "s",
        "secret": "s",
        "kind": "snowflake_rsa",
        "made": "yes",
        "user": "LOADER",
        "fingerprint": told["fingerprint"],
    }
    middle = secret.fields()["private_key"].splitlines()[5]
    assert middle not in json.dumps(told) + json.dumps(logged)


def test_an_invocation_that_terraform_undoes_leaves_the_key() -> None:
    assert invoked(VaultInMemory(), Step="firstKey", tf={"action": "delete"}) == {}


def test_a_key_that_does_not_work_yet_is_an_answer_and_no_failure_of_the_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure is an alarm, and `create` waits for the key."""
    secret = SecretInMemory("s", {name: value for name, value in SNOWFLAKE.items() if "rotator" not in name})

    told = invoked(VaultInMemory(secret), Step="proveKey")

    assert told["not_yet"] == "The secret s holds no key"
    assert "firstKey" in told["hint"]
    assert json.loads(capsys.readouterr().out)["event"] == "step_done"


def test_what_is_no_step_is_refused() -> None:
    secret = SecretInMemory("s", {name: value for name, value in SNOWFLAKE.items() if "rotator" not in name})

    with pytest.raises(DescriptionError, match="unknown step explode: expected one of createSecret"):
        invoked(VaultInMemory(secret), Step="explode", ClientRequestToken="t")


def test_a_step_that_fails_says_why_before_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DescriptionError):
        invoked(VaultInMemory(SecretInMemory("s", {})), Step="createSecret", ClientRequestToken="t")

    logged = json.loads(capsys.readouterr().out)
    assert logged.pop("why").startswith("The secret has no tag frazil-rotates")
    assert logged == {
        "event": "step_failed",
        "step": "createSecret",
        "secret_id": "s",
        "version": "t",
        "error": "DescriptionError",
    }


def test_ages_are_told_as_metrics_by_secret_and_for_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    young, old, empty = (SecretInMemory(name, {}) for name in ("young", "old", "empty"))
    young.put("one", "a key", [CURRENT])
    old.put("one", "a key", [CURRENT])
    vault = VaultInMemory(young, old, empty)
    vault.made = {"young": NOW - timedelta(hours=6), "old": NOW - timedelta(days=33)}

    told = invoked(vault, Step="tellAges", Secrets=["young", "old", "empty"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == {"young": "0.2", "old": "33.0"}
    assert [(line["Environment"], line["Secret"], line["KeyAgeDays"]) for line in lines] == [
        ("dev", "young", 0.25),
        ("dev", "old", 33.0),
    ]
    assert lines[0]["_aws"] == {
        "Timestamp": int(NOW.timestamp() * 1000),
        "CloudWatchMetrics": [
            {
                "Namespace": "Frazil",
                "Dimensions": [["Environment"], ["Environment", "Secret"]],
                "Metrics": [{"Name": "KeyAgeDays"}],
            }
        ],
    }


def test_only_known_fields_are_logged() -> None:
    assert not [name for name in TOLD if "secret" in name or "private" in name or name == "public_key"]
    assert CURRENT == "AWSCURRENT"


@pytest.mark.parametrize(("denials", "code", "done"), [(2, "AccessDeniedException", True), (99, "AccessDenied", False)])
def test_a_role_that_is_not_known_everywhere_yet_is_waited_for(denials: int, code: str, done: bool) -> None:
    secret = SecretInMemory("s", {name: value for name, value in SNOWFLAKE.items() if "rotator" not in name})
    slept: list[float] = []
    client = Denying(VaultInMemory(secret), denials, code)

    def invoke() -> Any:
        event = {"SecretId": "s", "Step": "firstKey"}
        return answer(event, client=client, settings=SETTINGS, waiting=Waiting(lambda: 60.0, slept.append), now=NOW)

    if done:
        assert invoke()["made"] == "yes"
        assert len(slept) == denials
    else:
        with pytest.raises(ClientError):
            invoke()
        assert sum(slept) == 60


def test_an_error_that_waiting_does_not_mend_is_not_waited_for() -> None:
    client = Denying(VaultInMemory(SecretInMemory("s", SNOWFLAKE)), 1, "ResourceNotFoundException")

    with pytest.raises(ClientError):
        invoked(client, Step="firstKey")

    assert client.denials == 0


class Denying:
    """A vault whose first descriptions are refused."""

    def __init__(self, vault: VaultInMemory, denials: int, code: str) -> None:
        self.vault, self.denials, self.code = vault, denials, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self.vault, name)

    def describe_secret(self, **asked: str) -> Any:
        if self.denials:
            self.denials -= 1
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, "DescribeSecret")
        return self.vault.describe_secret(**asked)


def test_keys_of_accounts_without_a_secret_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Cloud API key may have leaked, which can make a key for any account."""
    key = ApiKey(id="K1", name="totally-normal", owner="sa-9", resource="lkc-1", made_at="")
    monkeypatch.setattr(ConfluentCloud, "keys_of", lambda _, owner: [key] if owner == "sa-9" else [])
    vault = VaultInMemory(SecretInMemory("frazil/dev/cloud", {}))
    vault.secrets["frazil/dev/cloud"].put("one", CLOUD_KEY, [CURRENT])

    told = invoked(vault, Step="listKeys", Owners={"connector": "sa-9", "other": "sa-8"})

    assert told == {"connector": "K1 (named totally-normal, for lkc-1)"}
