"""Rotating now: begun by Secrets Manager's own call, waited for, and reported in the function's own words."""

from __future__ import annotations

import io
import json
import socket
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from frazil.model.errors import ServiceError, SettingError
from infra.components.key_rotation import SECONDS
from infra.deploy.keys.making import Waiting
from infra.deploy.keys.rotating import MOST_ABANDONED, MOST_FAILURES, Clouds, Rotating
from infra.deploy.keys.rotation_function import IDLE_OPTION, FunctionFailedError, RotationFunction, rotation_function
from shared import naming

SECRETS = {"producer": "frazil/dev/producer", "snowflake/loader": "frazil/dev/snowflake/loader"}
WHY = "Snowflake does not let ROTATOR set RSA_PUBLIC_KEY_2 of LOADER\n\nhint: GRANT MONITOR"


@dataclass
class Account:
    """Secrets Manager, Logs and Lambda, in which time passes by looking. `looks`: how often until a key is current."""

    looks: int = 2
    failures: int = 0
    unfinished: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    now: float = 0.0
    answer: dict[str, str] = field(default_factory=lambda: {"deleted": "OLD-ID"})
    put_back: int = 0
    throttled: bool = False
    looked_at_logs: int = 0

    def rotate_secret(self, *, SecretId: str, ClientRequestToken: str) -> dict[str, str]:  # noqa: N803
        self.asked.append(("rotate", SecretId))
        if SecretId in self.unfinished:
            self.pending[SecretId] = self.unfinished[SecretId]
            raise _refused("A previous rotation isn't complete. That rotation will be reattempted.")
        self.pending[SecretId] = ClientRequestToken
        return {"VersionId": ClientRequestToken}

    def describe_secret(self, *, SecretId: str) -> dict[str, Any]:  # noqa: N803
        if SecretId not in self.pending:
            return {"VersionIdsToStages": {"old": ["AWSCURRENT"]}}
        if self.now < self.looks:
            return {"VersionIdsToStages": {"old": ["AWSCURRENT"], self.pending[SecretId]: ["AWSPENDING"]}}
        return {"VersionIdsToStages": {"old": ["AWSPREVIOUS"], self.pending[SecretId]: ["AWSCURRENT"]}}

    def get_paginator(self, operation: str) -> Account:
        assert operation == "filter_log_events"
        return self

    def paginate(self, *, logGroupName: str, startTime: int) -> list[dict[str, Any]]:  # noqa: N803
        assert (logGroupName, startTime) == ("/aws/lambda/frazil-dev-rotate-keys", 1_000_000)
        self.looked_at_logs += 1
        if self.throttled:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "FilterLogEvents")
        version = next(iter(self.pending.values()))
        said = {"event": "step_failed", "step": "setSecret", "error": "RefusedError", "why": WHY}
        lines = ["START RequestId", json.dumps(said | {"version": "of another rotation"})]
        lines += [json.dumps(said | {"version": version})] * min(int(self.now), self.failures)
        return [{"events": [{"timestamp": number, "message": line} for number, line in enumerate(lines)]}]

    def invoke(self, *, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803
        assert FunctionName == "frazil-dev-rotate-keys"
        event = json.loads(Payload)
        self.asked.append((event["Step"], event.get("SecretId") or json.dumps(event["Owners"])))
        return {"Payload": io.BytesIO(json.dumps(self.answer).encode())}

    def update_secret_version_stage(self, *, SecretId: str, VersionStage: str, RemoveFromVersionId: str) -> None:  # noqa: N803
        assert VersionStage == "AWSPENDING"
        self.asked.append((f"abandon {RemoveFromVersionId}", SecretId))
        self.put_back -= 1
        del self.pending[SecretId]
        if self.put_back < 0:
            del self.unfinished[SecretId]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _refused(words: str) -> ClientError:
    return ClientError({"Error": {"Code": "InvalidRequestException", "Message": words}}, "RotateSecret")


def rotating(account: Account, said: list[str]) -> Rotating:
    function = RotationFunction("frazil-dev-rotate-keys", account)
    waiting = Waiting(lambda: account.now, account.sleep)
    return Rotating(SECRETS, Clouds(account, account, function), said.append, {}, waiting, lambda: 1000.0)


def test_all_keys_are_rotated_and_waited_for() -> None:
    account, said = Account(), list[str]()

    assert rotating(account, said).rotate(None, leaked=False) == 2

    assert set(account.asked) == {("rotate", name) for name in SECRETS.values()}
    assert sorted(said) == sorted(f"{word}: {what}" for word in SECRETS for what in ("rotating", "rotated"))


def test_one_key_is_rotated_alone() -> None:
    account = Account()

    assert rotating(account, []).rotate("producer", leaked=False) == 1
    assert account.asked == [("rotate", "frazil/dev/producer")]


def test_a_word_that_names_no_key_is_answered_with_those_that_do() -> None:
    with pytest.raises(SettingError, match="unknown key connector") as refused:
        rotating(Account(), []).rotate("connector", leaked=False)

    assert "producer, snowflake/loader" in refused.value.hint


@pytest.mark.parametrize("word", [None, "producer"])
def test_where_no_key_is_ours_that_is_said(word: str | None) -> None:
    nothing = replace(rotating(Account(), []), secrets={})

    with pytest.raises(SettingError, match="no key to rotate"):
        nothing.rotate(word, leaked=False)


def test_a_leaked_key_is_out_of_use_after_the_new_one_is_in() -> None:
    account, said = Account(), list[str]()

    rotating(account, said).rotate("producer", leaked=True)

    assert account.asked == [("rotate", "frazil/dev/producer"), ("revokeOthers", "frazil/dev/producer")]
    assert said[-1] == "producer: Frazil's other keys are revoked: OLD-ID"


def test_a_leak_never_adopts_a_key_that_was_being_made_when_it_leaked() -> None:
    account = Account(
        unfinished={"frazil/dev/producer": "begun-before"}, pending={"frazil/dev/producer": "begun-before"}
    )

    rotating(account, []).rotate("producer", leaked=True)

    assert account.asked == [
        ("abandon begun-before", "frazil/dev/producer"),
        ("rotate", "frazil/dev/producer"),
        ("revokeOthers", "frazil/dev/producer"),
    ]
    assert account.pending["frazil/dev/producer"] != "begun-before"


def leaking(put_back: int) -> Account:
    """A key was being made when it leaked, and the step that makes it puts the label back."""
    begun = {"frazil/dev/producer": "begun-before"}
    return Account(looks=100, unfinished=dict(begun), pending=dict(begun), put_back=put_back)


def test_a_leak_abandons_again_what_a_step_in_flight_puts_back() -> None:
    account = leaking(put_back=1)

    rotating(account, []).rotate("producer", leaked=True)

    assert [what for what, _ in account.asked] == ["abandon begun-before", "rotate"] * 2 + ["revokeOthers"]
    assert account.pending["frazil/dev/producer"] != "begun-before"


def test_a_leak_ends_where_it_is_put_back_again_and_again_and_nothing_is_adopted() -> None:
    account = leaking(put_back=1000)

    with pytest.raises(ServiceError, match="another rotation is in progress"):
        rotating(account, []).rotate("producer", leaked=True)

    assert [what for what, _ in account.asked] == ["abandon begun-before", "rotate"] * MOST_ABANDONED


def test_nine_secrets_ask_logs_less_often_than_the_quota_of_small_regions() -> None:
    account = Account(looks=60)

    rotating(account, []).rotate("producer", leaked=False)

    assert account.looked_at_logs / 60 * 9 < 5


def test_a_throttled_look_at_the_logs_ends_no_rotation_and_the_leaked_key_goes() -> None:
    account = Account(looks=20, throttled=True)

    rotating(account, []).rotate("producer", leaked=True)

    assert account.asked[-1] == ("revokeOthers", "frazil/dev/producer")


def test_logs_that_throttle_for_ever_are_waited_for_no_longer_than_half_an_hour() -> None:
    with pytest.raises(ServiceError, match="the function logged no failure"):
        rotating(Account(looks=10_000, throttled=True), []).rotate("producer", leaked=False)


def test_after_a_leak_the_rotator_is_first_and_alone() -> None:
    account = Account()
    with_rotator = replace(
        rotating(account, []), secrets={**SECRETS, "snowflake/rotator": "frazil/dev/snowflake/rotator"}
    )

    assert with_rotator.rotate(None, leaked=True) == 3

    rotator = "frazil/dev/snowflake/rotator"
    assert account.asked[:2] == [("rotate", rotator), ("revokeOthers", rotator)]
    assert {name for _, name in account.asked[2:]} == set(SECRETS.values())


def test_what_could_not_be_removed_is_told() -> None:
    account, said = Account(answer={"deleted": "A", "left": "key pair THEIRS: not allowed"}), list[str]()

    rotating(account, said).rotate("producer", leaked=True)

    assert (
        said[-1]
        == "warning: producer: these were not revoked; delete each that you do not know: key pair THEIRS: not allowed"
    )


def test_a_rotation_that_is_on_already_is_waited_for() -> None:
    account = Account(unfinished={"frazil/dev/producer": "begun-before"})

    assert rotating(account, []).rotate("producer", leaked=False) == 1


def test_a_failure_that_passes_is_told_and_waited_out() -> None:
    account, said = Account(looks=14, failures=2), list[str]()

    rotating(account, said).rotate("producer", leaked=False)

    assert len([line for line in said if line.startswith("producer: not yet: setSecret: RefusedError: Snowflake")]) == 2


def test_a_rotation_that_fails_again_and_again_ends_with_the_functions_words_and_revokes_nothing() -> None:
    account = Account(looks=1000, failures=MOST_FAILURES)

    with pytest.raises(ServiceError, match="producer was not rotated; the previous key still works: setSecret") as why:
        rotating(account, []).rotate("producer", leaked=True)

    assert why.value.hint.startswith("GRANT MONITOR")
    assert account.asked == [("rotate", "frazil/dev/producer")]


def test_a_function_that_says_nothing_is_waited_for_no_longer_than_half_an_hour() -> None:
    account = Account(looks=10_000)

    with pytest.raises(ServiceError, match="the function logged no failure"):
        rotating(account, []).rotate("producer", leaked=False)

    assert 1800 <= account.now <= 1805


def test_a_secret_that_does_not_rotate_says_what_switches_it_on() -> None:
    account = Account()
    account.rotate_secret = lambda **_: (_ for _ in ()).throw(_refused("No Lambda rotation function"))  # type: ignore[method-assign]

    with pytest.raises(ServiceError, match=r"cannot be rotated: .*No Lambda rotation function") as why:
        rotating(account, []).rotate("producer", leaked=False)

    assert "deploy.sh create" in why.value.hint


def test_the_function_is_given_all_of_its_time_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")  # else boto3 looks for credentials in the network

    config = rotation_function("frazil-dev-rotate-keys").client.meta.config

    assert config.read_timeout > SECONDS
    assert config.retries["total_max_attempts"] == 1


def test_a_step_that_takes_minutes_keeps_its_connection_through_nat_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")
    client = rotation_function("frazil-dev-rotate-keys").client

    pool = client._endpoint.http_session._manager.connection_from_url(client.meta.endpoint_url)
    with socket.socket() as opened:
        for option in pool._new_conn().socket_options:
            opened.setsockopt(*option)
        is_on = opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle_seconds = opened.getsockopt(socket.IPPROTO_TCP, IDLE_OPTION)

    assert is_on == 1
    assert idle_seconds < 350, "a NAT gateway drops a connection that is silent for 350 seconds"


def test_keys_of_accounts_that_should_have_none_are_warned_of_where_any_key_may_have_leaked() -> None:
    account, said = Account(answer={"connector": "K1 (named mine, for lkc-1)"}), list[str]()
    accounts: dict[naming.Account, str] = {"connector": "sa-9", "producer": "sa-1"}
    step = replace(rotating(account, said), accounts=accounts)

    step.rotate("producer", leaked=True)
    step.rotate(None, leaked=False)
    assert "listKeys" not in {asked for asked, _ in account.asked}

    step.rotate(None, leaked=True)

    assert account.asked[-1] == ("listKeys", '{"connector": "sa-9"}')
    assert said[-1] == (
        "warning: connector: Frazil makes no keys for it; delete each that you do not know: K1 (named mine, for lkc-1)"
    )


def test_a_function_of_an_earlier_release_that_cannot_list_keys_is_warned_of() -> None:
    class Earlier(RotationFunction):
        def list_keys(self, owners: object) -> dict[str, str]:
            raise FunctionFailedError("listKeys of all secrets: KeyError: 'SecretId'", hint="-", error="KeyError")

    account, said = Account(), list[str]()
    accounts: dict[naming.Account, str] = {"connector": "sa-9"}
    step = replace(rotating(account, said), accounts=accounts)
    step = replace(step, clouds=replace(step.clouds, function=Earlier("frazil-dev-rotate-keys", account)))

    step.rotate(None, leaked=True)

    assert "run `scripts/deploy.sh create`, which updates it" in said[-1]
