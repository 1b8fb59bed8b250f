"""A double of Snowflake's login on loopback: key pairs, statements that rotate them, and what asks of tables.

`python -m devcloud.snowflake_double PORT ACCOUNT [FILE]` serves it until it is terminated, and prints what
FRAZIL_SNOWFLAKE_URL is to be; in the file its users outlive it. The connector for Python is the real one. Users come by
a call of `add_user`. From another process (stub_behind.py) they are made, looked at and dropped by `PUT`, `GET` and
`DELETE` of `/_double/users/NAME`, with what Terraform knows of a service user; `PUT` and `DELETE` of
`/_double/grants/ROLE/NAME` say what a role may do to one: `{"privileges": ["MONITOR", …]}`. `PUT` and `DELETE` of
`/_double/external/NAME` make and drop an external table, `PUT` of `/_double/owners/SCHEMA` says who owns those of a
schema: `{"role": …}`.

A token is judged as Snowflake documents it, and refused as 390144 whatever the reason; the reason, with its own code,
is for administrators: `SYSTEM$GET_LOGIN_FAILURE_DETAILS`, and here `failures`.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import unquote

from devcloud.http_double import Answer, Asked, Server
from devcloud.snowflake_sql import DONE, SqlError, Table
from devcloud.snowflake_tables import Tables
from devcloud.snowflake_tokens import (
    INVALID,
    OTHER_KEY,
    UNKNOWN_USER,
    LoginRefused,
    Reason,
    claims_of,
    public_key,
)
from devcloud.snowflake_users import SLOTS, Slot, User, Users

FEWEST_BITS = 2048
MODIFY, MONITOR, OWNERSHIP = "MODIFY PROGRAMMATIC AUTHENTICATION METHODS", "MONITOR", "OWNERSHIP"
"""MONITOR on a user opens nothing here: the documentation grants DESCRIBE USER to the user itself and its owner."""
_USER = re.compile(r"/_double/users/(?P<name>[^/]+)")
_TABLE = re.compile(r"/_double/(?P<what>external|owners)/(?P<name>[^/]+)")
_GRANT = re.compile(r"/_double/grants/(?P<role>[^/]+)/(?P<name>[^/]+)")

_NAME = r'(?P<name>"[^"]+"|[A-Za-z_][\w$]*)'
_SET = re.compile(rf"ALTER\s+USER\s+(IF\s+EXISTS\s+)?{_NAME}\s+SET\s+(?P<what>.+)", re.IGNORECASE | re.DOTALL)
_UNSET = re.compile(rf"ALTER\s+USER\s+(IF\s+EXISTS\s+)?{_NAME}\s+UNSET\s+(?P<what>.+)", re.IGNORECASE | re.DOTALL)
_DESCRIBE = re.compile(rf"DESC(RIBE)?\s+USER\s+{_NAME}", re.IGNORECASE)
_SHOW = re.compile(
    rf"SHOW\s+USER\s+(?P<kind>KEY\s+PAIR|PROGRAMMATIC\s+ACCESS\s+TOKEN)S\s+FOR\s+USER\s+{_NAME}", re.IGNORECASE
)
_REMOVE = re.compile(
    rf"ALTER\s+USER\s+(IF\s+EXISTS\s+)?{_NAME}\s+REMOVE\s+(?P<kind>KEY\s+PAIR|PROGRAMMATIC\s+ACCESS\s+TOKEN)\s+"
    r'"(?P<what>[^"]+)"',
    re.IGNORECASE,
)
_REASON = re.compile(r"SELECT\s+SYSTEM\$GET_LOGIN_FAILURE_DETAILS\('(?P<id>[^']*)'\)", re.IGNORECASE)
_KEY = re.compile(r"(?P<slot>RSA_PUBLIC_KEY(_2)?)\s*=\s*'(?P<key>[^']*)'[\s,]*", re.IGNORECASE)


class SnowflakeDouble:
    """One account. `statements` and `logins` are what was asked, `failures` why a login was refused, by its id.

    `next_answers` are given instead of what would be, first come first served: an outage.
    """

    def __init__(self, account: str, *, now: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self.account = account.upper()
        self.users = Users(file)
        self.tables = Tables(None if file is None else file.with_name("tables.json"))
        self.statements: list[str] = []
        self.logins: list[tuple[str, Slot]] = []
        self.failures: dict[str, Reason] = {}
        self.next_answers: list[Answer] = []
        self._now = now
        self._sessions: dict[str, str] = {}
        self._lock = Lock()

    def add_user(self, name: str, public_key: str | None = None, *, role: str | None = None) -> User:
        """A service user; a key that is given goes into its first slot."""
        user = self.users.make(name, role)
        if public_key is not None:
            user.keys["RSA_PUBLIC_KEY"] = _checked(public_key)
        return user

    def grant(self, *privileges: str, on: str, to: str) -> None:
        """Grant privileges to the default role of a user."""
        self.users.grant(privileges, on=on, to_role=self.users[to.upper()].role)

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            if self.next_answers:
                return self.next_answers.pop(0)
            return self._routed(asked)

    def login(self, name: str, token: str) -> str:
        """Return the user of a token, and record the key used. Raises LoginRefused if the token is invalid."""
        claims = claims_of(token, account=self.account, login_name=name)
        user = self.users.get(claims.user)
        if user is None:
            raise LoginRefused(UNKNOWN_USER)
        claims.refuse_other_times(self._now())
        slot = next((slot for slot in SLOTS if user.fingerprint(slot) == claims.fingerprint), None)
        if slot is None:
            raise LoginRefused(OTHER_KEY)
        claims.verify(public_key(user.keys[slot]))
        self.logins.append((user.name, slot))
        return user.name

    def execute(self, user: str, statement: str) -> Table:
        """Return the result of a user's statement. Raises SqlError if it is not permitted or not supported."""
        self.statements.append(statement)
        who, text = self.users[user], statement.strip().rstrip(";").rstrip()
        if (changed := self._about_a_user(who, text)) is not None:
            return changed
        if found := _REASON.fullmatch(text):
            return Table(("DETAILS",), [[str(self.failures.get(found["id"], ""))]])
        if (told := self.tables.execute(who.role, text)) is not None:
            return told
        if re.fullmatch(r"SELECT\s+CURRENT_USER\(\)", text, re.IGNORECASE):
            return Table(("CURRENT_USER()",), [[who.name]])
        raise SqlError("001003", "42000", f"SQL compilation error:\nthe double does not know: {text[:60]}")

    def _about_a_user(self, who: User, text: str) -> Table | None:
        if found := _SET.fullmatch(text):
            return self._changed(_set, self._modified(who, found), found["what"])
        if found := _UNSET.fullmatch(text):
            return self._changed(_unset, self._modified(who, found), found["what"])
        if found := _REMOVE.fullmatch(text):
            return self._changed(_without_credential(_kind(found)), self._modified(who, found), found["what"])
        if found := _SHOW.fullmatch(text):
            return _credentials(self._modified(who, found), _kind(found))
        found = _DESCRIBE.fullmatch(text)
        return None if found is None else self._described(who, found)

    def _routed(self, asked: Asked) -> Answer:
        if asked.path.startswith("/_double/"):
            return self._told(asked)
        content = _content(asked)
        match asked.path:
            case "/session/v1/login-request":
                return self._login(content["data"])
            case "/queries/v1/query-request":
                return self._query(asked, content)
            case "/session" | "/telemetry/send" | "/session/heartbeat":
                return _succeeded(None)
        return Answer(HTTPStatus.NOT_FOUND)

    def _told(self, asked: Asked) -> Answer:
        """Answer the calls of tests and stub providers, which change state without a login."""
        if found := _USER.fullmatch(asked.path):
            return self._of_user(asked, found["name"])
        if found := _GRANT.fullmatch(asked.path):
            return self._of_grant(asked, found["role"], found["name"])
        if found := _TABLE.fullmatch(asked.path):
            return self._of_table(asked, found["what"], found["name"])
        return Answer(HTTPStatus.NOT_FOUND)

    def _of_user(self, asked: Asked, name: str) -> Answer:
        if asked.method == "PUT":
            return self._put_user(name, _content(asked))
        user = self.users.get(name.upper())
        if asked.method == "DELETE":
            self.users.drop(name)
            self.users.keep()
        return Answer(HTTPStatus.NOT_FOUND) if user is None else Answer(HTTPStatus.OK, user.told())

    def _put_user(self, name: str, given: Mapping[str, Any]) -> Answer:
        """Create or replace a user with the keys in Terraform's configuration, as its owner."""
        user = self.users.make(name, given.get("default_role"))
        try:
            user.keys = _distinct({slot: _checked(key) for slot in SLOTS if (key := given.get(slot.lower()))})
        except SqlError as refused:
            return Answer(HTTPStatus.BAD_REQUEST, {"message": str(refused)})
        self.users.keep()
        return Answer(HTTPStatus.OK, user.told())

    def _of_grant(self, asked: Asked, role: str, name: str) -> Answer:
        if asked.method == "GET":
            privileges = self.users.granted(on=name, to_role=role)
            return Answer(HTTPStatus.OK, {"privileges": privileges}) if privileges else Answer(HTTPStatus.NOT_FOUND)
        if asked.method == "DELETE":
            self.users.revoke(on=name, from_role=role)
        else:
            self.users.grant(_content(asked)["privileges"], on=name, to_role=role)
        self.users.keep()
        return Answer(HTTPStatus.NO_CONTENT)

    def _of_table(self, asked: Asked, what: str, name: str) -> Answer:
        match what, asked.method:
            case "owners", _:
                self.tables.own(unquote(name), _content(asked)["role"])
            case _, "DELETE":
                self.tables.drop(unquote(name))
            case _:
                self.tables.add_external(unquote(name))
        return Answer(HTTPStatus.NO_CONTENT)

    def _login(self, given: Mapping[str, Any]) -> Answer:
        try:
            if given.get("AUTHENTICATOR") != "SNOWFLAKE_JWT":
                raise LoginRefused(INVALID)
            user = self.login(str(given["LOGIN_NAME"]), str(given["TOKEN"]))
        except LoginRefused as refused:
            failure = str(uuid.uuid4())
            self.failures[failure] = refused.reason
            message = f"JWT token is invalid. [{failure}]"
            data = {"nextAction": "RETRY_LOGIN", "errorCode": str(INVALID.code), "sqlState": "08001"}
            return _failed(str(INVALID.code), message, data)
        token = uuid.uuid4().hex
        self._sessions[token] = user
        return _succeeded(_session(user, token))

    def _query(self, asked: Asked, content: Mapping[str, Any]) -> Answer:
        token = re.search(r'Token="([^"]+)"', asked.authorization)
        user = self._sessions.get(token[1]) if token else None
        if user is None:
            return _failed("390104", "Session token is invalid.", None)
        try:
            return _succeeded(_result(self.execute(user, content["sqlText"])))
        except SqlError as refused:
            data = {"errorCode": refused.code, "sqlState": refused.state, "queryId": str(uuid.uuid4())}
            return _failed(refused.code, str(refused), data)

    def _modified(self, who: User, found: re.Match[str]) -> User:
        return self._visible(who, found["name"], {MODIFY, OWNERSHIP})

    def _described(self, who: User, found: re.Match[str]) -> Table:
        user = self._visible(who, found["name"], {OWNERSHIP}, also_self=True)
        rows = [["NAME", user.name], ["TYPE", "SERVICE"]]
        for slot in SLOTS:
            rows += [[slot, user.keys.get(slot, "null")], [f"{slot}_FP", user.fingerprint(slot) or "null"]]
        return Table(("property", "value", "default", "description"), [[*row, "null", ""] for row in rows])

    def _visible(self, who: User, name: str, privileges: set[str], *, also_self: bool = False) -> User:
        """Return a user whom `who` may see. Raises the same error for a missing and an invisible user."""
        spelled = name[1:-1] if name.startswith('"') else name.upper()
        user = self.users.get(spelled)
        if user is None or (user is not who and not who.may.get(user.name)):
            words = f"SQL compilation error:\nUser '{spelled}' does not exist or not authorized."
            raise SqlError("002003", "02000", words)
        if not (also_self and user is who) and not who.has_one_of(privileges, user):
            words = f"SQL access control error:\nInsufficient privileges to operate on user '{spelled}'"
            raise SqlError("003001", "42501", words)
        return user

    def _changed(self, change: Callable[[User, str], Table], user: User, what: str) -> Table:
        answer = change(user, what)
        self.users.keep()
        return answer


def _set(user: User, what: str) -> Table:
    given = {cast("Slot", found["slot"].upper()): found["key"] for found in _KEY.finditer(what)}
    if not given or _KEY.sub("", what).strip():
        raise SqlError("001003", "42000", "SQL compilation error:\nthe double sets public keys only")
    user.keys = _distinct(user.keys | {slot: _checked(key) for slot, key in given.items()})
    return DONE


def _distinct(keys: dict[Slot, str]) -> dict[Slot, str]:
    """Return the keys if they differ, as Snowflake documents. The error's wording is not documented."""
    if len(set(keys.values())) < len(keys):
        raise SqlError("001008", "22023", "SQL compilation error:\nboth slots of a user cannot hold the same key")
    return keys


def _unset(user: User, what: str) -> Table:
    slots = [word.strip().upper() for word in what.split(",")]
    if not set(slots) <= set(SLOTS):
        raise SqlError("001003", "42000", "SQL compilation error:\nthe double unsets public keys only")
    for slot in SLOTS:
        if slot in slots:
            user.keys.pop(slot, None)
    return DONE


def _kind(found: re.Match[str]) -> str:
    return " ".join(found["kind"].upper().split())


def _credentials(user: User, kind: str) -> Table:
    """The keys in the slots are listed among the named key pairs, under reserved names."""
    reserved = [f"PUBLIC_KEY_{n}" for n, slot in enumerate(SLOTS, 1) if slot in user.keys] if kind == "KEY PAIR" else []
    names = [*reserved, *user.credentials.get(kind, ())]
    return Table(("created_on", "name", "status"), [["2026-01-31", name, "ACTIVE"] for name in names])


def _without_credential(kind: str) -> Callable[[User, str], Table]:
    def remove(user: User, name: str) -> Table:
        if name not in user.credentials.get(kind, []):
            raise SqlError("002003", "02000", f"SQL compilation error:\n{kind} '{name}' does not exist.")
        user.credentials[kind].remove(name)
        return DONE

    return remove


def _checked(key: str) -> str:
    """A public key without its first and last line, of a size that is allowed."""
    compact = re.sub(r"\s", "", key)
    try:
        public = public_key(compact)
    except (ValueError, TypeError):
        public = None
    if public is None or public.key_size < FEWEST_BITS:
        words = "SQL execution error:\nNew public key rejected by current policy. Reason: 'Invalid Public key'"
        raise SqlError("003013", "42501", words)
    return compact


def _content(asked: Asked) -> Mapping[str, Any]:
    packed = asked.content.startswith(b"\x1f\x8b")
    content = gzip.decompress(asked.content) if packed else asked.content
    given: Mapping[str, Any] = json.loads(content or b"{}")
    return given


def _succeeded(data: Mapping[str, Any] | None) -> Answer:
    return Answer(HTTPStatus.OK, {"success": True, "code": None, "message": None, "data": data})


def _failed(code: str, message: str, data: Mapping[str, Any] | None) -> Answer:
    """Snowflake refuses in the body, with a status that says all is well."""
    return Answer(HTTPStatus.OK, {"success": False, "code": code, "message": message, "data": data})


def _session(user: str, token: str) -> Mapping[str, Any]:
    return {
        "token": token,
        "masterToken": f"master-{token}",
        "validityInSeconds": 3600,
        "masterValidityInSeconds": 14400,
        "displayUserName": user,
        "serverVersion": "10.0.0",
        "firstLogin": False,
        "healthCheckInterval": 45,
        "sessionId": 1,
        "parameters": [
            {"name": "AUTOCOMMIT", "value": True},
            {"name": "PYTHON_CONNECTOR_QUERY_RESULT_FORMAT", "value": "JSON"},
        ],
        "sessionInfo": {"databaseName": None, "schemaName": None, "warehouseName": None, "roleName": "PUBLIC"},
    }


def _result(table: Table) -> Mapping[str, Any]:
    size = {"length": 16777216, "byteLength": 16777216, "precision": None, "scale": None}
    place = {"database": "", "schema": "", "table": "", "collation": None}
    columns = [{"name": name, "type": "text", "nullable": True, **size, **place} for name in table.columns]
    return {
        "parameters": [],
        "rowtype": columns,
        "rowset": table.rows,
        "total": len(table.rows),
        "returned": len(table.rows),
        "queryId": str(uuid.uuid4()),
        "queryResultFormat": "json",
        "statementTypeId": 4096,
        "version": 1,
        "numberOfBinds": 0,
        "sqlState": "00000",
        "finalDatabaseName": None,
        "finalSchemaName": None,
        "finalWarehouseName": None,
        "finalRoleName": "PUBLIC",
    }


def main(arguments: list[str]) -> None:
    port, account, *file = arguments
    double = SnowflakeDouble(account, file=Path(file[0]) if file else None)
    with Server(double, int(port)) as server:
        print(server.address, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
