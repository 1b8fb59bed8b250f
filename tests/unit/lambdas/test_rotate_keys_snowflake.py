"""Keys of Snowflake's users, by the four steps, with every death in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest
from snowflake_world import ACCOUNT, FOREIGN, STEPS, World, new_world

from devcloud.snowflake_double import MODIFY, MONITOR, SnowflakeDouble
from frazil.model.secret import Secret
from lambdas.rotate_keys.errors import NotProvenError, RotationError, SlotOccupiedError, WrongStageError
from lambdas.rotate_keys.rotation import Rotation
from lambdas.rotate_keys.snowflake_rsa import Login, SnowflakeRsa, free_slot
from lambdas.rotate_keys.vault import Vault
from shared.rsa_key import RsaKey
from shared.snowflake_login import RefusedError, Slot, Slots
from tests.fakes.snowflake_in_memory import SnowflakeInMemory
from tests.fakes.vault_in_memory import (
    CURRENT,
    PENDING,
    PREVIOUS,
    CrashError,
    DyingAt,
    SecretInMemory,
    StaleError,
    VaultInMemory,
)


def test_the_first_key_is_made_once_and_tells_its_public_half_only() -> None:
    secret = SecretInMemory("s", {})
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, SnowflakeInMemory(SnowflakeDouble(ACCOUNT)))
    rotation = Rotation(Vault(VaultInMemory(secret), "s"), kind)

    first, second = rotation.first_key(), rotation.first_key()

    fields = secret.fields()
    key = RsaKey.of_pem(Secret(fields["private_key"]))
    assert first == {"made": "yes", "user": "LOADER", "public_key": key.body, "fingerprint": key.fingerprint}
    assert second == first | {"made": "no"}
    assert fields.keys() == {"account", "user", "private_key"}
    assert fields["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")


def test_two_first_keys_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = SecretInMemory("s", {})
    client = VaultInMemory(secret)
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, SnowflakeInMemory(SnowflakeDouble(ACCOUNT)))
    other: list[object] = []

    def meanwhile(what: str) -> None:
        if what == "describe_secret" and not other:
            other.append("begun")
            other.append(Rotation(Vault(client, "s"), kind).first_key()["public_key"])

    client.on_call = meanwhile
    told = Rotation(Vault(client, "s"), kind).first_key()

    assert (told["made"], told["public_key"]) == ("no", other[1])


def test_what_somebody_put_into_the_secret_to_begin_with_gives_way_to_the_first_key() -> None:
    secret = SecretInMemory("s", {})
    secret.put("placeholder", "{}", [CURRENT])
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, SnowflakeInMemory(SnowflakeDouble(ACCOUNT)))

    told = Rotation(Vault(VaultInMemory(secret), "s"), kind).first_key()

    assert (told["made"], secret.fields()["user"]) == ("yes", "LOADER")


def test_a_rotation_moves_to_the_other_slot_and_the_old_key_goes_on_working(world: World) -> None:
    world.rotate("one")
    after_one = (world.slot_of(CURRENT), world.slot_of(PREVIOUS))
    world.rotate("two")
    after_two = (world.slot_of(CURRENT), world.slot_of(PREVIOUS))

    assert after_one == ("RSA_PUBLIC_KEY_2", "RSA_PUBLIC_KEY")
    assert after_two == ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")
    assert world.logs_in(CURRENT)
    assert world.logs_in(PREVIOUS)


def test_the_key_has_the_bits_that_are_asked_for(world: World) -> None:
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 4096, world.client)

    made = Login.of(kind.make(version="v", current=None))

    assert len(made.key.body) > 700


def test_the_function_may_die_anywhere_and_the_repeated_steps_end_well() -> None:
    """Everything that is called is counted, over all four steps, and each count is a place to die."""
    for place in count():
        world = new_world()
        world.rotate("one")
        world.secret.begin("two")
        world.on_call(dying := DyingAt(place))
        try:
            world.steps("two")
        except CrashError:
            assert world.logs_in(CURRENT), f"after the death at {place}"
        world.nobody_dies()
        world.steps("two")
        world.secret.end()
        assert world.secret.with_stage(CURRENT) == "two"
        assert (world.slot_of(CURRENT), world.slot_of(PREVIOUS)) == ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")
        if not dying.happened:
            break

    assert place > 15


def test_an_abandoned_rotation_leaves_a_key_that_the_next_one_replaces() -> None:
    """Whatever it had done: the label of its version is taken by the next rotation."""
    for place in count():
        world = new_world()
        world.secret.begin("abandoned")
        world.on_call(dying := DyingAt(place))
        with suppress(CrashError):
            world.steps("abandoned")
        world.nobody_dies()
        world.rotate("next")
        assert world.secret.with_stage(CURRENT) == "next"
        assert world.logs_in(CURRENT)
        if not dying.happened:
            break


def test_every_step_may_be_repeated(world: World) -> None:
    world.secret.begin("one")

    for step in STEPS:
        for _ in range(3):
            world.rotation.take(step, "one")

    assert world.secret.with_stage(CURRENT) == "one"
    assert world.slot_of(CURRENT) == "RSA_PUBLIC_KEY_2"
    assert sum("ALTER" in statement for statement in world.double.statements) == 1


@pytest.mark.parametrize("step", STEPS)
def test_a_version_that_is_not_rotated_is_refused(world: World, step: str) -> None:
    world.rotate("one")
    world.rotate("two")
    world.rotate("three")

    for version in ("never-heard-of", "one"):
        with pytest.raises(WrongStageError, match="is not being rotated"):
            world.rotation.take(step, version)

    assert world.secret.with_stage(CURRENT) == "three"


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_step_out_of_order_is_refused(world: World, step: str) -> None:
    world.secret.begin("one")

    with pytest.raises(WrongStageError, match="has no value: createSecret must run first"):
        world.rotation.take(step, "one")


def test_a_key_that_was_never_set_is_not_promoted(world: World) -> None:
    before = world.secret.with_stage(CURRENT)
    world.secret.begin("one")
    world.rotation.take("createSecret", "one")

    with pytest.raises(NotProvenError, match="FINGERPRINT_MISMATCH"):
        world.rotation.take("finishSecret", "one")

    assert world.secret.with_stage(CURRENT) == before
    assert world.logs_in(CURRENT)


@pytest.mark.parametrize("rotations", [0, 1])
def test_a_foreign_key_is_not_overwritten(world: World, rotations: int) -> None:
    for number in range(rotations):
        world.rotate(str(number))
    slot = "RSA_PUBLIC_KEY_2" if rotations == 0 else "RSA_PUBLIC_KEY"
    world.double.users["LOADER"].keys[slot] = FOREIGN.body
    world.secret.begin("new")
    world.rotation.take("createSecret", "new")

    with pytest.raises(SlotOccupiedError, match=f"has a key that was never in its secret: .* in {slot}") as refused:
        world.rotation.take("setSecret", "new")

    assert "UNSET" in refused.value.hint
    assert world.double.users["LOADER"].keys[slot] == FOREIGN.body
    assert world.logs_in(CURRENT)


def test_a_foreign_key_that_was_unset_lets_the_rotation_go_on(world: World) -> None:
    world.double.users["LOADER"].keys["RSA_PUBLIC_KEY_2"] = FOREIGN.body
    world.secret.begin("one")
    with pytest.raises(SlotOccupiedError):
        world.steps("one")

    del world.double.users["LOADER"].keys["RSA_PUBLIC_KEY_2"]
    world.steps("one")

    assert world.secret.with_stage(CURRENT) == "one"


@pytest.mark.parametrize("granted", [(), (MONITOR,)])
def test_a_rotator_without_the_privilege_is_refused_and_the_old_key_works(
    world: World, granted: tuple[str, ...]
) -> None:
    world.double.users["ROTATOR"].may["LOADER"] = set(granted)
    before = world.secret.with_stage(CURRENT)
    world.secret.begin("one")

    with pytest.raises(RefusedError, match=r"Insufficient privileges|not authorized"):
        world.steps("one")

    assert world.secret.with_stage(CURRENT) == before
    assert world.logs_in(CURRENT)


def test_the_rotator_rotates_itself_with_its_own_key() -> None:
    world = new_world()
    world.double.grant(MODIFY, on="LOADER", to="LOADER")
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, world.client, rotator=None, sleep=lambda _: None)
    world.rotation = Rotation(world.rotation.vault, kind)

    world.rotate("one")
    world.rotate("two")

    assert {user for user, _ in world.double.logins} == {"LOADER"}
    assert world.slot_of(CURRENT) == "RSA_PUBLIC_KEY"


def test_a_user_that_rotates_itself_needs_a_first_key() -> None:
    secret = SecretInMemory("s", {})
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, SnowflakeInMemory(SnowflakeDouble(ACCOUNT)))
    rotation = Rotation(Vault(VaultInMemory(secret), "s"), kind)
    secret.begin("one")
    rotation.take("createSecret", "one")

    with pytest.raises(RefusedError, match="has no key to log in with"):
        rotation.take("setSecret", "one")


def test_of_two_rotations_at_once_one_wins_and_its_key_works() -> None:
    """The second takes the label of the first, at every moment of the first."""
    for place in count():
        world = new_world()
        world.secret.begin("first")
        begun: list[str] = []

        def overtaken(what: str, *, world: World = world, begun: list[str] = begun, left: int = place) -> None:
            begun.append(what)
            if len(begun) == left + 1:
                world.rotate("second")

        world.vault.on_call = world.client.on_call = overtaken
        with suppress(RotationError, RefusedError, StaleError):
            world.steps("first")
        assert world.logs_in(CURRENT), f"overtaken at {place}"
        if len(begun) <= place:
            break

    assert place > 15


def test_the_same_rotation_twice_at_once_is_one(world: World) -> None:
    world.secret.begin("one")
    inside: list[str] = []

    def meanwhile(what: str) -> None:
        if what == "before put_secret_value" and not inside:
            inside.append(what)
            world.steps("one")

    world.vault.on_call = meanwhile
    world.steps("one")

    assert world.secret.with_stage(CURRENT) == "one"
    assert world.logs_in(CURRENT)


@pytest.mark.parametrize(
    ("slots", "current", "ours", "found"),
    [
        (Slots(None, None), None, (), "RSA_PUBLIC_KEY"),
        (Slots("a", None), "a", (), "RSA_PUBLIC_KEY_2"),
        (Slots(None, "a"), "a", (), "RSA_PUBLIC_KEY"),
        (Slots("a", "b"), "a", ("b",), "RSA_PUBLIC_KEY_2"),
        (Slots("b", "a"), "a", ("b",), "RSA_PUBLIC_KEY"),
        (Slots("a", "x"), "a", ("b",), None),
        (Slots("x", "a"), "a", ("b",), None),
        (Slots("x", "y"), "a", (), None),
        (Slots("x", None), "a", (), "RSA_PUBLIC_KEY_2"),
        (Slots("b", None), "a", ("b",), "RSA_PUBLIC_KEY_2"),
        (Slots("x", "b"), "a", ("b",), "RSA_PUBLIC_KEY_2"),
        (Slots("a", "a"), "a", ("a",), "RSA_PUBLIC_KEY_2"),
    ],
)
def test_where_a_new_key_may_go(slots: Slots, current: str | None, ours: tuple[str, ...], found: Slot | None) -> None:
    assert free_slot(slots, current, lambda held: held in ours) == found


def test_a_login_that_fails_at_first_is_tried_again_and_not_for_ever(world: World) -> None:
    world.secret.begin("one")
    world.rotation.take("createSecret", "one")
    before = len(world.double.failures)

    with pytest.raises(NotProvenError):
        world.rotation.take("testSecret", "one")

    assert len(world.double.failures) - before <= 4, "five in a row lock a user"


def test_no_key_is_in_the_text_of_a_value_or_of_an_error(world: World) -> None:
    value = Secret('{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE'.replace("\\n", "\n"))

    with pytest.raises(ValueError, match="expected JSON") as refused:
        Login.of(value)

    login = Login.of(Secret(json.dumps(world.secret.fields())))
    assert "PRIVATE" not in f"{refused.value!r} {refused.value.__cause__!r} {login!r} {login.key!r} {login.value()!r}"
    assert PENDING not in world.secret.versions


def test_a_leaked_key_is_out_at_once_and_the_new_one_works(world: World) -> None:
    world.rotate("one")

    first, again = world.rotation.revoke_others(), world.rotation.revoke_others()

    assert world.logs_in(CURRENT)
    assert not world.logs_in(PREVIOUS)
    assert (first["deleted"], again["deleted"]) == (world.fingerprint(PREVIOUS), "")
    world.rotate("two")
    assert world.logs_in(CURRENT)


def test_a_leak_takes_foreign_keys_named_key_pairs_and_tokens_away(world: World) -> None:
    loader = world.double.users["LOADER"]
    loader.keys["RSA_PUBLIC_KEY_2"] = FOREIGN.body
    loader.credentials = {"KEY PAIR": ["THEIRS"], "PROGRAMMATIC ACCESS TOKEN": ["OLD", "OLDER"]}

    told = world.rotation.revoke_others()

    assert loader.keys.keys() == {"RSA_PUBLIC_KEY"}
    assert loader.credentials == {"KEY PAIR": [], "PROGRAMMATIC ACCESS TOKEN": []}
    tokens = "programmatic access token OLD, programmatic access token OLDER"
    assert told["deleted"] == f"{FOREIGN.fingerprint}, key pair THEIRS, {tokens}"
    assert "left" not in told
    assert world.logs_in(CURRENT)


def test_what_cannot_be_listed_or_removed_is_named(world: World) -> None:
    loader = world.double.users["LOADER"]
    loader.credentials = {"KEY PAIR": ["THEIRS"], "PROGRAMMATIC ACCESS TOKEN": ["OLD"]}
    listed = world.client.session

    @contextmanager
    def poor(user: str, key: RsaKey) -> Iterator[Any]:
        with listed(user, key) as session:
            yield Poor(session)

    world.client.session = poor  # type: ignore[method-assign]

    told = world.rotation.revoke_others()

    assert told["left"] == "every key pair, if there is one: not known; programmatic access token OLD: not allowed"


class Poor:
    """A session that may not list key pairs, nor remove anything."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def credentials_of(self, user: str, kind: str) -> Any:
        if kind == "KEY PAIR":
            raise RefusedError("not known", hint="-")
        return self._session.credentials_of(user, kind)

    def remove(self, user: str, credential: Any) -> None:
        raise RefusedError("not allowed", hint="-")


def test_nothing_is_taken_away_while_the_current_key_does_not_work(world: World) -> None:
    world.rotate("one")
    held = world.double.users["LOADER"].keys
    held["RSA_PUBLIC_KEY_2"] = FOREIGN.body

    with pytest.raises(NotProvenError):
        world.rotation.revoke_others()

    assert world.logs_in(PREVIOUS)


@pytest.mark.parametrize("has_key", [False, True])
def test_the_test_of_a_rotation_that_is_switched_on_before_the_user_is_there_passes(has_key: bool) -> None:
    secret = SecretInMemory("s", {})
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, SnowflakeInMemory(SnowflakeDouble(ACCOUNT)))
    rotation = Rotation(Vault(VaultInMemory(secret), "s"), kind)
    if has_key:
        rotation.first_key()
    secret.begin("try-out")
    secret.versions["try-out"].value = secret.versions[first].value if (first := secret.with_stage(CURRENT)) else None

    told = rotation.take("testSecret", "try-out")

    assert told == {"made": "before"}
