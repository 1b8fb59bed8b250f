"""The step of `create` that has API keys made and proven, and that of `delete` that takes them away.

Keys are born in the function that rotates them, which stores a key before it is waited for. From here goes only the
Cloud API key that makes others, into a secret of its own. Whatever ends the step, the next run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.model.spec import Secret
from infra.confluent_api import ConfluentCloud, KeyPair
from infra.deploy.key_secrets import read_keys, write_cloud_key
from infra.deploy.rotation_function import FunctionFailedError, NotYetError, RotationFunction
from infra.deploy.side_by_side import side_by_side
from infra.naming import Account, cloud_secret_name, secret_name

PATIENCE_SECONDS = 900.0
LOOK_SECONDS = 60.0
"""How long the function waits each time, before it is told here how far it is."""
FIRST_PAUSE_SECONDS = 5.0
NOT_ALLOWED_YET = "AccessDenied"
"""A role that was made a moment ago is not known everywhere."""

Tell = Callable[[str], None]
"""Takes a line for people, which never holds a secret."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How time is told and spent; the clock counts seconds."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


SLEEPING = Waiting()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an environment. `secrets` by account, `vault` is boto3's client of Secrets Manager."""

    environment: str
    secrets: Mapping[Account, str]
    function: RotationFunction
    vault: Any
    tell: Tell
    waiting: Waiting = SLEEPING

    def make(self, cloud_key: KeyPair) -> int:
        """A working key for each account and part, in its secret; how many accounts got theirs now.

        Raises ServiceError; another run goes on.
        """
        if write_cloud_key(self.vault, cloud_secret_name(self.environment), cloud_key):
            self.tell("keys: the Cloud API key is stored")
        calls = [partial(self._make, account, name) for account, name in self.secrets.items()]
        return sum(side_by_side(calls))

    def _make(self, account: Account, secret: str) -> bool:
        """Whether the key is new."""
        deadline = self.waiting.clock() + PATIENCE_SECONDS
        made = self._patiently(account, deadline, lambda: self.function.first_key(secret))
        ids = ", ".join(key for name, key in made.items() if name.endswith("_api_key"))
        is_new = made["made"] == "yes"
        self.tell(f"{account}: {'made' if is_new else 'has'} {ids}")
        self._patiently(account, deadline, lambda: self.function.prove_key(secret, at_most_seconds=LOOK_SECONDS))
        return is_new

    def _patiently(self, account: Account, deadline: float, ask: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """Again while it fails for what passes by itself."""
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
    """All keys of all accounts, whoever made them: the accounts go too. How many there were."""
    keys = [key for owner in owners for key in cloud.keys_of(owner)]
    for key in keys:
        cloud.delete_key(key.id)
        tell(f"deleted the key {key.name} ({key.id})")
    return len(keys)


def tableflow_variables(vault: Any, environment: str) -> dict[str, Secret]:
    """By which Confluent's provider gets the key that Tableflow asks for; so it is in no file, and in no state."""
    pair = read_keys(vault, secret_name(environment, "tableflow")).get("tableflow")
    return {} if pair is None else {"TABLEFLOW_API_KEY": Secret(pair.key), "TABLEFLOW_API_SECRET": pair.secret}
