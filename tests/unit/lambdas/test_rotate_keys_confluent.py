"""API keys of Confluent Cloud, by the four steps, with every death in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from io import BytesIO
from itertools import count
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from devcloud.confluent_double import Asked, ConfluentDouble, failure
from frazil.model.errors import ServiceError
from frazil.model.secret import Secret
from lambdas.rotate_keys.confluent_api_key import Cluster, ConfluentApiKey, FlinkRegion, Waiting
from lambdas.rotate_keys.errors import NotProvenError, RotationError, WrongStageError
from lambdas.rotate_keys.rotation import Rotation
from lambdas.rotate_keys.vault import Vault
from shared.confluent_api import ConfluentCloud, KeyPair, NewKey
from tests.fakes.vault_in_memory import CURRENT, PREVIOUS, CrashError, DyingAt, SecretInMemory, VaultInMemory

STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")
WHO = KeyPair("CLOUDKEY", Secret("cloud-secret"))
OWNER = "sa-1"
CLUSTER = Cluster("lkc-1", "https://pkc-1.aws.confluent.cloud", "lsrc-1", "https://psrc-1.aws.confluent.cloud")


class Wire(BaseAdapter):
    """Requests go to the double by a call. `on_call` gets each after it was carried out, and may raise."""

    def __init__(self, double: ConfluentDouble) -> None:
        super().__init__()
        self._double = double
        self.on_call: Callable[[str], None] = lambda _: None

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        authorization = request.headers.get("Authorization", "")
        answer = self._double.answer(Asked(str(request.method), request.path_url, authorization, content))
        self.on_call(f"{request.method} {request.path_url}")
        response = requests.Response()
        response.status_code, response.raw, response.url = answer.status, BytesIO(answer.content), str(request.url)
        return response

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """The account `producer` with its secret, and a clock that only sleeping moves."""

    double: ConfluentDouble
    wire: Wire
    vault: VaultInMemory
    secret: SecretInMemory
    cloud: ConfluentCloud
    kind: ConfluentApiKey
    slept: list[float]

    @property
    def rotation(self) -> Rotation:
        return Rotation(Vault(self.vault, self.secret.arn), self.kind)

    def rotate(self, token: str) -> None:
        self.secret.begin(token)
        self.steps(token)
        self.secret.end()

    def steps(self, token: str) -> None:
        for step in STEPS:
            self.rotation.take(step, token)

    def on_call(self, told: Callable[[str], None]) -> None:
        self.vault.on_call = self.wire.on_call = told

    def works(self, stage: str = CURRENT) -> bool:
        fields = self.secret.fields(stage)
        return all(
            self.cloud.is_known(
                KeyPair(fields[f"{part}_api_key"], Secret(fields[f"{part}_api_secret"])), CLUSTER.probe_url(part)
            )
            for part in self.kind.parts
        )

    @property
    def keys(self) -> list[str]:
        return [key.id for key in self.cloud.keys_of(OWNER)]

    def keys_of(self, *stages: str) -> set[str]:
        return {key for stage in stages for name, key in self.secret.fields(stage).items() if name.endswith("api_key")}


def new_world(*, retained: int = 2, refused_for: int = 0, seconds: float = 600) -> World:
    double = ConfluentDouble(WHO, refused_for=refused_for)
    wire, slept = Wire(double), list[float]()
    session = requests.Session()
    session.mount("https://", wire)
    cloud = ConfluentCloud(WHO, session=session, sleep=slept.append)
    secret = SecretInMemory("frazil/dev/producer", {})
    vault = VaultInMemory(secret)
    waiting = Waiting(lambda: seconds - sum(slept), slept.append)
    kind = ConfluentApiKey("dev", "producer", OWNER, CLUSTER, cloud, retained, waiting)
    return World(double, wire, vault, secret, cloud, kind, slept)


def test_an_empty_secret_gets_a_key_for_each_part() -> None:
    world = new_world()

    world.rotate("11111111-1111")

    assert world.secret.fields().keys() == {
        "kafka_api_key",
        "kafka_api_secret",
        "registry_api_key",
        "registry_api_secret",
    }
    assert world.double.key_names == ["frazil-dev-producer-kafka-11111111", "frazil-dev-producer-registry-11111111"]
    assert world.works()


def test_what_else_is_in_the_secret_stays() -> None:
    world = new_world()
    world.secret.put("by-hand", json.dumps({"note": "of the team"}), [CURRENT])

    world.rotate("one")

    assert world.secret.fields()["note"] == "of the team"


def test_the_first_key_is_kept_before_it_works_and_proven_when_asked() -> None:
    world = new_world(refused_for=5)

    first, again = world.rotation.first_key(), world.rotation.first_key()
    proven = world.rotation.prove_current()

    assert (first["made"], again["made"]) == ("yes", "no")
    assert first.keys() == {"made", "kafka_api_key", "registry_api_key"}
    assert proven == {name: key for name, key in first.items() if name != "made"}
    assert len(world.keys) == 2


@pytest.mark.parametrize("retained", [2, 3])
def test_the_oldest_keys_beyond_the_number_go(retained: int) -> None:
    world = new_world(retained=retained)
    values = []
    for token in ("a", "b", "c", "d"):
        world.rotate(token)
        values.append(world.keys_of(CURRENT))

    assert set(world.keys) == set().union(*values[-retained:])


def test_the_previous_key_goes_on_working() -> None:
    world = new_world()
    world.rotate("a")
    world.rotate("b")

    assert world.works(CURRENT)
    assert world.works(PREVIOUS)


def test_keys_of_others_are_never_deleted() -> None:
    world = new_world(retained=2)
    foreign = [
        world.cloud.make_key(NewKey("made by hand", "", OWNER, "lkc-1")),
        world.cloud.make_key(NewKey("frazil-dev-producer-kafka", "", OWNER, "lkc-2")),
        world.cloud.make_key(NewKey("frazil-dev-producer-kafka", "", "sa-2", "lkc-1")),
    ]
    old = world.cloud.make_key(NewKey("frazil-dev-producer-kafka", "", OWNER, "lkc-1"))

    world.rotate("a")
    world.rotate("b")

    there = [world.cloud.find_key(pair.key) is not None for pair in (*foreign, old)]
    assert there == [True, True, True, False]


def test_a_key_is_promoted_only_when_it_worked_several_times_in_a_row() -> None:
    world = new_world(refused_for=4)
    world.rotate("a")

    assert world.slept.count(2.0) >= 6


def test_a_key_that_does_not_work_in_time_leaves_the_old_one_and_the_next_try_goes_on_waiting() -> None:
    world = new_world()
    world.rotate("a")
    before = world.keys_of(CURRENT)
    world.double._refused_for = 400
    world.secret.begin("b")

    with pytest.raises(NotProvenError, match="kafka: the key is not accepted; registry: the key is not accepted"):
        world.steps("b")

    assert world.keys_of(CURRENT) == before
    assert world.works()
    for kept in world.double._kept.values():
        kept.refused_for = 0
    world.slept.clear()
    world.steps("b")
    assert world.secret.with_stage(CURRENT) == "b"


def test_a_pending_key_that_somebody_deleted_is_said_to_be_deleted() -> None:
    world = new_world()
    world.secret.begin("a")
    made = world.rotation.take("createSecret", "a")
    world.cloud.delete_key(made["kafka_api_key"])

    with pytest.raises(NotProvenError, match="kafka: it was deleted") as refused:
        world.rotation.take("testSecret", "a")

    assert "AWSPENDING" in refused.value.hint


def test_the_function_may_die_anywhere_and_the_repeated_steps_end_well_without_an_orphan() -> None:
    for place in count():
        world = new_world()
        world.rotate("a")
        world.rotate("b")
        world.secret.begin("c")
        world.on_call(dying := DyingAt(place))
        try:
            world.steps("c")
        except CrashError:
            assert world.works(), f"after the death at {place}"
        world.on_call(lambda _: None)
        world.steps("c")
        world.secret.end()
        assert world.secret.with_stage(CURRENT) == "c"
        assert set(world.keys) == world.keys_of(CURRENT, PREVIOUS), f"after the death at {place}"
        assert world.works(CURRENT)
        assert world.works(PREVIOUS)
        if not dying.happened:
            break

    assert place > 20


def test_every_step_may_be_repeated() -> None:
    world = new_world()
    world.secret.begin("a")

    for step in STEPS:
        for _ in range(3):
            world.rotation.take(step, "a")

    assert set(world.keys) == world.keys_of(CURRENT)


def test_the_same_rotation_twice_at_once_leaves_one_key_of_each_part_that_works() -> None:
    """The run that stores second removes the key that it made."""
    world = new_world()
    world.secret.begin("a")
    inside: list[str] = []

    def meanwhile(what: str) -> None:
        if what == "before put_secret_value" and not inside:
            inside.append(what)
            world.secret.put("a", json.dumps({"kafka_api_key": "x", "kafka_api_secret": "y"}), ["AWSPENDING"])

    world.vault.on_call = meanwhile
    told = world.rotation.take("createSecret", "a")

    assert told["made"] == "meanwhile"
    assert world.keys == []


def test_a_late_second_run_with_the_same_token_does_not_delete_the_key_that_was_promoted_meanwhile() -> None:
    """It looked whether the version has a value before the first run stored one."""
    for place in count():
        world = new_world()
        world.rotate("a")
        world.secret.begin("b")
        begun: list[str] = []

        def overtaken(what: str, *, world: World = world, begun: list[str] = begun, left: int = place) -> None:
            begun.append(what)
            if len(begun) == left + 1:
                world.steps("b")

        world.on_call(overtaken)
        with suppress(RotationError):
            world.rotation.take("createSecret", "b")
        world.on_call(lambda _: None)
        if len(begun) <= place:
            break
        assert world.secret.with_stage(CURRENT) == "b"
        assert world.works(CURRENT), f"overtaken at {place}, {begun[place]}"
        assert world.works(PREVIOUS)
        assert set(world.keys) == world.keys_of(CURRENT, PREVIOUS)

    assert place > 5


def test_two_create_steps_with_one_token_at_once_leave_the_key_that_was_stored() -> None:
    """The second begins and ends wherever the first is; then the rotation continues."""
    for place in count():
        world = new_world()
        world.rotate("a")
        world.secret.begin("b")
        begun: list[str] = []

        def second(what: str, *, world: World = world, begun: list[str] = begun, left: int = place) -> None:
            begun.append(what)
            if len(begun) == left + 1:
                world.rotation.take("createSecret", "b")

        world.on_call(second)
        world.rotation.take("createSecret", "b")
        world.on_call(lambda _: None)
        if len(begun) <= place:
            break
        world.steps("b")
        assert world.works(CURRENT), f"overtaken at {place}, {begun[place]}"
        assert set(world.keys) == world.keys_of(CURRENT, PREVIOUS)

    assert place > 5


def test_a_late_finish_of_the_rotation_before_leaves_a_key_that_is_about_to_be_stored() -> None:
    world = new_world()
    for token in ("a", "b"):
        world.rotate(token)
    world.secret.begin("c")
    finished: list[str] = []

    def late(what: str) -> None:
        if what == "before put_secret_value" and not finished:
            finished.append(what)
            world.rotation.take("finishSecret", "b")

    world.on_call(late)
    world.rotation.take("createSecret", "c")
    world.on_call(lambda _: None)
    world.steps("c")

    assert finished
    assert world.secret.with_stage(CURRENT) == "c"
    assert world.works(CURRENT)


def test_a_key_of_an_abandoned_rotation_goes_before_one_that_clients_may_use() -> None:
    """The abandoned one is younger, and its secret is lost."""
    world = new_world(retained=3)
    for token in ("a", "b"):
        world.rotate(token)
    used = world.keys_of(CURRENT, PREVIOUS)
    world.secret.begin("abandoned")
    world.on_call(DyingAt(len(world.kind.parts) * 1 + 3))
    with suppress(CrashError):
        world.rotation.take("createSecret", "abandoned")
    world.on_call(lambda _: None)
    orphans = set(world.keys) - used
    assert orphans

    world.rotate("c")

    assert set(world.keys) >= used | world.keys_of(CURRENT)


def test_keys_are_not_deleted_where_another_rotation_came_in_between() -> None:
    world = new_world()
    for token in ("a", "b"):
        world.rotate(token)
    rotated: list[str] = []

    def another(what: str) -> None:
        if what.startswith("GET /iam/v2/api-keys?") and not rotated:
            rotated.append(what)
            world.rotate("c")

    world.wire.on_call = another
    with pytest.raises(WrongStageError, match="ran at the same time"):
        world.rotation.revoke_others()

    assert world.works(CURRENT)


def test_all_pages_of_versions_are_read() -> None:
    world = new_world()
    for token in ("a", "b", "c"):
        world.rotate(token)
    world.vault.page = 1

    assert world.rotation.vault.made_at() == 2
    assert len(list(world.rotation.vault.older())) == 1


@pytest.mark.parametrize("status", [HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE])
def test_an_outage_fails_the_step_and_keeps_the_old_key(status: HTTPStatus) -> None:
    world = new_world()
    world.rotate("a")
    world.secret.begin("b")
    world.double.next_answers += [failure(status, "down")] * 50

    with pytest.raises(ServiceError, match="down"):
        world.rotation.take("createSecret", "b")

    world.double.next_answers.clear()
    assert world.works()
    world.steps("b")
    assert world.secret.with_stage(CURRENT) == "b"


def test_an_account_without_a_key_of_its_own_part_is_no_key_holder() -> None:
    world = new_world()

    assert not world.kind.holds_key(Secret("not json"))
    assert not world.kind.holds_key(Secret("[]"))
    assert not world.kind.holds_key(Secret(json.dumps({"kafka_api_key": "k", "kafka_api_secret": "s"})))


def test_a_leaked_key_is_deleted_at_once_and_so_is_every_other_but_the_current_one() -> None:
    world = new_world(retained=3)
    by_hand = world.cloud.make_key(NewKey("made by hand", "", OWNER, "lkc-1"))
    for token in ("a", "b", "c"):
        world.rotate(token)

    told = world.rotation.revoke_others()
    again = world.rotation.revoke_others()

    assert set(world.keys) == world.keys_of(CURRENT) | {by_hand.key}
    assert world.works()
    assert told["left"] == again["left"]
    assert by_hand.key in told["left"]


@pytest.mark.parametrize("resource", ["lkc-1", "lkc-9", "cloud"])
def test_keys_of_the_account_under_other_names_are_reported_after_a_leak(resource: str) -> None:
    """A holder of the Cloud API key can make keys of any name for the account, for any resource."""
    world = new_world()
    world.rotate("a")
    foreign = world.cloud.make_key(NewKey("totally-normal", "", OWNER, resource))

    told = world.rotation.revoke_others()

    assert told["left"] == f"{foreign.key} (named totally-normal, for {resource})"


def test_nothing_is_reported_after_a_leak_where_every_key_is_ours() -> None:
    world = new_world()
    world.rotate("a")
    world.rotate("b")

    told = world.rotation.revoke_others()

    assert "left" not in told
    assert told["deleted"]


def test_nothing_is_deleted_while_the_current_key_does_not_work() -> None:
    world = new_world()
    world.rotate("a")
    world.rotate("b")
    world.cloud.delete_key(world.secret.fields()["kafka_api_key"])
    before = world.keys

    with pytest.raises(NotProvenError, match="kafka: it was deleted"):
        world.rotation.revoke_others()

    assert world.keys == before


@pytest.mark.parametrize("part", ["kafka", "registry"])
def test_a_first_key_is_made_again_where_the_one_in_the_secret_was_deleted(part: str) -> None:
    world = new_world()
    world.rotation.first_key()
    before = world.secret.fields()
    world.cloud.delete_key(before[f"{part}_api_key"])

    made, again = world.rotation.first_key(), world.rotation.first_key()

    assert (made["made"], again["made"]) == ("yes", "no")
    assert world.works()
    assert world.secret.fields(PREVIOUS) == before


def test_a_first_key_is_made_again_for_another_cluster() -> None:
    world = new_world()
    world.rotation.first_key()
    moved = replace(world.kind, cluster=replace(CLUSTER, cluster_id="lkc-9"))

    assert Rotation(Vault(world.vault, world.secret.arn), moved).first_key()["made"] == "yes"


def test_a_first_key_that_dies_anywhere_leaves_no_orphan_behind_the_next() -> None:
    for calls in count():
        world = new_world()
        dying = DyingAt(calls)
        world.on_call(dying)
        with suppress(CrashError):
            world.rotation.first_key()
        world.on_call(lambda _: None)
        world.rotation.first_key()
        assert set(world.keys) == world.keys_of(CURRENT), f"died at call {calls}"
        if not dying.happened:
            return


FLINK = FlinkRegion(
    "aws.us-east-1",
    "env-1",
    "https://flink.us-east-1.aws.confluent.cloud/sql/v1/organizations/org/environments/env-1/statements",
)


def test_a_key_of_flink_is_for_a_region_in_an_environment() -> None:
    world = new_world()
    world.kind = replace(world.kind, account="flink", cluster=replace(CLUSTER, flink=FLINK))

    first, again = world.rotation.first_key(), world.rotation.first_key()

    (key,) = world.cloud.keys_of(OWNER)
    assert (key.resource, key.name.startswith("frazil-dev-flink-flink-")) == ("env-1.aws.us-east-1", True)
    assert (first["made"], first["flink_api_key"]) == ("yes", key.id)
    assert (again["made"], again["flink_api_key"]) == ("no", key.id)
    assert world.rotation.prove_current()["flink_api_key"] == key.id


@pytest.mark.parametrize(
    ("resource", "opens"),
    [
        ("aws.us-east-1", True),
        ("env-1.aws.us-east-1", True),
        ("env-1.AWS.us-east-1", True),
        ("env-2.aws.us-east-1", False),
        ("env-1.aws.eu-west-1", False),
    ],
)
def test_both_names_of_a_region_of_flink_are_known(resource: str, opens: bool) -> None:
    assert replace(CLUSTER, flink=FLINK).is_opened_by("flink", resource) is opens
