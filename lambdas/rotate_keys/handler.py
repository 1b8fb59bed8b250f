"""Lambda's entry point: one step of a rotation, or what else there is to do with keys.

Secrets Manager sends `Step`, `SecretId` and `ClientRequestToken`. The deployment sends `SecretId` and

    {"Step": "firstKey"}        makes the key of an empty secret; a secret that has one which can work keeps it
    {"Step": "proveKey"}        uses the current key, and waits for one of Confluent Cloud, `AtMostSeconds` long: that
                                one does not work yet is an answer, `not_yet`, and no failure
    {"Step": "installedKeys"}   what the service should hold so that the current key works, for Terraform
    {"Step": "revokeOthers"}    proves the current key, and takes every other one out of use: one of them has leaked

or `{"Step": "listKeys", "Owners": {"connector": "sa-1", …}}`, for the API keys of accounts that should have none;
and a schedule sends `{"Step": "tellAges", "Secrets": ["name", …]}`, for a metric of how old keys are.

For a user of Snowflake `installedKeys` answers with the public keys by their slots, which Terraform asks for at each
plan (`data.aws_lambda_invocation`): what the user has, as long as its current key works, so that a rotation is no
difference; else the current public half, which heals a user or a secret that was made again. If Snowflake cannot be
asked, the step fails, and the plan with it. It travels as the answer of an invocation rather than as a tag or a
parameter: a tag takes 256 letters, of which a key has 392; and no further role needs to read the secret.

What is printed is a line of JSON a step, ids and fingerprints from a list of known fields; or why it failed.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lambdas.rotate_keys.ages import ages
from lambdas.rotate_keys.confluent_api_key import Waiting
from lambdas.rotate_keys.errors import NotProvenError
from lambdas.rotate_keys.rotation import Facts, Rotation, step_of
from lambdas.rotate_keys.surroundings import Surroundings
from lambdas.rotate_keys.vault import Vault
from shared.secret_tags import KIND_TAG

SPARE_SECONDS = 15.0
"""What is left of the function's time when it gives up waiting, to say so itself rather than be cut off."""

DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
TRIES, PAUSE_SECONDS = 12, 5.0

IDS = ("kafka_api_key", "registry_api_key", "tableflow_api_key", "flink_api_key")
TOLD = ("made", "user", "slot", "fingerprint", "deleted", "left", "not_yet", *IDS)
"""The facts that may be logged."""


def handler(event: Mapping[str, Any], context: Any) -> dict[str, str]:
    """Carry out the step in the event. Raises every failure, so that Secrets Manager and the alarm see it."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - the tests bring their own client

    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        os.environ["HOME"] = tempfile.gettempdir()  # all that Lambda lets write to, for the connector's caches
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    deadline = min(deadline, time.monotonic() + float(event.get("AtMostSeconds", "inf")))
    waiting = Waiting(lambda: deadline - time.monotonic())
    client = boto3.client("secretsmanager")
    return dict(answer(event, client=client, settings=os.environ, waiting=waiting, now=datetime.now(UTC)))


def answer(
    event: Mapping[str, Any], *, client: Any, settings: Mapping[str, str], waiting: Waiting, now: datetime
) -> Facts:
    """Carry out the step in the event, independently of Lambda. `client` is boto3's for Secrets Manager."""
    if event.get("tf", {}).get("action") == "delete":
        return {}
    if event["Step"] == "tellAges":
        return _tell_ages([Vault(client, name) for name in event["Secrets"]], settings, now)
    if event["Step"] == "listKeys":
        return _surroundings(client, settings, waiting).keys_of(event["Owners"])
    try:
        return _when_allowed(lambda: _take(event, client, settings, waiting), waiting)
    except Exception as failed:
        _say(event, {"event": "step_failed", "error": type(failed).__name__, "why": str(failed)})
        raise


def _when_allowed(act: Callable[[], Facts], waiting: Waiting) -> Facts:
    """Try again for a minute while access is denied: it takes IAM seconds to know a role's policy everywhere.

    Each step may be repeated.
    """
    for _ in range(TRIES):
        try:
            return act()
        except Exception as failed:
            code = getattr(failed, "response", {}).get("Error", {}).get("Code", "")
            if code not in DENIED or waiting.left_seconds() < PAUSE_SECONDS:
                raise
            waiting.sleep(PAUSE_SECONDS)
    return act()


def _take(event: Mapping[str, Any], client: Any, settings: Mapping[str, str], waiting: Waiting) -> Facts:
    vault = Vault(client, event["SecretId"])
    described = vault.describe()
    rotation = Rotation(vault, _surroundings(client, settings, waiting).kind_of(described.tags))
    facts = _done(rotation, event)
    known = {name: facts[name] for name in TOLD if name in facts}
    _say(event, {"event": "step_done", "secret": described.name, "kind": described.tags[KIND_TAG], **known})
    return facts


def _surroundings(client: Any, settings: Mapping[str, str], waiting: Waiting) -> Surroundings:
    return Surroundings(settings, lambda name: Vault(client, name).current(), waiting)


def _tell_ages(vaults: list[Vault], settings: Mapping[str, str], now: datetime) -> Facts:
    found = ages(vaults, now)
    for age in found:
        print(age.line(settings["FRAZIL_ENVIRONMENT"], now))
    return {age.secret: f"{age.days:.1f}" for age in found}


def _done(rotation: Rotation, event: Mapping[str, Any]) -> Facts:
    match event["Step"]:
        case "firstKey":
            return rotation.first_key()
        case "proveKey":
            return _proven(rotation)
        case "installedKeys":
            return rotation.installed_keys()
        case "revokeOthers":
            return rotation.revoke_others()
        case step:
            return rotation.take(step_of(step), event["ClientRequestToken"])


def _proven(rotation: Rotation) -> Facts:
    """A failure of the function is an alarm, and who asks for this waits by intention."""
    try:
        return rotation.prove_current()
    except NotProvenError as not_yet:
        return {"not_yet": not_yet.what, "hint": not_yet.hint}


def _say(event: Mapping[str, Any], said: Mapping[str, str]) -> None:
    version = {"version": event["ClientRequestToken"]} if "ClientRequestToken" in event else {}
    print(json.dumps({**said, "step": event["Step"], "secret_id": event["SecretId"], **version}))
