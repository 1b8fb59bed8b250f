"""Keys of service users of Snowflake: a user has two places for public keys, and logs in with either.

The new public key goes into the idle place: the one that does not hold the current key. So the current key and the new
one both work, and after the promotion the one before stays until the next rotation takes its place. A key that never
was in the secret is not ours and is not overwritten.

Snowflake lets only a user and its owner describe the user. So slots are read as the user and written as the
rotator. A user that its current key does not let in was made again, or its secret was: the keys in its
slots do not match the secret, and the rotator overwrites both without reading them.

The secret: JSON with `account`, `user` and `private_key` (PKCS#8 in PEM).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from frazil.model.secret import Secret
from lambdas.rotate_keys.errors import NotProvenError, SlotOccupiedError
from lambdas.rotate_keys.rotation import FIRST_KEY_HINT, Facts, Versions
from shared.rsa_key import RsaKey
from shared.snowflake_login import (
    CREDENTIAL_KINDS,
    SLOTS,
    Credential,
    CredentialKind,
    LoginRefusedError,
    RefusedError,
    Slot,
    Slots,
)

UNREAD_HINT = (
    "rerun the same command when Snowflake answers; if it blocks the address of the rotation function, add the "
    "address to `snowflake.allowed_cidrs` or to the account's network policy"
)
LOGINS = 3
"""How often a new key is tried; a user is locked after five failures in a row."""
PAUSE_SECONDS = 2.0


class Session(Protocol):
    """A user who is logged in. Each call raises RefusedError where Snowflake refuses it."""

    def current_user(self) -> str: ...

    def slots_of(self, user: str) -> Slots: ...

    def set_key(self, user: str, slot: Slot, body: str) -> None: ...

    def set_both_keys(self, user: str, first: str, second: str) -> None:
        """Set both keys in one statement, so that no other change can come between."""
        ...

    def unset_key(self, user: str, slot: Slot) -> None: ...

    def bodies_of(self, user: str) -> dict[Slot, str]:
        """The public keys in the slots, without the empty ones."""
        ...

    def credentials_of(self, user: str, kind: CredentialKind) -> list[Credential]: ...

    def remove(self, user: str, credential: Credential) -> None: ...


class Client(Protocol):
    """Snowflake. Raises LoginRefusedError for a key that does not open, RefusedError for all else."""

    def session(self, user: str, key: RsaKey) -> AbstractContextManager[Session]: ...


@dataclass(frozen=True, slots=True)
class Login:
    """What a secret holds: a user with the key that lets it in."""

    account: str
    user: str
    key: RsaKey

    @staticmethod
    def of(value: Secret) -> Login:
        """Parse the login in a secret. Raises ValueError, which does not quote the value."""
        try:
            fields = json.loads(value.reveal())
            return Login(fields["account"], fields["user"], RsaKey.of_pem(Secret(fields["private_key"])))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ValueError("expected JSON with account, user and private_key") from None

    def value(self) -> Secret:
        fields = {"account": self.account, "user": self.user, "private_key": self.key.pem.reveal()}
        return Secret(json.dumps(fields))


def free_slot(slots: Slots, current: str | None, is_ours: Callable[[str], bool]) -> Slot | None:
    """Return the slot for a new key: never the current key's; an empty one before one with a key of ours."""
    used = slots.with_key(current) if current else None
    idle = [slot for slot in SLOTS if slot != used]
    empty = [slot for slot in idle if slots.of(slot) is None]
    ours = [slot for slot in idle if (held := slots.of(slot)) is not None and is_ours(held)] if not empty else []
    return next(iter(empty + ours), None)


@dataclass(frozen=True, slots=True)
class SnowflakeRsa:
    """The key of `user`. `rotator` gives the secret of the user who may change it; None: the user does it itself."""

    account: str
    user: str
    bits: int
    client: Client
    rotator: Callable[[], Secret | None] | None = None
    sleep: Callable[[float], None] = time.sleep

    def holds_key(self, value: Secret) -> bool:
        try:
            return Login.of(value).user == self.user
        except ValueError:
            return False

    def is_known(self, value: Secret) -> bool:
        """Return True: the first key exists before its user, which Terraform creates with it."""
        del value
        return True

    def make(self, *, version: str, current: Secret | None) -> Secret:
        del version, current
        return Login(self.account, self.user, RsaKey.new(self.bits)).value()

    def discard(self, made: Secret) -> Facts:
        """Do nothing: no other system has received the key."""
        del made
        return {}

    def tidy(self, *, version: str, kept: Sequence[Secret]) -> Facts:
        """Do nothing: a key that was never stored was never installed in Snowflake."""
        del version, kept
        return {}

    def install(self, versions: Versions) -> Facts:
        new = Login.of(versions.new).key
        with ExitStack() as stack:
            try:
                own = self._as_the_user(stack, versions.current)
            except LoginRefusedError as refused:
                slot = self._over_both_slots(versions, new, refused)
            else:
                slot = self._into_the_idle_slot(own, versions, new)
        return {"user": self.user, "slot": slot, "fingerprint": new.fingerprint}

    def _into_the_idle_slot(self, own: Session, versions: Versions, new: RsaKey) -> Slot:
        slots = own.slots_of(self.user)
        slot = slots.with_key(new.fingerprint)
        if slot is None:
            slot = self._slot(slots, versions)
            with self._writing(versions) as session:
                session.set_key(self.user, slot, new.body)
            self._look_again(own, slot, new.fingerprint)
        return slot

    def _over_both_slots(self, versions: Versions, new: RsaKey, refused: LoginRefusedError) -> Slot:
        """The current key works again, too: who reads the secret gets it until the promotion.

        Without one the other slot is emptied first: Snowflake takes a key once only among the active keys of a user.
        """
        if self.rotator is None and versions.current is not None:
            raise RefusedError(
                f"{self.user} cannot log in with its current key, and no other user may set one: {refused.what}",
                hint="run `scripts/deploy.sh create`, which sets the current public key of the user",
            ) from refused
        with self._writing(versions) as session:
            if versions.current is None:
                session.unset_key(self.user, SLOTS[0])
                session.set_key(self.user, SLOTS[1], new.body)
            else:
                session.set_both_keys(self.user, Login.of(versions.current).key.body, new.body)
        return SLOTS[1]

    @contextmanager
    def _writing(self, versions: Versions) -> Iterator[Session]:
        """Open a session that may change the user, unless another rotation intervened."""
        who = self._who_installs(versions)
        with self.client.session(who.user, who.key) as session:
            versions.confirm()
            yield session

    def _as_the_user(self, stack: ExitStack, current: Secret | None) -> Session:
        """Log in with the current key, twice at most. Raises LoginRefusedError where it does not let the user in."""
        if current is None:
            raise LoginRefusedError(f"{self.user} has no current key", hint=FIRST_KEY_HINT)
        login = Login.of(current)
        try:
            return stack.enter_context(self.client.session(login.user, login.key))
        except LoginRefusedError:
            self.sleep(PAUSE_SECONDS)
            return stack.enter_context(self.client.session(login.user, login.key))

    def prove(self, new: Secret) -> Facts:
        """Log in with it, a few times: the key may have been set a moment ago."""
        login = Login.of(new)
        for attempt in range(1, LOGINS + 1):
            try:
                return self._log_in(login)
            except LoginRefusedError as refused:
                if attempt == LOGINS:
                    raise NotProvenError(refused.what, hint=refused.hint) from refused
                self.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError  # the last attempt returns or raises

    def retire(self, versions: Versions) -> Facts:
        """Revoke nothing: the previous key stays valid until the next rotation replaces it."""
        return {"fingerprint": Login.of(versions.new).key.fingerprint}

    def revoke(self, versions: Versions) -> Facts:
        """Revoke all credentials but the new key, except those in `left`. Open sessions stay open."""
        new = Login.of(versions.new).key.fingerprint
        with ExitStack() as stack:
            own = self._as_the_user(stack, versions.current)
            slots = own.slots_of(self.user)
            held = {slot: key for slot in SLOTS if (key := slots.of(slot)) not in (None, new)}
            with self._writing(versions) as session:
                for slot in held:
                    session.unset_key(self.user, slot)
                removed, left = self._without_other_credentials(session)
            for slot in held:
                self._look_again(own, slot, None)
        facts = {"user": self.user, "fingerprint": new, "deleted": ", ".join([*map(str, held.values()), *removed])}
        return {**facts, "left": "; ".join(left)} if left else facts

    def _without_other_credentials(self, session: Session) -> tuple[list[str], list[str]]:
        """Remove named key pairs and tokens; return those removed, and those not removed with the reason."""
        removed, left = list[str](), list[str]()
        for kind in CREDENTIAL_KINDS:
            try:
                found = session.credentials_of(self.user, kind)
            except RefusedError as refused:
                left.append(f"every {kind.lower()}, if there is one: {refused.what}")
                continue
            for credential in found:
                try:
                    session.remove(self.user, credential)
                    removed.append(str(credential))
                except RefusedError as refused:
                    left.append(f"{credential}: {refused.what}")
        return removed, left

    def installed(self, current: Secret | None) -> Facts:
        """Return both slots as they are, or the current key alone if Snowflake says that it is not this user's.

        An empty slot is an empty string. Raises RefusedError if Snowflake could not be asked: an answer would make
        Terraform change keys that work.
        """
        held = {} if current is None else self._held(current)
        return {str(slot): held.get(slot, "") for slot in SLOTS}

    def _held(self, current: Secret) -> dict[Slot, str]:
        try:
            with ExitStack() as stack:
                return self._as_the_user(stack, current).bodies_of(self.user)
        except LoginRefusedError:
            return {SLOTS[0]: Login.of(current).key.body}
        except RefusedError as refused:
            raise RefusedError(
                f"Cannot read the public keys of {self.user}, so none is changed: {refused.what}", hint=UNREAD_HINT
            ) from refused

    def public(self, value: Secret) -> Facts:
        login = Login.of(value)
        return {"user": login.user, "public_key": login.key.body, "fingerprint": login.key.fingerprint}

    def _who_installs(self, versions: Versions) -> Login:
        if self.rotator is None:
            who, whose = versions.current, f"user {self.user}"
        else:
            who, whose = self.rotator(), "rotator"
        if who is None:
            raise RefusedError(
                f"The public key of {self.user} cannot be set: the {whose} has no key to log in with",
                hint=FIRST_KEY_HINT + "; `scripts/deploy.sh create` then sets its public key",
            )
        return Login.of(who)

    def _slot(self, slots: Slots, versions: Versions) -> Slot:
        current = Login.of(versions.current).key.fingerprint if versions.current else None
        slot = free_slot(slots, current, lambda held: held in self._fingerprints(versions))
        if slot is None:
            raise self._occupied(slots, current)
        return slot

    def _fingerprints(self, versions: Versions) -> Iterator[str]:
        """Yield the fingerprints of all keys that were ever in the secret and can still be read."""
        if versions.previous is not None:
            yield Login.of(versions.previous).key.fingerprint
        for value in versions.older():
            if self.holds_key(value):
                yield Login.of(value).key.fingerprint

    def _look_again(self, session: Session, slot: Slot, fingerprint: str | None) -> None:
        found = session.slots_of(self.user).of(slot)
        if found != fingerprint:
            raise RefusedError(
                f"{slot} of {self.user} was changed by another process: expected {fingerprint}, found {found}",
                hint="check whether another tool sets the keys of this user; a concurrent rotation is retried",
            )

    def _occupied(self, slots: Slots, current: str | None) -> SlotOccupiedError:
        found = [f"{held} in {slot}" for slot in SLOTS if (held := slots.of(slot)) not in (None, current)]
        return SlotOccupiedError(
            f"The user {self.user} has a key that was never in its secret: {', '.join(found)}",
            hint=f"find out who uses it, then run `ALTER USER {self.user} UNSET <slot>` to free the slot",
        )

    def _log_in(self, login: Login) -> Facts:
        with self.client.session(login.user, login.key) as session:
            found = session.current_user()
        if found.upper() != login.user.upper():
            raise NotProvenError(
                f"The new key of {login.user} logs in as {found}", hint="give each user a unique login name"
            )
        return {"user": found, "fingerprint": login.key.fingerprint}
