"""Snowflake, by its connector for Python and key pairs: a connection for each question, with the key as it is now.

The connector signs a token that is good for a minute, so a clock that is off by more is refused like a wrong key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from frazil.model.errors import SettingError, SnowflakeError
from frazil.model.secret import Secret
from frazil.model.settings import SnowflakeSettings, SnowflakeUser
from frazil.model.snowflake import Served
from frazil.model.sql_text import quoted

LOGIN_SECONDS = 20
ANSWER_SECONDS = 120
TOKEN_REFUSED = 390144
MAY_NOT = 3001
UNKNOWN_OR_HIDDEN = 2003
MAKES_TABLES = "run `scripts/deploy.sh create`, which creates the Snowflake tables and their grants"


@dataclass(frozen=True, slots=True)
class SnowflakeAccount:
    """The tables of the configured schema, as one user may see and refresh them (`ports.Snowflake`)."""

    settings: SnowflakeSettings
    user: SnowflakeUser
    login_seconds: int = LOGIN_SECONDS

    def refresh(self, table: str) -> None:
        with self._session() as session:
            session.ask(f"ALTER EXTERNAL TABLE {self._identifier(table)} REFRESH", f"refresh {table}")

    def refreshed_at(self, table: str) -> datetime | None:
        """Return when the table was last refreshed. `LIKE` takes `_` for any character, so it may list others."""
        schema = f"{quoted(self.settings.database)}.{quoted(self.settings.schema)}"
        with self._session() as session:
            statement = f"SHOW EXTERNAL TABLES LIKE {_literal(table)} IN SCHEMA {schema}"
            listed = session.ask_named(statement, f"read when {table} was refreshed")
        found = next((row for row in listed if row["name"] == table), None)
        if found is None:
            raise SnowflakeError(
                f"the Snowflake user {self.user.user} cannot see {table}, or it does not exist", hint=MAKES_TABLES
            )
        at = found["last_refreshed_on"]
        return datetime.fromisoformat(at) if isinstance(at, str) and at else at or None

    def served(self, table: str) -> Served:
        name = _literal(self._identifier(table))
        with self._session() as session:
            answer = session.ask_json(f"SELECT SYSTEM$GET_ICEBERG_TABLE_INFORMATION({name})", f"look at {table}")
            refreshing = session.refreshing(name, table)
        return Served(answer.get("metadataLocation") or None, str(answer.get("status", "unknown")), refreshing)

    def _identifier(self, table: str) -> str:
        return ".".join(quoted(name) for name in (self.settings.database, self.settings.schema, table))

    @contextmanager
    def _session(self) -> Iterator[_Session]:
        from snowflake.connector import connect  # noqa: PLC0415 - takes a second, which only who has Snowflake spends
        from snowflake.connector.errors import Error  # noqa: PLC0415

        try:
            connection = connect(
                account=self.settings.account,
                user=self.user.user,
                private_key=_der(self.user.private_key.read(), self.user.user),
                authenticator="SNOWFLAKE_JWT",
                warehouse=self.settings.warehouse,
                login_timeout=self.login_seconds,
                network_timeout=ANSWER_SECONDS,
                session_parameters={"QUERY_TAG": "frazil", "CLIENT_TELEMETRY_ENABLED": False},
                platform_detection_timeout_seconds=0,
                application="frazil",
                **_elsewhere(self.settings.url),
            )
        except Error as refused:
            raise _not_let_in(self.user.user, refused) from refused
        try:
            yield _Session(connection, self.user.user)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Session:
    connection: Any
    user: str

    def ask(self, statement: str, what: str, kind: Any = None) -> list[Any]:
        """`kind` is the cursor's: rows are tuples unless it says otherwise."""
        from snowflake.connector.errors import Error  # noqa: PLC0415

        try:
            with self.connection.cursor(*(() if kind is None else (kind,))) as cursor:
                return list(cursor.execute(statement, timeout=ANSWER_SECONDS).fetchall())
        except Error as refused:
            raise _not_done(self.user, what, refused) from refused

    def ask_named(self, statement: str, what: str) -> list[Mapping[str, Any]]:
        """Rows by the names of their columns."""
        from snowflake.connector import DictCursor  # noqa: PLC0415

        return [dict(row) for row in self.ask(statement, what, DictCursor)]

    def ask_json(self, statement: str, what: str) -> Mapping[str, Any]:
        rows = self.ask(statement, what)
        try:
            answer: Mapping[str, Any] = json.loads(rows[0][0])
            return dict(answer)
        except (IndexError, TypeError, ValueError) as unexpected:
            raise SnowflakeError(
                f"Snowflake did not answer with JSON when {self.user} asked it to {what}: {str(rows)[:200]}",
                hint="report this as a defect, with the message",
            ) from unexpected

    def refreshing(self, name: str, table: str) -> str | None:
        """Return the status of automatic refresh, or None if it cannot be read."""
        try:
            answer = self.ask_json(f"SELECT SYSTEM$AUTO_REFRESH_STATUS({name})", f"read how {table} is refreshed")
        except SnowflakeError:
            return None
        words = (answer.get("executionState"), answer.get("invalidExecutionStateReason"))
        return ": ".join(str(word) for word in words if word) or None


def _der(pem: Secret, user: str) -> bytes:
    """Return the private key in the connector's format, DER. Errors never quote the key."""
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError):
        raise SettingError(
            f"the private key of the Snowflake user {user} is not an unencrypted PEM key",
            hint="set private_key: ${secret:NAME#private_key}; the rotation function stores it there",
        ) from None
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _elsewhere(url: str | None) -> dict[str, Any]:
    if url is None:
        return {}
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port or 443, "protocol": parts.scheme}


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _not_let_in(user: str, refused: Any) -> SnowflakeError:
    hint = "check account and url in frazil.yaml, and that the network policy allows this network"
    if refused.errno == TOKEN_REFUSED:
        hint = (
            "the key in the secret is neither of the user's two keys: `frazil status` shows its rotation; an"
            " administrator can see the reason with SELECT SYSTEM$GET_LOGIN_FAILURE_DETAILS('<id in brackets>')"
        )
    return SnowflakeError(f"Snowflake refused the login of {user}: {_said(refused)}", hint=hint)


def _not_done(user: str, what: str, refused: Any) -> SnowflakeError:
    hint = "the next batch tries again; check status.snowflake.com"
    if refused.errno in (MAY_NOT, UNKNOWN_OR_HIDDEN):
        hint = MAKES_TABLES
    return SnowflakeError(f"Snowflake did not let {user} {what}: {_said(refused)}", hint=hint)


def _said(refused: Any) -> str:
    """Return the service's message in one line."""
    return f"{refused.errno}, {' '.join(str(refused.raw_msg or refused.msg or '').split())[:300]}"
