"""A user of Snowflake whose keys rotate, with its secret, in memory."""

from __future__ import annotations

from dataclasses import dataclass

from devcloud.snowflake_double import MODIFY, SnowflakeDouble
from frazil.model.secret import Secret
from lambdas.rotate_keys.rotation import Rotation
from lambdas.rotate_keys.snowflake_rsa import Login, SnowflakeRsa
from lambdas.rotate_keys.vault import Vault
from shared.rsa_key import RsaKey
from shared.snowflake_login import LoginRefusedError, Slot, Slots
from tests.fakes.late_keys import late_key
from tests.fakes.snowflake_in_memory import SnowflakeInMemory
from tests.fakes.vault_in_memory import CURRENT, DyingAt, SecretInMemory, VaultInMemory

STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")
ACCOUNT = "FRAZIL-LOCAL"
POOL = [late_key() for _ in range(8)]
FOREIGN = late_key()


@dataclass
class World:
    """A user LOADER, whose keys the user ROTATOR may change, each with its secret."""

    double: SnowflakeDouble
    client: SnowflakeInMemory
    vault: VaultInMemory
    secret: SecretInMemory
    rotation: Rotation

    def rotate(self, token: str) -> None:
        """Carry out a whole rotation as Secrets Manager does, without a failure."""
        if token not in self.secret.versions:
            self.secret.begin(token)
        self.steps(token)
        self.secret.end()

    def steps(self, token: str) -> None:
        for step in STEPS:
            self.rotation.take(step, token)

    def on_call(self, told: DyingAt) -> None:
        self.vault.on_call = self.client.on_call = told

    def nobody_dies(self) -> None:
        self.vault.on_call = self.client.on_call = lambda _: None

    def logs_in(self, stage: str = CURRENT) -> bool:
        fields = self.secret.fields(stage)
        try:
            with self.client.session("LOADER", RsaKey.of_pem(Secret(fields["private_key"]))):
                return True
        except LoginRefusedError:
            return False

    def slot_of(self, stage: str) -> Slot | None:
        user = self.double.users["LOADER"]
        held = Slots(user.fingerprint("RSA_PUBLIC_KEY"), user.fingerprint("RSA_PUBLIC_KEY_2"))
        return held.with_key(self.fingerprint(stage))

    def fingerprint(self, stage: str) -> str:
        return RsaKey.of_pem(Secret(self.secret.fields(stage)["private_key"])).fingerprint


def new_world() -> World:
    double = SnowflakeDouble(ACCOUNT)
    client = SnowflakeInMemory(double)
    secret = SecretInMemory("frazil/local/snowflake_loader", {})
    vault = VaultInMemory(secret)
    rotator = RsaKey.new(2048)
    login = Login(ACCOUNT, "ROTATOR", rotator).value()
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, client, lambda: login, sleep=lambda _: None)
    world = World(double, client, vault, secret, Rotation(Vault(vault, secret.arn), kind))
    first = world.rotation.first_key()
    double.add_user("LOADER", first["public_key"])
    double.add_user("ROTATOR", rotator.body)
    double.grant(MODIFY, on="LOADER", to="ROTATOR")
    return world
