"""What is rotated, read once at the edge: tags of the secret, and settings of the function.

The tags say whose key is in a secret; Terraform sets them where it makes the secret, so that a further user is one more
secret and the function stays as it is. The settings are what all secrets of an environment share, and are no secrets
either: where a secret is needed to rotate another (the Cloud API key, the rotator's key), they say its name.

    setting                     meaning
    FRAZIL_ENVIRONMENT          the environment
    SNOWFLAKE_ACCOUNT           the account's name, ORGANIZATION-ACCOUNT
    RSA_BITS                    2048 unless said otherwise, or 4096
    CONFLUENT_CLUSTER_ID, CONFLUENT_KAFKA_REST_ENDPOINT, CONFLUENT_REGISTRY_ID, CONFLUENT_REGISTRY_URL
    CONFLUENT_ENVIRONMENT_ID, CONFLUENT_FLINK_REGION_ID, CONFLUENT_FLINK_STATEMENTS_URL   where an account has a key
                                for Flink
    CONFLUENT_CLOUD_SECRET      the secret with the Cloud API key: JSON with cloud_api_key and cloud_api_secret
    KEYS_TO_RETAIN              how many API keys of each part stay valid, 2 or more; 2 unless said otherwise
    FRAZIL_SNOWFLAKE_URL, FRAZIL_CONFLUENT_URL   doubles, on loopback only
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

from frazil.model.loopback import is_loopback
from frazil.model.secret import Secret
from lambdas.rotate_keys.confluent_api_key import Cluster, ConfluentApiKey, FlinkRegion, Waiting, described
from lambdas.rotate_keys.errors import DescriptionError
from lambdas.rotate_keys.rotation import Kind
from lambdas.rotate_keys.snowflake_rsa import SnowflakeRsa
from shared.accounts import PARTS
from shared.confluent_api import ConfluentCloud, KeyPair, address_from_environment
from shared.doubles import SNOWFLAKE_URL
from shared.naming import Account
from shared.secret_tags import ACCOUNT_TAG, KIND_TAG, OWNER_TAG, ROTATOR_TAG, USER_TAG
from shared.snowflake_login import SnowflakeClient

KindName = Literal["snowflake_rsa", "confluent_api_key"]

RSA_SIZES = ("2048", "4096")
FEWEST_KEYS = 2
"""The current key and the one before, which works on while clients still use it."""
APPLY_HINT = "run `scripts/deploy.sh create`, which sets the tags of secrets and the settings of the function"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`settings`: the environment variables. `read` gives the current value of another secret, by its name."""

    settings: Mapping[str, str]
    read: Callable[[str], Secret | None]
    waiting: Waiting

    def kind_of(self, tags: Mapping[str, str]) -> Kind:
        """Return the kind of key in the tags. Raises DescriptionError if a tag or setting is missing or wrong."""
        match _kind_name(tags):
            case "snowflake_rsa":
                return self._snowflake_rsa(tags)
            case "confluent_api_key":
                return self._confluent_api_key(tags)
            case never:
                assert_never(never)

    def keys_of(self, owners: Mapping[str, str]) -> dict[str, str]:
        """Return the API keys of service accounts that should not have any, as text by account; `owners` are ids.

        Raises DescriptionError if the Cloud API key is missing.
        """
        cloud = self._cloud()
        found = {account: cloud.keys_of(owner) for account, owner in owners.items()}
        return {account: "; ".join(map(described, keys)) for account, keys in found.items() if keys}

    def _snowflake_rsa(self, tags: Mapping[str, str]) -> SnowflakeRsa:
        account, rotator = self._setting("SNOWFLAKE_ACCOUNT"), tags.get(ROTATOR_TAG)
        bits = self.settings.get("RSA_BITS", RSA_SIZES[0])
        if bits not in RSA_SIZES:
            raise DescriptionError(f"RSA_BITS: expected {' or '.join(RSA_SIZES)}, found {bits}", hint=APPLY_HINT)
        return SnowflakeRsa(
            account=account,
            user=_tag(tags, USER_TAG).upper(),
            bits=int(bits),
            client=SnowflakeClient(account, self._snowflake_address()),
            rotator=None if rotator is None else lambda: self.read(rotator),
            sleep=self.waiting.sleep,
        )

    def _confluent_api_key(self, tags: Mapping[str, str]) -> ConfluentApiKey:
        retained = self.settings.get("KEYS_TO_RETAIN", "2")
        if not retained.isdecimal() or int(retained) < FEWEST_KEYS:
            raise DescriptionError(
                f"KEYS_TO_RETAIN: expected a number of at least {FEWEST_KEYS}, found {retained}", hint=APPLY_HINT
            )
        account = _account(tags)
        return ConfluentApiKey(
            environment=self._setting("FRAZIL_ENVIRONMENT"),
            account=account,
            owner=_tag(tags, OWNER_TAG),
            cluster=Cluster(
                cluster_id=self._setting("CONFLUENT_CLUSTER_ID"),
                kafka_rest_endpoint=self._setting("CONFLUENT_KAFKA_REST_ENDPOINT"),
                registry_id=self._setting("CONFLUENT_REGISTRY_ID"),
                registry_url=self._setting("CONFLUENT_REGISTRY_URL"),
                flink=self._flink_region() if "flink" in PARTS[account] else FlinkRegion(),
            ),
            cloud=self._cloud(),
            retained=int(retained),
            waiting=self.waiting,
        )

    def _flink_region(self) -> FlinkRegion:
        return FlinkRegion(
            id=self._setting("CONFLUENT_FLINK_REGION_ID"),
            environment_id=self._setting("CONFLUENT_ENVIRONMENT_ID"),
            statements_url=self._setting("CONFLUENT_FLINK_STATEMENTS_URL"),
        )

    def _cloud(self) -> ConfluentCloud:
        return ConfluentCloud(self._cloud_key(), address=address_from_environment(self.settings))

    def _cloud_key(self) -> KeyPair:
        name = self._setting("CONFLUENT_CLOUD_SECRET")
        value = self.read(name)
        try:
            fields = json.loads(value.reveal() if value else "")
            return KeyPair(fields["cloud_api_key"], Secret(fields["cloud_api_secret"]))
        except (ValueError, KeyError, TypeError):
            raise DescriptionError(
                f"The secret {name} holds no Cloud API key: expected cloud_api_key and cloud_api_secret",
                hint=APPLY_HINT + " and stores the given Cloud API key",
            ) from None

    def _snowflake_address(self) -> str | None:
        address = self.settings.get(SNOWFLAKE_URL)
        if address and not is_loopback(address):
            raise DescriptionError(f"{SNOWFLAKE_URL}: expected a loopback address, found {address}", hint=APPLY_HINT)
        return address or None

    def _setting(self, name: str) -> str:
        value = self.settings.get(name)
        if not value:
            raise DescriptionError(f"The function has no setting {name}", hint=APPLY_HINT)
        return value


def _kind_name(tags: Mapping[str, str]) -> KindName:
    found = _tag(tags, KIND_TAG)
    for name in get_args(KindName):
        if name == found:
            known: KindName = name
            return known
    kinds = ", ".join(get_args(KindName))
    raise DescriptionError(f"The tag {KIND_TAG} must be one of {kinds}, found {found}", hint=APPLY_HINT)


def _account(tags: Mapping[str, str]) -> Account:
    found = _tag(tags, ACCOUNT_TAG)
    for account, parts in PARTS.items():
        if account == found and parts:
            return account
    raise DescriptionError(f"The tag {ACCOUNT_TAG} must name an account with keys, found {found}", hint=APPLY_HINT)


def _tag(tags: Mapping[str, str], name: str) -> str:
    value = tags.get(name)
    if not value:
        raise DescriptionError(f"The secret has no tag {name}, which says what to rotate", hint=APPLY_HINT)
    return value
