"""The step of `create` that makes API keys and stores them in AWS Secrets Manager, and that of `delete`.

A key is stored before it is waited for: Confluent Cloud tells its secret once, and takes minutes until the key works.
A run that ends between making and storing leaves an orphan, which the next run knows by its name and deletes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from infra.accounts import PARTS, PURPOSES, Part, key_name
from infra.confluent_api import ADDRESS, ConfluentCloud, KeyPair, NewKey
from infra.deploy.key_secrets import read_keys, write_keys
from infra.naming import Account, secret_name
from jobs.model.errors import ServiceError, SettingError
from jobs.model.spec import Secret

LOOK_SECONDS = 5.0
PATIENCE_SECONDS = 900.0
TIMES_IN_A_ROW = 3
"""How often a new key must work before it is believed: brokers learn of it one after the other."""

Tell = Callable[[str], None]
"""Takes a line for people, which never holds a secret."""


@dataclass(frozen=True, slots=True)
class Confluent:
    """What the stack `confluent` made, as its outputs say. `accounts` are the ids of service accounts."""

    cluster_id: str
    kafka_rest_endpoint: str
    registry_id: str
    registry_url: str
    accounts: Mapping[Account, str]

    @staticmethod
    def of(outputs: Mapping[str, Any]) -> Confluent:
        """From the values of `terraform output`. Raises SettingError where the stack is not there yet."""
        try:
            return Confluent(
                cluster_id=outputs["cluster_id"],
                kafka_rest_endpoint=outputs["kafka_rest_endpoint"],
                registry_id=outputs["registry_id"],
                registry_url=outputs["registry_url"],
                accounts=cast("Mapping[Account, str]", outputs["service_accounts"]),
            )
        except KeyError as missing:
            raise SettingError(
                f"the stack confluent has no output {missing}", hint="run `scripts/deploy.sh create`, which applies it"
            ) from missing

    def resource(self, part: Part) -> str:
        """The id of what keys of this part open."""
        return {"kafka": self.cluster_id, "registry": self.registry_id, "tableflow": "tableflow"}[part]

    def door(self, part: Part) -> str:
        """An address that shows whether a key of this part works, whatever its account may do."""
        topics = f"{self.kafka_rest_endpoint}/kafka/v3/clusters/{self.cluster_id}/topics"
        regions = f"{ADDRESS}/tableflow/v1/regions"
        return {"kafka": topics, "registry": f"{self.registry_url}/subjects", "tableflow": regions}[part]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How time is told and spent; the clock counts seconds."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class _Trial:
    """A key that is tried until it worked often enough in a row; one that was there already has proven it before.

    A cluster that was just made may not even answer: `trouble` is what was wrong last, beside the key.
    """

    name: str
    door: str
    pair: KeyPair
    is_new: bool
    worked: int = 0
    trouble: str = "the key is not known there"

    @property
    def is_passed(self) -> bool:
        return self.worked >= (TIMES_IN_A_ROW if self.is_new else 1)

    def go_on(self, cloud: ConfluentCloud) -> None:
        try:
            self.worked = self.worked + 1 if cloud.is_known(self.pair, self.door) else 0
        except ServiceError as failed:
            self.worked, self.trouble = 0, failed.what


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an environment. `vault` is boto3's client of Secrets Manager."""

    environment: str
    confluent: Confluent
    cloud: ConfluentCloud
    vault: Any
    tell: Tell
    waiting: Waiting = Waiting()

    def make(self) -> tuple[str, ...]:
        """A working key for each account and part, in its secret; the names of those that were made now.

        Raises SettingError where the Cloud API key is refused, ServiceError for all else; another run goes on.
        """
        trials = [trial for account in self.confluent.accounts for trial in self._trials_of(account)]
        self._wait(trials)
        return tuple(trial.name for trial in trials if trial.is_new)

    def delete(self) -> tuple[str, ...]:
        """All keys of all accounts, whoever made them: the accounts go too. The names of those that were."""
        keys = [key for owner in self.confluent.accounts.values() for key in self.cloud.keys_of(owner)]
        for key in keys:
            self.cloud.delete_key(key.id)
            self.tell(f"deleted the key {key.name} ({key.id})")
        return tuple(key.name for key in keys)

    def _trials_of(self, account: Account) -> list[_Trial]:
        """Of the keys in its secret that still exist, and of new ones for those that do not."""
        wanted = {part: self._wanted(account, part) for part in PARTS[account]}
        if not wanted:
            return []
        secret = secret_name(self.environment, account)
        stored = read_keys(self.vault, secret)
        kept = {part: pair for part, pair in stored.items() if part in wanted and self._is_there(pair, wanted[part])}
        made = {part: self._made(key) for part, key in wanted.items() if part not in kept}
        if made:
            write_keys(self.vault, secret, {**kept, **made})
        keys = {**kept, **made}
        return [
            _Trial(key.name, self.confluent.door(part), keys[part], is_new=part in made) for part, key in wanted.items()
        ]

    def _wanted(self, account: Account, part: Part) -> NewKey:
        return NewKey(
            name=key_name(self.environment, account, part),
            description=f"{PURPOSES[account]}; in the secret {secret_name(self.environment, account)}",
            owner=self.confluent.accounts[account],
            resource=self.confluent.resource(part),
        )

    def _is_there(self, stored: KeyPair, wanted: NewKey) -> bool:
        """Whether Confluent Cloud still has a stored key, for the same account and cluster."""
        found = self.cloud.find_key(stored.key)
        return found is not None and wanted.opens_the_same(found)

    def _made(self, wanted: NewKey) -> KeyPair:
        for orphan in self.cloud.keys_of(wanted.owner):
            if orphan.name == wanted.name and wanted.opens_the_same(orphan):
                self.cloud.delete_key(orphan.id)
                self.tell(f"deleted the key {orphan.name} ({orphan.id}): nobody has its secret")
        made = self.cloud.make_key(wanted)
        self.tell(f"made the key {wanted.name} ({made.key})")
        return made

    def _wait(self, trials: Sequence[_Trial]) -> None:
        """Until all work, tried side by side."""
        deadline = self.waiting.clock() + PATIENCE_SECONDS
        while True:
            waited_for = [trial for trial in trials if not trial.is_passed]
            for trial in waited_for:
                trial.go_on(self.cloud)
            if all(trial.is_passed for trial in waited_for):
                return
            if self.waiting.clock() >= deadline:
                raise _not_working([trial for trial in waited_for if not trial.is_passed])
            self.tell(f"{sum(trial.is_passed for trial in trials)} of {len(trials)} keys work")
            self.waiting.sleep(LOOK_SECONDS)


def tableflow_variables(vault: Any, environment: str) -> dict[str, Secret]:
    """By which Confluent's provider gets the key that Tableflow asks for; so it is in no file, and in no state."""
    pair = read_keys(vault, secret_name(environment, "tableflow")).get("tableflow")
    return {} if pair is None else {"TABLEFLOW_API_KEY": Secret(pair.key), "TABLEFLOW_API_SECRET": pair.secret}


def _not_working(trials: Sequence[_Trial]) -> ServiceError:
    told = "; ".join(f"{trial.name}: {trial.trouble}" for trial in trials)
    return ServiceError(
        f"after {PATIENCE_SECONDS / 60:.0f} minutes {len(trials)} API keys do not work yet: {told}",
        hint="run `scripts/deploy.sh create` again: they are stored, and it goes on with waiting",
    )
