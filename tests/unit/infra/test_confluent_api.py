"""Confluent Cloud's API: what is retried, what is refused, and what is never printed."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from confluent_in_memory import WHO, Wire, cloud_over

from devcloud.confluent_double import ConfluentDouble, failure
from frazil.model.errors import ServiceError, SettingError
from frazil.model.secret import Secret
from shared.confluent_api import (
    ATTEMPTS,
    LONGEST_PAUSE_SECONDS,
    ApiKey,
    ConfluentCloud,
    KeyPair,
    NewKey,
    address_from_environment,
    key_from_environment,
)

WANTED = NewKey(name="frazil-dev-manager-kafka", description="test", owner="sa-1", resource="lkc-1")
TOPICS = "https://pkc-1.us-east-1.aws.confluent.cloud:443/kafka/v3/clusters/lkc-1/topics"


@pytest.fixture
def double() -> ConfluentDouble:
    return ConfluentDouble(WHO)


@pytest.fixture
def wire(double: ConfluentDouble) -> Wire:
    return Wire(double)


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def cloud(wire: Wire, slept: list[float]) -> ConfluentCloud:
    return cloud_over(wire, slept)


def test_a_key_is_made_listed_found_and_deleted(cloud: ConfluentCloud) -> None:
    made = cloud.make_key(WANTED)
    listed, found = cloud.keys_of("sa-1"), cloud.find_key(made.key)
    cloud.delete_key(made.key)

    assert listed == [found] == [ApiKey(made.key, "sa-1", "lkc-1", "frazil-dev-manager-kafka")]
    assert cloud.keys_of("sa-1") == []
    assert cloud.find_key(made.key) is None


def test_a_secret_is_in_no_text_of_a_key(cloud: ConfluentCloud) -> None:
    made = cloud.make_key(WANTED)

    assert made.secret.reveal() not in f"{made} {made!r} {cloud.keys_of('sa-1')}"


def test_all_pages_of_a_list_are_read_and_no_other_account_is_on_them(cloud: ConfluentCloud, wire: Wire) -> None:
    for number in range(250):
        cloud.make_key(NewKey(name=f"key {number}", description="", owner=f"sa-{number % 2}", resource="lkc-1"))

    names = [key.name for key in cloud.keys_of("sa-0")]

    assert names == [f"key {number}" for number in range(0, 250, 2)]
    assert sum(asked.startswith("GET") for asked in wire.asked) == 2


def test_that_a_key_is_gone_already_is_fine(cloud: ConfluentCloud, wire: Wire) -> None:
    cloud.delete_key("GONE")

    assert [asked.split()[0] for asked in wire.asked] == ["DELETE"], "once: it is not asked for again"


def test_a_wrong_cloud_api_key_is_named_and_its_secret_is_not(wire: Wire, slept: list[float]) -> None:
    cloud = cloud_over(wire, slept, KeyPair("WRONG", Secret("hush")))

    with pytest.raises(SettingError, match=r"does not let WRONG POST .*credentials must be provided") as refused:
        cloud.make_key(WANTED)

    assert "CONFLUENT_CLOUD_API_SECRET" in refused.value.hint
    assert "hush" not in str(refused.value)
    assert slept == []


def test_a_quota_is_told_with_what_to_do_and_not_asked_again(slept: list[float]) -> None:
    wire = Wire(ConfluentDouble(WHO, quota=0))

    with pytest.raises(ServiceError, match="402, the quota of 0 API keys is used up") as refused:
        cloud_over(wire, slept).make_key(WANTED)

    assert "delete unused keys" in refused.value.hint
    assert len(wire.asked) == 1


@pytest.mark.parametrize("status", [HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE])
def test_reading_goes_on_after_a_failure_that_passes(
    cloud: ConfluentCloud, double: ConfluentDouble, slept: list[float], status: HTTPStatus
) -> None:
    double.next_answers = [failure(status, "out of gas")] * 2

    assert cloud.keys_of("sa-1") == []
    assert len(slept) == 2
    assert slept[0] < slept[1]


def test_reading_goes_on_after_an_answer_got_lost(cloud: ConfluentCloud, wire: Wire, slept: list[float]) -> None:
    wire.losing = ["GET"]

    assert cloud.keys_of("sa-1") == []
    assert len(slept) == 1


@pytest.mark.parametrize(("told", "waited"), [("7", 7.0), ("86400", LONGEST_PAUSE_SECONDS)])
def test_asked_too_often_even_making_waits_as_long_as_the_service_says_within_a_bound(
    cloud: ConfluentCloud, double: ConfluentDouble, slept: list[float], told: str, waited: float
) -> None:
    double.next_answers = [failure(HTTPStatus.TOO_MANY_REQUESTS, "slow down", {"Retry-After": told})]

    cloud.make_key(WANTED)

    assert slept == [waited]
    assert double.key_names == [WANTED.name]


def test_a_failure_that_stays_is_told_after_a_bounded_number_of_attempts(
    cloud: ConfluentCloud, double: ConfluentDouble, wire: Wire
) -> None:
    double.next_answers = [failure(HTTPStatus.TOO_MANY_REQUESTS, "slow down")] * 100

    with pytest.raises(ServiceError, match="asked too often: 429, slow down"):
        cloud.keys_of("sa-1")

    assert len(wire.asked) == ATTEMPTS


@pytest.mark.parametrize("lost", [True, False])
def test_making_a_key_is_never_repeated_where_it_may_have_been_made(
    cloud: ConfluentCloud, double: ConfluentDouble, wire: Wire, lost: bool
) -> None:
    wire.losing = ["POST"] if lost else []
    double.next_answers = [] if lost else [failure(HTTPStatus.BAD_GATEWAY, "nobody knows")]

    with pytest.raises(ServiceError):
        cloud.make_key(WANTED)

    assert len(wire.asked) == 1
    assert double.key_names == ([WANTED.name] if lost else [])


def test_an_answer_that_is_not_the_api_s_is_still_told(cloud: ConfluentCloud, double: ConfluentDouble) -> None:
    failed = failure(HTTPStatus.BAD_REQUEST, "")
    double.next_answers = [type(failed)(failed.status, ["a proxy's page"])]

    with pytest.raises(ServiceError, match=r"refused GET .*: 400, nothing more"):
        cloud.keys_of("sa-1")


def test_a_key_works_some_time_after_it_was_made_and_for_its_own_resource_only(slept: list[float]) -> None:
    cloud = cloud_over(Wire(ConfluentDouble(WHO, refused_for=2)), slept)
    made = cloud.make_key(WANTED)

    assert [cloud.is_known(made, TOPICS) for _ in range(3)] == [False, False, True]
    assert not cloud.is_known(made, TOPICS.replace("lkc-1", "lkc-2"))
    assert not cloud.is_known(made, "https://psrc-1.us-east-1.aws.confluent.cloud/subjects")
    assert not cloud.is_known(KeyPair(made.key, Secret("guessed")), TOPICS)


def test_a_key_whose_account_may_not_do_what_is_asked_is_known_all_the_same(
    cloud: ConfluentCloud, double: ConfluentDouble
) -> None:
    made = cloud.make_key(WANTED)
    double.next_answers = [failure(HTTPStatus.FORBIDDEN, "not allowed to list subjects")]

    assert cloud.is_known(made, "https://psrc-1.us-east-1.aws.confluent.cloud/subjects")


def test_the_cloud_api_key_comes_from_the_environment_and_what_is_missing_is_named() -> None:
    both = {"CONFLUENT_CLOUD_API_KEY": "KEY", "CONFLUENT_CLOUD_API_SECRET": "hush"}

    assert key_from_environment(both) == KeyPair("KEY", Secret("hush"))
    with pytest.raises(SettingError, match="CONFLUENT_CLOUD_API_SECRET not set"):
        key_from_environment({**both, "CONFLUENT_CLOUD_API_SECRET": ""})


def test_a_double_elsewhere_than_on_loopback_is_refused_because_keys_are_sent_there() -> None:
    assert address_from_environment({}) == "https://api.confluent.cloud"
    assert address_from_environment({"FRAZIL_CONFLUENT_URL": "http://127.0.0.1:9/"}) == "http://127.0.0.1:9"
    with pytest.raises(SettingError, match="on loopback"):
        address_from_environment({"FRAZIL_CONFLUENT_URL": "http://127.0.0.1.example.com"})
