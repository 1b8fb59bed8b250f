"""Snowflake without a socket: the double behind the client that the rotation knocks at."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from jwt.algorithms import RSAAlgorithm

from devcloud.snowflake_double import LoginRefused, SnowflakeDouble, SqlError
from shared.rsa_key import RsaKey
from shared.snowflake_login import (
    KEYS_OF_SLOTS,
    SLOTS,
    Credential,
    CredentialKind,
    LoginRefusedError,
    RefusedError,
    Slot,
    Slots,
)


@functools.cache
def _signing_key(pem: str) -> Any:
    """Return the key that a token is signed with: reading one takes a sixth of a second, and tests log in often."""
    return RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(pem)


@dataclass
class SnowflakeInMemory:
    """`on_call` gets every call after it was carried out, and may raise."""

    double: SnowflakeDouble
    on_call: Callable[[str], None] = field(default=lambda _: None)

    @contextmanager
    def session(self, user: str, key: RsaKey) -> Iterator[SessionInMemory]:
        try:
            who = self.double.login(user, self._token(user, key))
        except LoginRefused as refused:
            raise LoginRefusedError(f"{user}: {refused.reason.name}", hint="-") from refused
        self.on_call("login")
        yield SessionInMemory(self, who)

    def _token(self, user: str, key: RsaKey) -> str:
        now, subject = int(time.time()), f"{self.double.account}.{user}"
        claims = {"sub": subject, "iss": f"{subject}.{key.fingerprint}", "iat": now, "exp": now + 60}
        return jwt.encode(claims, _signing_key(key.pem.reveal()), algorithm="RS256")


@dataclass(frozen=True)
class SessionInMemory:
    client: SnowflakeInMemory
    user: str

    def current_user(self) -> str:
        return str(self._ask("SELECT CURRENT_USER()")[0][0])

    def slots_of(self, user: str) -> Slots:
        told = {str(row[0]): row[1] for row in self._ask(f'DESC USER "{user}"')}
        first, second = told["RSA_PUBLIC_KEY_FP"], told["RSA_PUBLIC_KEY_2_FP"]
        return Slots(None if first == "null" else first, None if second == "null" else second)

    def set_key(self, user: str, slot: Slot, body: str) -> None:
        self._ask(f"ALTER USER \"{user}\" SET {slot} = '{body}'")

    def set_both_keys(self, user: str, first: str, second: str) -> None:
        self._ask(f"ALTER USER \"{user}\" SET {SLOTS[0]} = '{first}' {SLOTS[1]} = '{second}'")

    def unset_key(self, user: str, slot: Slot) -> None:
        self._ask(f'ALTER USER "{user}" UNSET {slot}')

    def bodies_of(self, user: str) -> dict[Slot, str]:
        told = {str(row[0]): row[1] or "null" for row in self._ask(f'DESC USER "{user}"')}
        return {slot: told[slot] for slot in SLOTS if told[slot] != "null"}

    def credentials_of(self, user: str, kind: CredentialKind) -> list[Credential]:
        names = [str(row[1]) for row in self._ask(f'SHOW USER {kind}S FOR USER "{user}"')]
        return [Credential(kind, name) for name in names if name not in KEYS_OF_SLOTS]

    def remove(self, user: str, credential: Credential) -> None:
        self._ask(f'ALTER USER "{user}" REMOVE {credential.kind} "{credential.name}"')

    def _ask(self, statement: str) -> list[list[str | None]]:
        try:
            answered = self.client.double.execute(self.user, statement).rows
        except SqlError as refused:
            raise RefusedError(f"{refused.code} {refused}", hint="-") from refused
        self.client.on_call(statement.split(maxsplit=1)[0])
        return answered
