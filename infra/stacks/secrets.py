"""The secrets of keys, created empty, and the function that creates and rotates the keys.

The values never pass through Terraform, which would write them into its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.cdk import App, Output, Stack
from infra.components.backends import keep_state
from infra.components.kafka import Kafka, KeyHolders
from infra.components.key_rotation import NOT_PACKED, Code, Kept, KeyRotation, UserKeys, rotate_by_calendar
from infra.components.region import enter_region
from infra.components.secret import protected_secret
from infra.resources import aws
from infra.settings.model import EnvironmentSettings, ExistingWarehouse, Snowflake
from infra.stacks.lake import LakeStack
from infra.stacks.snowflake import PURPOSES, Word
from shared import naming
from shared.doubles import SNOWFLAKE_URL
from shared.naming import Account
from shared.secret_tags import ACCOUNT_TAG, KIND_TAG, OWNER_TAG, ROTATOR_TAG, USER_TAG

ROTATOR: Word = "rotator"


@dataclass(frozen=True, slots=True)
class KeySecret:
    """A secret. `arn` is for policies; that of an existing secret has a wildcard for the suffix that AWS adds."""

    name: str
    arn: str


@dataclass(frozen=True, slots=True)
class Made:
    """A secret that Frazil creates. `word` names it in commands: `producer`, `snowflake/loader`."""

    word: str
    secret: KeySecret
    resource: aws.SecretsmanagerSecret


class SecretsStack(Stack):
    """A secret for each service account of Confluent Cloud and each Snowflake user whose key Frazil creates.

    `rotation` is None without such keys: for an external Kafka without Snowflake. `user_keys` are the sources of the
    users' public keys.
    """

    def __init__(
        self, app: App, settings: EnvironmentSettings, *, lake: LakeStack, kafka: Kafka, code: Code = NOT_PACKED
    ) -> None:
        super().__init__(app, "secrets")
        keep_state(self, settings)
        self._settings = settings
        self._key_arn = lake.key_arn
        self._region = enter_region(self, settings)
        self._cloud = self._of_the_cloud() if kafka.key_holders is not None else None
        self._accounts = self._of_accounts(kafka.key_holders)
        self._users = self._of_users(settings.snowflake)
        self.rotation = self._make_rotation(kafka, code) if self._made else None
        self.user_keys = self._keep_rotating(self.rotation) if self.rotation is not None else {}
        self._outputs()

    @property
    def rotated(self) -> Mapping[str, str]:
        """The names of the secrets whose keys rotate, by their words."""
        return {made.word: made.secret.name for made in self._made}

    def of_account(self, account: Account) -> KeySecret:
        """The secret with this account's key."""
        return self._accounts[account].secret

    def named(self, name: str) -> KeySecret:
        """Return the secret of this name, created by Frazil or existing."""
        ours = {made.secret.name: made.secret for made in self._made}
        return ours.get(name) or KeySecret(name, self._region.arn("secretsmanager", f"secret:{name}-??????"))

    def keep_accounts_rotating(self, scope: Stack) -> None:
        """Rotate the accounts' keys, in a stack that is applied after the step `keys` has given the secrets values."""
        if self.rotation is None:
            return
        for account, made in self._accounts.items():
            rotate_by_calendar(
                scope,
                f"rotation-{account}",
                made.resource,
                function_arn=self.rotation.arn,
                days=self._settings.rotation.days,
            )

    @property
    def _made(self) -> tuple[Made, ...]:
        return (*self._accounts.values(), *self._users.values())

    def _of_accounts(self, holders: KeyHolders | None) -> dict[Account, Made]:
        """Create the secrets of the accounts. The function reads from their tags whose keys are in a secret."""
        return {
            account: self._secret(
                account,
                name=naming.secret_name(self._settings.environment, account),
                description=f"API keys of the service account {account}",
                tags={KIND_TAG: "confluent_api_key", ACCOUNT_TAG: account, OWNER_TAG: owner},
            )
            for account, owner in (holders.owners.items() if holders is not None else ())
        }

    def _of_users(self, snowflake: Snowflake | None) -> dict[Word, Made]:
        """Create the secrets of the users. The rotator changes the keys of all users, including its own."""
        if snowflake is None:
            return {}
        rotator = self._of_user(ROTATOR)
        by_it = {ROTATOR_TAG: rotator.resource.name}
        return {word: rotator if word == ROTATOR else self._of_user(word, **by_it) for word in PURPOSES}

    def _of_user(self, word: Word, **tags: str) -> Made:
        environment = self._settings.environment
        user = naming.snowflake_name(environment, word)
        return self._secret(
            f"snowflake/{word}",
            name=naming.snowflake_secret_name(environment, word),
            description=f"The key pair of Snowflake's user {user}",
            tags={KIND_TAG: "snowflake_rsa", USER_TAG: user, **tags},
        )

    def _of_the_cloud(self) -> Made:
        """Create the secret of the Cloud API key, which people create and nothing rotates."""
        name = naming.cloud_secret_name(self._settings.environment)
        return self._secret("cloud", name=name, description="The Cloud API key that makes the others")

    def _secret(self, word: str, *, name: str, description: str, tags: Mapping[str, str] | None = None) -> Made:
        construct = word.replace("/", "-")
        secret = protected_secret(
            self,
            construct,
            name=name,
            description=description,
            key_arn=self._key_arn,
            region=self._region,
            production=self._settings.production,
            tags=tags,
        )
        return Made(word, KeySecret(name, secret.arn), secret)

    def _make_rotation(self, kafka: Kafka, code: Code) -> KeyRotation:
        read = [] if self._cloud is None else [self._cloud.secret.arn]
        return KeyRotation(
            self,
            "rotation",
            settings=self._settings,
            region=self._region,
            key_arn=self._key_arn,
            code=code,
            variables={"FRAZIL_ENVIRONMENT": self._settings.environment, **self._of_kafka(kafka), **self._of_snowflake},
            kept=Kept(rotated=[made.secret.arn for made in self._made], read=read),
        )

    def _of_kafka(self, kafka: Kafka) -> Mapping[str, str]:
        holders = kafka.key_holders
        if holders is None or self._cloud is None:
            return {}
        flink = {}
        if holders.flink is not None:
            flink = {
                "CONFLUENT_ENVIRONMENT_ID": holders.flink.environment_id,
                "CONFLUENT_FLINK_REGION_ID": holders.flink.id,
                "CONFLUENT_FLINK_STATEMENTS_URL": holders.flink.statements_url,
            }
        return {
            **flink,
            "CONFLUENT_CLUSTER_ID": kafka.name,
            "CONFLUENT_KAFKA_REST_ENDPOINT": holders.kafka_rest_endpoint,
            "CONFLUENT_REGISTRY_ID": holders.registry_id,
            "CONFLUENT_REGISTRY_URL": kafka.registry_url,
            "CONFLUENT_CLOUD_SECRET": self._cloud.resource.name,
            "KEYS_TO_RETAIN": str(self._settings.rotation.keys_to_retain),
        }

    @property
    def _of_snowflake(self) -> Mapping[str, str]:
        snowflake = self._settings.snowflake
        if snowflake is None:
            return {}
        double = {} if snowflake.url is None else {SNOWFLAKE_URL: snowflake.url}
        return {"SNOWFLAKE_ACCOUNT": snowflake.identifier, **double}

    def _keep_rotating(self, rotation: KeyRotation) -> dict[Word, UserKeys]:
        """Create and rotate the users' keys; the first keys of accounts come from the step `keys`, after this stack."""
        first = {word: rotation.first_key(word, made.resource) for word, made in self._users.items()}
        for word, made in self._users.items():
            rotation.keep_rotating(f"snowflake-{word}", made.resource, after=[first[word]])
        return {word: UserKeys(rotation.name, made.secret.arn) for word, made in self._users.items()}

    def _outputs(self) -> None:
        """Add the outputs, which the steps `keys` and `rotate` read."""
        if self.rotation is None:
            return
        Output(self, "secrets", value={account: made.secret.name for account, made in self._accounts.items()})
        Output(self, "rotated", value=self.rotated)
        Output(self, "rotation_function", value=self.rotation.name)
        if self._settings.snowflake is not None:
            Output(self, "snowflake_account", value=_account(self._settings.snowflake))


def _account(snowflake: Snowflake) -> dict[str, str]:
    """Return the account for the outputs, for a machine whose settings file does not name it."""
    warehouse = snowflake.warehouse.name if isinstance(snowflake.warehouse, ExistingWarehouse) else ""
    return {"organization": snowflake.organization, "account": snowflake.account, "warehouse": warehouse}
