"""Lambda's entry point: one step of a rotation, or the first key of a secret.

Secrets Manager sends `Step`, `SecretId` and `ClientRequestToken`. Whoever sets up an environment sends `SecretId` and

    {"Step": "firstKey"}     makes the key of an empty secret; a secret that has one keeps it
    {"Step": "proveKey"}     uses the current key, and waits for one of Confluent Cloud to work

Both answer with what everybody may know of the key: for Snowflake `public_key`, the half that Terraform gives to the
user that it makes. It travels as the answer of an invocation (`aws_lambda_invocation`), rather than as a tag or a
parameter: a tag takes 256 letters, of which a key has 392, and is Terraform's own, so that every rotation would be a
difference; and nobody has to be allowed to read the secret for it. The answer stays the same until a rotation, and the
user's keys are ignored as changes after that.

What is printed is a line of JSON a step: ids and fingerprints, from a list of known fields.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from lambdas.rotate_keys.confluent_api_key import Waiting
from lambdas.rotate_keys.rotation import Facts, Rotation, step_of
from lambdas.rotate_keys.surroundings import KIND_TAG, Surroundings
from lambdas.rotate_keys.vault import Vault

SPARE_SECONDS = 15.0
"""What is left of the function's time when it gives up waiting, to say so itself rather than be cut off."""

TOLD = ("made", "user", "slot", "fingerprint", "deleted", "kafka_api_key", "registry_api_key", "tableflow_api_key")
"""The facts that may be logged."""


def handler(event: Mapping[str, Any], context: Any) -> dict[str, str]:
    """Raises whatever keeps the step from being done: Secrets Manager, and an alarm, take it for a failure."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - the tests bring their own client

    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        os.environ["HOME"] = tempfile.gettempdir()  # all that Lambda lets write to, for the connector's caches
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    waiting = Waiting(lambda: deadline - time.monotonic())
    facts = answer(event, client=boto3.client("secretsmanager"), settings=os.environ, waiting=waiting)
    return dict(facts)


def answer(event: Mapping[str, Any], *, client: Any, settings: Mapping[str, str], waiting: Waiting) -> Facts:
    """All of it but where it runs. `client` is boto3's of Secrets Manager."""
    if event.get("tf", {}).get("action") == "delete":
        return {}
    vault = Vault(client, event["SecretId"])
    described = vault.describe()
    surroundings = Surroundings(settings, lambda name: Vault(client, name).current(), waiting)
    rotation = Rotation(vault, surroundings.kind_of(described.tags))
    facts = _done(rotation, event)
    _tell(event, described.name, described.tags[KIND_TAG], facts)
    return facts


def _done(rotation: Rotation, event: Mapping[str, Any]) -> Facts:
    match event["Step"]:
        case "firstKey":
            return rotation.first_key()
        case "proveKey":
            return rotation.prove_current()
        case step:
            return rotation.take(step_of(step), event["ClientRequestToken"])


def _tell(event: Mapping[str, Any], secret: str, kind: str, facts: Facts) -> None:
    said = {"event": "step_done", "step": event["Step"], "secret": secret, "kind": kind}
    version = {"version": event["ClientRequestToken"]} if "ClientRequestToken" in event else {}
    print(json.dumps({**said, **version, **{name: facts[name] for name in TOLD if name in facts}}))
