"""Users and secrets of Snowflake that are made again, and who may see and set whose keys."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count

import pytest
from snowflake_world import ACCOUNT, FOREIGN, STEPS, World, new_world

from devcloud.snowflake_double import MODIFY, MONITOR, SqlError
from frazil.model.secret import Secret
from lambdas.rotate_keys.errors import RotationError
from lambdas.rotate_keys.rotation import Rotation
from lambdas.rotate_keys.snowflake_rsa import Login, SnowflakeRsa
from shared.rsa_key import RsaKey
from shared.snowflake_login import SLOTS, RefusedError
from tests.fakes.vault_in_memory import CURRENT, PREVIOUS, CrashError, DyingAt


def apply_terraform(world: World) -> None:
    """Put the keys that the function returns at that moment into the user, as the user's owner."""
    told = world.rotation.installed_keys()
    world.double.users.make("LOADER").keys = {slot: told[slot] for slot in SLOTS if told[slot]}
    world.double.grant(MODIFY, on="LOADER", to="ROTATOR")


@pytest.mark.parametrize("rotations", [0, 1, 2, 3])
def test_a_user_that_is_made_again_gets_the_current_key_and_rotates_on(world: World, rotations: int) -> None:
    for number in range(rotations):
        world.rotate(f"before-{number}")

    world.double.users.drop("LOADER")
    apply_terraform(world)

    assert world.logs_in(CURRENT)
    world.rotate("after")
    assert world.logs_in(CURRENT)
    assert world.logs_in(PREVIOUS)


@pytest.mark.parametrize("by_terraform", [True, False])
def test_a_secret_that_is_made_again_lets_its_user_in_and_rotates_on(world: World, by_terraform: bool) -> None:
    """Its user holds lost keys: the next `create` repairs it, and so does the next rotation."""
    world.rotate("before")
    world.secret.versions.clear()
    world.rotation.first_key()
    locked_out = not world.logs_in(CURRENT)
    if by_terraform:
        apply_terraform(world)
        assert world.logs_in(CURRENT)

    world.rotate("after")

    assert locked_out
    assert world.logs_in(CURRENT)
    assert world.logs_in(PREVIOUS)


def test_a_secret_that_is_made_again_heals_a_user_that_no_other_may_change_by_terraform_alone(world: World) -> None:
    """So it is with the rotator."""
    kind = SnowflakeRsa(ACCOUNT, "LOADER", 2048, world.client, rotator=None, sleep=lambda _: None)
    world.rotation = Rotation(world.rotation.vault, kind)
    world.double.users["LOADER"].keys = {"RSA_PUBLIC_KEY": FOREIGN.body}
    world.double.grant(MODIFY, on="LOADER", to="LOADER")
    world.secret.begin("one")

    with pytest.raises(RefusedError, match="cannot log in with its current key") as refused:
        world.steps("one")
    apply_terraform(world)
    world.steps("one")

    assert "deploy.sh create" in refused.value.hint
    assert world.secret.with_stage(CURRENT) == "one"
    assert world.logs_in(CURRENT)


def test_what_terraform_is_told_after_a_rotation_is_what_the_user_has(world: World) -> None:
    for token in ("one", "two", "three"):
        world.rotate(token)

        assert world.rotation.installed_keys() == world.double.users["LOADER"].keys
        assert "" not in world.rotation.installed_keys().values()


def test_terraform_is_told_of_empty_slots(world: World) -> None:
    told = world.rotation.installed_keys()
    world.secret.versions.clear()

    assert [bool(told[slot]) for slot in SLOTS] == [True, False]
    assert world.rotation.installed_keys() == dict.fromkeys(SLOTS, "")


def test_an_outage_changes_no_slot(world: World) -> None:
    """An answer of the current key alone would have Terraform empty the slot of the key before."""
    world.rotate("one")
    before = dict(world.double.users["LOADER"].keys)

    for died_at in ("login", "DESC"):
        world.client.on_call = lambda what, died_at=died_at: fail_at(what, died_at)  # type: ignore[misc]
        with pytest.raises(RefusedError, match="Cannot read the public keys of LOADER, so none is changed: 390422"):
            apply_terraform(world)

    world.nobody_dies()
    assert world.double.users["LOADER"].keys == before
    assert world.logs_in(PREVIOUS)


def fail_at(what: str, place: str) -> None:
    if what == place:
        raise RefusedError("390422, Incoming request with IP 203.0.113.1 is not allowed", hint="-")


def test_a_user_that_is_locked_out_is_let_in_wherever_the_function_dies_and_repeats_its_steps() -> None:
    for place in count():
        world = new_world()
        world.double.users["LOADER"].keys = {"RSA_PUBLIC_KEY": FOREIGN.body, "RSA_PUBLIC_KEY_2": FOREIGN.body}
        world.secret.begin("one")
        world.on_call(dying := DyingAt(place))
        with suppress(CrashError):
            world.steps("one")
        world.nobody_dies()
        world.steps("one")
        assert world.secret.with_stage(CURRENT) == "one"
        assert world.logs_in(CURRENT), f"after the death at {place}"
        if not dying.happened:
            break

    assert place > 10


@pytest.mark.parametrize("step", STEPS)
def test_a_user_that_is_made_again_between_two_steps_rotates_on(world: World, step: str) -> None:
    world.rotate("before")
    world.secret.begin("one")
    for each in STEPS:
        if each == step:
            world.double.users.drop("LOADER")
            apply_terraform(world)
        with suppress(RotationError):
            world.rotation.take(each, "one")  # type: ignore[arg-type]

    world.steps("one")  # as Secrets Manager repeats them

    assert world.secret.with_stage(CURRENT) == "one"
    assert world.logs_in(CURRENT)


def test_nobody_but_a_user_and_its_owner_may_describe_it(world: World) -> None:
    world.double.grant(MODIFY, MONITOR, on="LOADER", to="ROTATOR")

    with pytest.raises(SqlError, match="Insufficient privileges"):
        world.double.execute("ROTATOR", "DESC USER LOADER")


def test_the_rotator_never_asks_for_what_the_documentation_does_not_grant(world: World) -> None:
    """It may set keys, and nothing else: reading is left to the user itself."""
    world.rotate("one")
    world.rotation.revoke_others()

    assert world.double.users["ROTATOR"].may == {"LOADER": {MODIFY}}
    assert {user for user, _ in world.double.logins} == {"LOADER", "ROTATOR"}


def test_without_a_current_key_the_new_one_is_in_one_slot_and_no_other_key_is_left() -> None:
    world = new_world()
    world.double.execute("ROTATOR", f"ALTER USER LOADER SET RSA_PUBLIC_KEY_2 = '{FOREIGN.body}'")
    world.secret.versions.clear()

    world.rotate("first")

    new = Login.of(Secret(json.dumps(world.secret.fields()))).key.body
    assert world.double.users["LOADER"].keys == {"RSA_PUBLIC_KEY_2": new}


def test_the_double_refuses_one_key_in_both_slots_as_snowflake_does() -> None:
    world, key = new_world(), RsaKey.new(2048).body

    with pytest.raises(SqlError, match="cannot hold the same key"):
        world.double.execute("ROTATOR", f"ALTER USER LOADER SET RSA_PUBLIC_KEY = '{key}' RSA_PUBLIC_KEY_2 = '{key}'")

    assert key not in world.double.users["LOADER"].keys.values()
