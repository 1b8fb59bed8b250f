"""The backend of a provider stub: none, or a double that must know the resources that Terraform creates.

Of Snowflake it is the login: service users with their public keys, what roles may do to users, and external tables
with who owns them, since their owner refreshes them. Of Confluent it is the keys for Tableflow and for Flink.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from devcloud.stub_values import Value
from shared.doubles import SNOWFLAKE_URL

USER, GRANT = "snowflake_service_user", "snowflake_grant_privileges_to_account_role"
EXTERNAL, OWNERSHIP = "snowflake_external_table", "snowflake_grant_ownership"
KEYS = ("rsa_public_key", "rsa_public_key_2")
OF_TABLEFLOW = frozenset({"confluent_tableflow_topic", "confluent_catalog_integration"})
TABLEFLOW_KEY = ("TABLEFLOW_API_KEY", "TABLEFLOW_API_SECRET")
STATEMENT = "confluent_flink_statement"
FLINK = (
    *("FLINK_API_KEY", "FLINK_API_SECRET", "FLINK_REST_ENDPOINT", "CONFLUENT_ORGANIZATION_ID"),
    *("CONFLUENT_ENVIRONMENT_ID", "FLINK_COMPUTE_POOL_ID", "FLINK_PRINCIPAL_ID"),
)
SECONDS = 30


class Behind(Protocol):
    """All raise OSError where it does not answer, or refuses."""

    def found(self, kind: str, value: Value) -> Value | None:
        """Return the object as it is now, or None if it was deleted."""

    def make(self, kind: str, value: Value) -> None: ...

    def drop(self, kind: str, value: Value) -> None: ...


class Nothing:
    """Objects exist in Terraform's state only, and are what was made."""

    def found(self, kind: str, value: Value) -> Value | None:
        del kind
        return value

    def make(self, kind: str, value: Value) -> None: ...

    def drop(self, kind: str, value: Value) -> None: ...


@dataclass(frozen=True, slots=True)
class SnowflakeLogin:
    """The double of devcloud/snowflake_double.py, at its address.

    As with the real provider, a look finds the keys of a user, and that a grant went with its user.
    """

    address: str

    def found(self, kind: str, value: Value) -> Value | None:
        if kind != USER:
            grants = [self._ask("GET", f"grants/{role}/{user}") for role, user in _grant_on_user(kind, value)]
            return None if None in grants else value
        told = self._ask("GET", f"users/{value['name']}")
        return None if told is None else value | {key: told[key] for key in KEYS}

    def make(self, kind: str, value: Value) -> None:
        if kind == USER:
            wanted = {name: value.get(name) for name in ("default_role", *KEYS)}
            self._ask("PUT", f"users/{value['name']}", wanted)
        for role, user in _grant_on_user(kind, value):
            self._ask("PUT", f"grants/{role}/{user}", {"privileges": value["privileges"]})
        if kind == EXTERNAL:
            self._ask("PUT", f"external/{_full_name(value)}", {})
        for schema in _schemas_with_owned_tables(kind, value):
            self._ask("PUT", f"owners/{quote(schema)}", {"role": value["account_role_name"]})

    def drop(self, kind: str, value: Value) -> None:
        if kind == USER:
            self._ask("DELETE", f"users/{value['name']}")
        for role, user in _grant_on_user(kind, value):
            self._ask("DELETE", f"grants/{role}/{user}")
        if kind == EXTERNAL:
            self._ask("DELETE", f"external/{_full_name(value)}")

    def _ask(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Send a request to the double; return None if the object does not exist."""
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=SECONDS)
        try:
            connection.request(method, f"/_double/{path}", json.dumps(content))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise OSError(f"{self.address} refused {method} {path}: {body.decode()}")
        told: Mapping[str, Any] = json.loads(body or b"{}")
        return told


@dataclass(frozen=True, slots=True)
class ConfluentKeys:
    """The variables that are set.

    As with the real provider, nothing of Tableflow and no statement of Flink can be read, created or deleted without
    its key, and statements need where they run too: seven variables, of which all are set or none.
    """

    given: frozenset[str]

    def found(self, kind: str, value: Value) -> Value | None:
        self._check(kind)
        return value

    def make(self, kind: str, value: Value) -> None:
        del value
        self._check(kind)

    def drop(self, kind: str, value: Value) -> None:
        del value
        self._check(kind)

    def _check(self, kind: str) -> None:
        if kind in OF_TABLEFLOW and not self.given.issuperset(TABLEFLOW_KEY):
            raise OSError(f"{kind}: {' and '.join(TABLEFLOW_KEY)} must be set")
        if 0 < len(self.given.intersection(FLINK)) < len(FLINK):
            raise OSError(f"All {len(FLINK)} {', '.join(FLINK)} must be set or not set")
        if kind == STATEMENT and not self.given.issuperset(FLINK):
            raise OSError(f"{kind}: {' and '.join(FLINK[:2])} must be set")


def behind(provider: str, environment: Mapping[str, str]) -> Behind:
    """Return the double behind a provider, as the environment variables say."""
    if provider == "confluent":
        return ConfluentKeys(frozenset(name for name in (*TABLEFLOW_KEY, *FLINK) if environment.get(name)))
    address = environment.get(SNOWFLAKE_URL) if provider == "snowflake" else None
    return SnowflakeLogin(address) if address else Nothing()


def _grant_on_user(kind: str, value: Value) -> list[tuple[str, str]]:
    """The role and the user, if that is what the grant is about."""
    on = (value.get("on_account_object") or []) if kind == GRANT else []
    return [(value["account_role_name"], one["object_name"]) for one in on if one["object_type"] == "USER"]


def _full_name(value: Value) -> str:
    return quote(".".join(f'"{value[part]}"' for part in ("database", "schema", "name")))


def _schemas_with_owned_tables(kind: str, value: Value) -> list[str]:
    """Return the schemas whose future external tables the role will own."""
    future = [each for on in value.get("on") or [] for each in on.get("future") or []] if kind == OWNERSHIP else []
    return [each["in_schema"] for each in future if each["object_type_plural"] == "EXTERNAL TABLES"]
