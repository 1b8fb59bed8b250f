"""The users of the double of Snowflake: their public keys, and what the roles that they act in may do to others.

With a file they outlive the process: it is written anew at each change.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from devcloud.snowflake_tokens import fingerprint

Slot = Literal["RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"]
SLOTS: tuple[Slot, ...] = ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")
May = dict[str, set[str]]
"""Privileges by the user that they are on."""


@dataclass(slots=True)
class User:
    """`keys`: base64 of the public keys by their slot. `may`: what its role may, shared by all who act in it.

    `credentials`: names of named key pairs and of programmatic access tokens, by the words of SQL.
    """

    name: str
    role: str
    may: May
    keys: dict[Slot, str] = field(default_factory=dict)
    credentials: dict[str, list[str]] = field(default_factory=dict)

    def fingerprint(self, slot: Slot) -> str | None:
        key = self.keys.get(slot)
        return None if key is None else fingerprint(base64.b64decode(key))

    def has_one_of(self, privileges: Iterable[str], other: User) -> bool:
        return not self.may.get(other.name, set()).isdisjoint(privileges)

    def told(self) -> Mapping[str, str | None]:
        """Return the user as Terraform describes a service user."""
        return {"name": self.name, "default_role": self.role, **{slot.lower(): self.keys.get(slot) for slot in SLOTS}}


class Users(dict[str, User]):
    """By name. Roles need not be there before their users, nor users before what roles may do to them."""

    def __init__(self, file: Path | None = None) -> None:
        super().__init__()
        self._file = file
        self._roles: dict[str, May] = {}
        if file is not None and file.exists():
            self._read(json.loads(file.read_text(encoding="utf-8")))

    def make(self, name: str, role: str | None = None) -> User:
        """Return the user, created if it does not exist."""
        spelled = (role or name).upper()
        return self.setdefault(name.upper(), User(name.upper(), spelled, self._may(spelled)))

    def drop(self, name: str) -> None:
        """Delete a user and all grants on it, as Snowflake does."""
        self.pop(name.upper(), None)
        for may in self._roles.values():
            may.pop(name.upper(), None)

    def grant(self, privileges: Iterable[str], *, on: str, to_role: str) -> None:
        self._may(to_role.upper()).setdefault(on.upper(), set()).update(privileges)

    def granted(self, *, on: str, to_role: str) -> Iterable[str]:
        return sorted(self._may(to_role.upper()).get(on.upper(), ()))

    def revoke(self, *, on: str, from_role: str) -> None:
        self._may(from_role.upper()).pop(on.upper(), None)

    def keep(self) -> None:
        """Write the users to the file atomically."""
        if self._file is None:
            return
        users = {user.name: {"role": user.role, "keys": user.keys} for user in self.values()}
        roles = {role: {user: sorted(may) for user, may in on.items()} for role, on in self._roles.items()}
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps({"users": users, "roles": roles}, indent=2), encoding="utf-8")
        written.replace(self._file)

    def _may(self, role: str) -> May:
        return self._roles.setdefault(role, {})

    def _read(self, written: Mapping[str, Any]) -> None:
        for role, on in written["roles"].items():
            self._may(role).update({user: set(may) for user, may in on.items()})
        for name, user in written["users"].items():
            self.make(name, user["role"]).keys |= user["keys"]
