"""Create and test API keys during `create`, and delete them during `delete`.

The rotation function creates the keys and stores each one before it is tested. This step only stores the Cloud API
key, which creates the others, in a secret. An interrupted step resumes on the next run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.model.secret import Secret
from infra.deploy.keys.key_secrets import read_keys, write_cloud_key
from infra.deploy.keys.rotation_function import FunctionFailedError, NotYetError, RotationFunction
from infra.deploy.keys.side_by_side import side_by_side
from shared.confluent_api import ConfluentCloud, KeyPair
from shared.naming import Account, cloud_secret_name, secret_name

PATIENCE_SECONDS = 900.0
LOOK_SECONDS = 60.0
"""How long one call of the function waits for a key to work, before progress is printed."""
FIRST_PAUSE_SECONDS = 5.0
NOT_ALLOWED_YET = "AccessDenied"
"""A new IAM role takes a moment to be known everywhere in AWS."""

Tell = Callable[[str], None]
"""Prints a line of progress; the line never contains a secret."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The clock, in seconds, and the sleep function; tests replace both."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


SLEEPING = Waiting()


@dataclass(frozen=True, slots=True)
class Keys:
    """The API keys of an environment.

    `secrets` maps accounts to secret names; `vault` is a boto3 Secrets Manager client.
    """

    environment: str
    secrets: Mapping[Account, str]
    function: RotationFunction
    vault: Any
    tell: Tell
    waiting: Waiting = SLEEPING

    def make(self, cloud_key: KeyPair) -> int:
        """Store a working key for each account in its secret; return the number of accounts that got a new one.

        Raises ServiceError if a key cannot be created or does not work in time; a rerun resumes.
        """
        if write_cloud_key(self.vault, cloud_secret_name(self.environment), cloud_key):
            self.tell("keys: the Cloud API key is stored")
        calls = [partial(self._make, account, name) for account, name in self.secrets.items()]
        return sum(side_by_side(calls))

    def _make(self, account: Account, secret: str) -> bool:
        """Create and test the key of one account; return whether it is new."""
        deadline = self.waiting.clock() + PATIENCE_SECONDS
        made = self._patiently(account, deadline, lambda: self.function.first_key(secret))
        ids = ", ".join(key for name, key in made.items() if name.endswith("_api_key"))
        is_new = made["made"] == "yes"
        self.tell(f"{account}: {'made' if is_new else 'has'} {ids}")
        self._patiently(account, deadline, lambda: self.function.prove_key(secret, at_most_seconds=LOOK_SECONDS))
        return is_new

    def _patiently(self, account: Account, deadline: float, ask: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """Retry transient failures until the deadline."""
        while True:
            try:
                return ask()
            except FunctionFailedError as failed:
                passes = NOT_ALLOWED_YET in failed.what or isinstance(failed, NotYetError)
                if not passes or self.waiting.clock() >= deadline:
                    raise
                self.tell(f"{account}: not yet: {failed.what}")
                self.waiting.sleep(FIRST_PAUSE_SECONDS)


def delete_keys(cloud: ConfluentCloud, owners: Iterable[str], tell: Tell) -> int:
    """Delete all API keys of these accounts, including keys created by others; return their number."""
    keys = [key for owner in owners for key in cloud.keys_of(owner)]
    for key in keys:
        cloud.delete_key(key.id)
        tell(f"deleted the key {key.name} ({key.id})")
    return len(keys)


def tableflow_variables(vault: Any, environment: str) -> dict[str, Secret]:
    """Return the environment variables that pass the Tableflow key to the Confluent provider.

    Variables keep the key out of files and out of Terraform's state.
    """
    pair = read_keys(vault, secret_name(environment, "tableflow")).get("tableflow")
    return {} if pair is None else {"TABLEFLOW_API_KEY": Secret(pair.key), "TABLEFLOW_API_SECRET": pair.secret}


def flink_variables(vault: Any, environment: str, region: Mapping[str, str]) -> dict[str, Secret]:
    """Return the environment variables that pass the Flink key and its region to the Confluent provider.

    `region`: the variables without the key, {} if no statements run. The provider takes all of them or none.
    """
    pair = read_keys(vault, secret_name(environment, "flink")).get("flink")
    if pair is None or not region:
        return {}
    others = {name: Secret(value) for name, value in region.items()}
    return {**others, "FLINK_API_KEY": Secret(pair.key), "FLINK_API_SECRET": pair.secret}
