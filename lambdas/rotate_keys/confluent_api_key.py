"""API keys of a service account of Confluent Cloud: any number may be valid at once, and each takes minutes to work.

A new key is made in Confluent Cloud, which tells its secret once; so it is stored before it is waited for. It bears the
version that it was made for in its name: one that was made and never stored is known by it, and deleted after another
was stored for the same version, since from then on nothing can store it. After the promotion the oldest keys beyond the
number to retain go: first those that no version of the secret holds, and never one that a labelled version holds.

The secret: JSON with two fields for each part that the account's keys open, as shared/accounts.py has them. A rotation
makes a new key for each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from frazil.model.errors import ServiceError
from frazil.model.secret import Secret
from lambdas.rotate_keys.errors import NotProvenError
from lambdas.rotate_keys.rotation import Facts, Versions
from shared.accounts import PARTS, PURPOSES, Part, key_field, key_name, secret_field
from shared.confluent_api import ADDRESS, ApiKey, ConfluentCloud, KeyPair, NewKey
from shared.naming import Account

LOOK_SECONDS = 2.0
TIMES_IN_A_ROW = 3
"""How many times in a row a new key must work, because brokers learn about it one by one."""
MARK = 8
"""How many letters of a version a key's name ends with."""

Pairs = Mapping[Part, KeyPair]


@dataclass(frozen=True, slots=True)
class FlinkRegion:
    """A region of Flink; empty where no account has a key for it."""

    id: str = ""
    environment_id: str = ""
    statements_url: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What keys open: a Kafka cluster, its schema registry and its region of Flink."""

    cluster_id: str
    kafka_rest_endpoint: str
    registry_id: str
    registry_url: str
    flink: FlinkRegion = FlinkRegion()

    def resource(self, part: Part) -> str:
        return {
            "kafka": self.cluster_id,
            "registry": self.registry_id,
            "tableflow": "tableflow",
            "flink": self.flink.id,
        }[part]

    def is_opened_by(self, part: Part, resource: str) -> bool:
        """Return whether a key for this resource opens the part.

        Confluent's API lists a key for Flink with the region, or with environment and region, as
        env-1.aws.us-east-1.
        """
        found, wanted = resource.lower(), self.resource(part).lower()
        return found == wanted or (part == "flink" and found == f"{self.flink.environment_id}.{wanted}".lower())

    def probe_url(self, part: Part) -> str:
        """Return a URL that shows whether a key of this part is valid, with or without permissions."""
        topics = f"{self.kafka_rest_endpoint}/kafka/v3/clusters/{self.cluster_id}/topics"
        regions = f"{ADDRESS}/tableflow/v1/regions"
        subjects = f"{self.registry_url}/subjects"
        return {"kafka": topics, "registry": subjects, "tableflow": regions, "flink": self.flink.statements_url}[part]


@dataclass(frozen=True, slots=True)
class Waiting:
    """`left_seconds`: how long the function may still wait."""

    left_seconds: Callable[[], float]
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class ConfluentApiKey:
    """The keys of `account`, which is `owner` in Confluent Cloud. `retained`: how many of each part stay valid."""

    environment: str
    account: Account
    owner: str
    cluster: Cluster
    cloud: ConfluentCloud
    retained: int
    waiting: Waiting

    @property
    def parts(self) -> tuple[Part, ...]:
        return PARTS[self.account]

    def holds_key(self, value: Secret) -> bool:
        return set(self._pairs(value)) >= set(self.parts)

    def is_known(self, value: Secret) -> bool:
        """Keys are deleted with their cluster, and by hand; the next cluster takes others."""
        found = {part: self.cloud.find_key(pair.key) for part, pair in self._pairs(value).items()}
        return all(key is not None and self._is_of_here(part, key) for part, key in found.items())

    def make(self, *, version: str, current: Secret | None) -> Secret:
        """Make a new key for each part; other fields of the secret are kept."""
        fields = {} if current is None else dict(_fields(current))
        for part in self.parts:
            pair = self._made(part, version)
            fields |= {key_field(part): pair.key, secret_field(part): pair.secret.reveal()}
        return Secret(json.dumps(fields))

    def tidy(self, *, version: str, kept: Sequence[Secret]) -> Facts:
        held = self._ids(kept)
        names = {self._name_for(part, version) for part in self.parts}
        keys = self.cloud.keys_of(self.owner)
        ours = (key for part in self.parts for key in self._ours(part, keys))
        return self._delete([key.id for key in ours if key.name in names and key.id not in held])

    def discard(self, made: Secret) -> Facts:
        return self._delete([pair.key for pair in self._pairs(made).values()])

    def install(self, versions: Versions) -> Facts:
        """Return the key's public facts; Confluent Cloud needs no installation of a key that it made."""
        return self.public(versions.new)

    def prove(self, new: Secret) -> Facts:
        """Wait until every part's key worked several times in a row, or the time is up; a retry continues."""
        pairs = self._pairs(new)
        worked = dict.fromkeys(self.parts, 0)
        trouble: dict[Part, str] = {}
        while True:
            for part in self.parts:
                works = self._works(part, pairs[part], trouble) if worked[part] < TIMES_IN_A_ROW else True
                worked[part] = worked[part] + 1 if works else 0
            if min(worked.values(), default=TIMES_IN_A_ROW) >= TIMES_IN_A_ROW:
                return self.public(new)
            if self.waiting.left_seconds() <= LOOK_SECONDS:
                raise self._not_proven(pairs, trouble)
            self.waiting.sleep(LOOK_SECONDS)

    def retire(self, versions: Versions) -> Facts:
        """Keys of the same account and part that bear our name; never those of others."""
        labelled = [each for each in (versions.new, versions.previous, versions.pending) if each is not None]
        protected, usable = self._ids(labelled), self._ids([*labelled, *versions.older()])
        keys = self.cloud.keys_of(self.owner)
        surplus = [key for part in self.parts for key in self._surplus(part, keys, protected, usable)]
        if surplus:
            versions.confirm()
        return {**self.public(versions.new), **self._delete([key.id for key in surplus])}

    def revoke(self, versions: Versions) -> Facts:
        """Delete every other key that bears our name; report the account's remaining keys in `left`.

        Those may be an attacker's or a colleague's: the Cloud API key can make keys of any name for the account.
        """
        kept = self._ids([versions.new])
        keys = self.cloud.keys_of(self.owner)
        others = [key.id for part in self.parts for key in self._ours(part, keys) if key.id not in kept]
        foreign = [key for key in keys if key.id not in {*kept, *others}]
        versions.confirm()
        left = "; ".join(map(described, foreign))
        return {**self.public(versions.new), **self._delete(others), **({"left": left} if left else {})}

    def public(self, value: Secret) -> Facts:
        return {key_field(part): pair.key for part, pair in self._pairs(value).items()}

    def installed(self, current: Secret | None) -> Facts:
        """Return the public facts of the current key; there is nothing to install."""
        return {} if current is None else self.public(current)

    def _ids(self, values: Sequence[Secret]) -> set[str]:
        return {pair.key for value in values for pair in self._pairs(value).values()}

    def _pairs(self, value: Secret) -> Pairs:
        """The parts of this account that a value has both fields of."""
        fields = _fields(value)
        return {
            part: KeyPair(fields[key_field(part)], Secret(fields[secret_field(part)]))
            for part in self.parts
            if key_field(part) in fields and secret_field(part) in fields
        }

    def _made(self, part: Part, version: str) -> KeyPair:
        wanted = NewKey(
            name=self._name_for(part, version),
            description=f"{PURPOSES[self.account]}; rotates by itself",
            owner=self.owner,
            resource=self.cluster.resource(part),
            environment=self.cluster.flink.environment_id if part == "flink" else "",
        )
        return self.cloud.make_key(wanted)

    def _name(self, part: Part) -> str:
        return key_name(self.environment, self.account, part)

    def _name_for(self, part: Part, version: str) -> str:
        return f"{self._name(part)}-{version[:MARK]}"

    def _works(self, part: Part, pair: KeyPair, trouble: dict[Part, str]) -> bool:
        """A cluster that does not answer is as good as one that does not know the key yet."""
        trouble[part] = "the key is not accepted"
        try:
            is_known = self.cloud.is_known(pair, self.cluster.probe_url(part))
        except ServiceError as failed:
            trouble[part] = failed.what
            return False
        if is_known:
            del trouble[part]
        return is_known

    def _not_proven(self, pairs: Pairs, trouble: Mapping[Part, str]) -> NotProvenError:
        gone = [part for part in trouble if self.cloud.find_key(pairs[part].key) is None]
        told = "; ".join(f"{part}: {'it was deleted' if part in gone else why}" for part, why in trouble.items())
        hint = "Secrets Manager retries and keeps waiting"
        if gone:
            hint = "remove the label AWSPENDING from that version (update-secret-version-stage), then rotate again"
        return NotProvenError(f"The new API keys of {self.account} do not work yet: {told}", hint=hint)

    def _surplus(self, part: Part, keys: list[ApiKey], protected: Set[str], usable: Set[str]) -> list[ApiKey]:
        """Return the keys beyond the number to retain: those without a stored secret first, each the oldest first.

        A key that is younger than every key of a labelled version stays: the next rotation may be about to store it.
        """
        ours = self._ours(part, keys)
        newest = max((key.made_at for key in ours if key.id in protected), default="")
        spare = [key for key in ours if key.id not in protected and key.made_at <= newest]
        spare.sort(key=lambda key: (key.id in usable, key.made_at, key.id))
        return spare[: max(0, len(ours) - self.retained)]

    def _ours(self, part: Part, keys: list[ApiKey]) -> list[ApiKey]:
        """Return the keys that this function made: keys made by hand have other names."""
        name = self._name(part)
        named = [key for key in keys if key.name == name or key.name.startswith(f"{name}-")]
        return [key for key in named if self._is_of_here(part, key)]

    def _is_of_here(self, part: Part, key: ApiKey) -> bool:
        return key.owner == self.owner and self.cluster.is_opened_by(part, key.resource)

    def _delete(self, keys: list[str]) -> Facts:
        for key in keys:
            self.cloud.delete_key(key)
        return {"deleted": " ".join(keys)} if keys else {}


def described(key: ApiKey) -> str:
    """Return how a key that is not revoked is reported."""
    return f"{key.id} (named {key.name}, for {key.resource})"


def _fields(value: Secret) -> Mapping[str, str]:
    """Return the fields of a value, or none if it is not JSON written by the rotation."""
    try:
        fields = json.loads(value.reveal())
    except ValueError:
        return {}
    return {name: str(each) for name, each in fields.items()} if isinstance(fields, dict) else {}
