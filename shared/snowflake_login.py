"""Snowflake, by its connector for Python and key pairs.

The connector signs a token that is good for a minute, so a clock that is off by more is refused like a wrong key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from frazil.model.errors import FrazilError
from shared.rsa_key import RsaKey

Slot = Literal["RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"]
SLOTS: tuple[Slot, ...] = get_args(Slot)
CredentialKind = Literal["KEY PAIR", "PROGRAMMATIC ACCESS TOKEN"]
CREDENTIAL_KINDS: tuple[CredentialKind, ...] = get_args(CredentialKind)
LOGIN_SECONDS, ANSWER_SECONDS = 60, 60
TOKEN_REFUSED = 390144
MAY_NOT = 3001
UNKNOWN_OR_HIDDEN = 2003
EMPTY = ("", "null")
NAME = re.compile(r"[A-Z_][A-Z0-9_$]{0,254}")
BODY = re.compile(r"[A-Za-z0-9+/=]+")


class RefusedError(FrazilError):
    """Snowflake refused a request or did not answer."""


class LoginRefusedError(RefusedError):
    """Snowflake rejected the key (error 390144); this may be transient right after the key was set."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The fingerprints of the keys that a user has; None for an empty place."""

    first: str | None
    second: str | None

    def of(self, slot: Slot) -> str | None:
        return self.first if slot == "RSA_PUBLIC_KEY" else self.second

    def with_key(self, fingerprint: str) -> Slot | None:
        return next((slot for slot in SLOTS if self.of(slot) == fingerprint), None)


@dataclass(frozen=True, slots=True)
class Credential:
    """What else lets a user in: a named key pair, or a programmatic access token."""

    kind: CredentialKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.name}"


KEYS_OF_SLOTS = ("PUBLIC_KEY_1", "PUBLIC_KEY_2")
"""The names under which Snowflake lists the keys of the two slots among the named key pairs."""


@dataclass(frozen=True, slots=True)
class SnowflakeClient:
    """`address` is that of a double; None is Snowflake itself."""

    account: str
    address: str | None = None

    @contextmanager
    def session(self, user: str, key: RsaKey) -> Iterator[SnowflakeSession]:
        from snowflake.connector import connect  # noqa: PLC0415 - takes a second, which other kinds need not spend
        from snowflake.connector.errors import Error  # noqa: PLC0415

        try:
            connection = connect(
                account=self.account,
                user=user,
                private_key=key.der(),
                authenticator="SNOWFLAKE_JWT",
                login_timeout=LOGIN_SECONDS,
                network_timeout=ANSWER_SECONDS,
                session_parameters={"QUERY_TAG": "frazil rotate_keys", "CLIENT_TELEMETRY_ENABLED": False},
                platform_detection_timeout_seconds=0,
                application="frazil",
                **self._elsewhere(),
            )
        except Error as refused:
            raise _not_let_in(user, refused) from refused
        try:
            yield SnowflakeSession(connection, user)
        finally:
            connection.close()

    def _elsewhere(self) -> dict[str, Any]:
        if self.address is None:
            return {}
        where = urlsplit(self.address)
        return {"host": where.hostname, "port": where.port, "protocol": where.scheme}


@dataclass(frozen=True, slots=True)
class SnowflakeSession:
    """A connection of the connector; `user` is who logged in."""

    connection: Any
    user: str

    def current_user(self) -> str:
        return str(self._ask("SELECT CURRENT_USER()", f"tell {self.user} who it is")[0][0])

    def slots_of(self, user: str) -> Slots:
        told = self._described(user)
        first, second = (told.get(f"{slot}_FP", "") for slot in SLOTS)
        return Slots(None if first in EMPTY else first, None if second in EMPTY else second)

    def bodies_of(self, user: str) -> dict[Slot, str]:
        told = self._described(user)
        return {slot: told[slot] for slot in SLOTS if told.get(slot, "") not in EMPTY}

    def _described(self, user: str) -> Mapping[str, str]:
        rows = self._ask(f"DESC USER {_quoted(user)}", f"describe {user}")
        return {str(row[0]).upper(): str(row[1] or "") for row in rows}

    def set_key(self, user: str, slot: Slot, body: str) -> None:
        if not BODY.fullmatch(body):
            raise ValueError("a public key is base64")
        self._ask(f"ALTER USER {_quoted(user)} SET {slot} = '{body}'", f"set {slot} of {user}")

    def set_both_keys(self, user: str, first: str, second: str) -> None:
        if not BODY.fullmatch(first) or not BODY.fullmatch(second):
            raise ValueError("a public key is base64")
        keys = f"{SLOTS[0]} = '{first}' {SLOTS[1]} = '{second}'"
        self._ask(f"ALTER USER {_quoted(user)} SET {keys}", f"set both public keys of {user}")

    def unset_key(self, user: str, slot: Slot) -> None:
        self._ask(f"ALTER USER {_quoted(user)} UNSET {slot}", f"unset {slot} of {user}")

    def credentials_of(self, user: str, kind: CredentialKind) -> list[Credential]:
        """Return the user's credentials, without expired ones and the keys in the two slots."""
        rows = self._ask_by_name(f"SHOW USER {kind}S FOR USER {_quoted(user)}", f"list each {kind.lower()} of {user}")
        names = [row["name"] for row in rows if row.get("status", "").upper() != "EXPIRED"]
        return [Credential(kind, name) for name in names if name not in KEYS_OF_SLOTS]

    def remove(self, user: str, credential: Credential) -> None:
        name = credential.name.replace('"', '""')
        statement = f'ALTER USER {_quoted(user)} REMOVE {credential.kind} "{name}"'
        self._ask(statement, f"remove the {credential} of {user}")

    def _ask_by_name(self, statement: str, what: str) -> list[dict[str, str]]:
        """Rows by the names of their columns in lower case."""
        from snowflake.connector.errors import Error  # noqa: PLC0415

        try:
            with self.connection.cursor() as cursor:
                rows = list(cursor.execute(statement).fetchall())
                columns = [str(column[0]).lower() for column in cursor.description]
        except Error as refused:
            raise _not_done(self.user, what, refused) from refused
        return [{name: str(value or "") for name, value in zip(columns, row, strict=True)} for row in rows]

    def _ask(self, statement: str, what: str) -> list[Any]:
        from snowflake.connector.errors import Error  # noqa: PLC0415

        try:
            with self.connection.cursor() as cursor:
                return list(cursor.execute(statement).fetchall())
        except Error as refused:
            raise _not_done(self.user, what, refused) from refused


def _quoted(user: str) -> str:
    """A name as unquoted SQL would spell it, so that nothing else gets into the statement."""
    name = user.upper()
    if not NAME.fullmatch(name):
        raise RefusedError(f"{user!r} is not a supported user name", hint="use letters, digits and _")
    return f'"{name}"'


def _not_let_in(user: str, refused: Any) -> RefusedError:
    if refused.errno == TOKEN_REFUSED:
        return LoginRefusedError(
            f"Snowflake rejected the key of {user}: {_said(refused)}",
            hint="an administrator gets the reason by SELECT SYSTEM$GET_LOGIN_FAILURE_DETAILS('<id in brackets>'): "
            "wrong key (394304) or wrong clock (394302)",
        )
    return RefusedError(
        f"Snowflake refused the login of {user}: {_said(refused)}",
        hint="check the account name and the account's network policy",
    )


def _not_done(user: str, what: str, refused: Any) -> RefusedError:
    hint = "Secrets Manager retries later; `aws secretsmanager rotate-secret` retries now"
    if refused.errno in (MAY_NOT, UNKNOWN_OR_HIDDEN):
        hint = (
            "GRANT MODIFY PROGRAMMATIC AUTHENTICATION METHODS ON USER <user> TO ROLE <default role of the user who is "
            "logged in>, or run `scripts/deploy.sh create`, which grants it"
        )
    return RefusedError(f"Snowflake does not let {user} {what}: {_said(refused)}", hint=hint)


def _said(refused: Any) -> str:
    """Return the service's error number and message in one line."""
    return f"{refused.errno}, {' '.join(str(refused.raw_msg or refused.msg or '').split())[:300]}"
