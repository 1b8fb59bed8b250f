"""The step that makes API keys: crashes in between, keys that are gone, and what is never printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import boto3
import pytest
from confluent_in_memory import WHO, Wire, cloud_over
from moto import mock_aws

from infra.confluent_api import NewKey
from infra.deploy.keys import Confluent, Keys, Waiting, tableflow_variables
from infra.local.confluent_double import ConfluentDouble, failure
from infra.naming import Account
from jobs.model.errors import ServiceError, SettingError

ACCOUNTS: dict[Account, str] = {"manager": "sa-1", "registry": "sa-2", "materializer": "sa-3", "connector": "sa-4"}
CONFLUENT = Confluent(
    cluster_id="lkc-1",
    kafka_rest_endpoint="https://pkc-1.us-east-1.aws.confluent.cloud:443",
    registry_id="lsrc-1",
    registry_url="https://psrc-1.us-east-1.aws.confluent.cloud",
    accounts=ACCOUNTS,
)
NAMES = (
    "frazil-dev-manager-kafka",
    "frazil-dev-registry-registry",
    "frazil-dev-materializer-kafka",
    "frazil-dev-materializer-registry",
)


class Step:
    """The step over the doubles of both clouds, and all that it says."""

    def __init__(self, vault: Any, double: ConfluentDouble, confluent: Confluent = CONFLUENT) -> None:
        self.said: list[str] = []
        self.slept: list[float] = []
        self.wire = Wire(double)
        self.now = 0.0
        cloud = cloud_over(self.wire, self.slept)
        self.keys = Keys("dev", confluent, cloud, vault, self.said.append, Waiting(lambda: self.now, self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("secretsmanager", region_name="eu-central-1")
        for account in (*ACCOUNTS, "tableflow"):
            client.create_secret(Name=f"frazil/dev/{account}")
        yield client


@pytest.fixture
def double() -> ConfluentDouble:
    return ConfluentDouble(WHO)


def stored(vault: Any, account: str) -> dict[str, str]:
    fields: dict[str, str] = json.loads(vault.get_secret_value(SecretId=f"frazil/dev/{account}")["SecretString"])
    return fields


def versions(vault: Any, account: str) -> int:
    return len(vault.list_secret_version_ids(SecretId=f"frazil/dev/{account}")["Versions"])


def test_each_account_gets_the_keys_that_it_needs_and_the_connector_none(vault: Any, double: ConfluentDouble) -> None:
    made = Step(vault, double).keys.make()

    assert made == NAMES == tuple(double.key_names)
    assert stored(vault, "manager").keys() == {"kafka_api_key", "kafka_api_secret"}
    assert stored(vault, "registry").keys() == {"registry_api_key", "registry_api_secret"}
    assert stored(vault, "materializer").keys() == {
        *("kafka_api_key", "kafka_api_secret", "registry_api_key", "registry_api_secret")
    }
    assert versions(vault, "connector") == 0


def test_nothing_is_made_where_all_is_there(vault: Any, double: ConfluentDouble) -> None:
    Step(vault, double).keys.make()
    before = stored(vault, "manager")

    again = Step(vault, double)

    assert again.keys.make() == ()
    assert stored(vault, "manager") == before
    assert not [asked for asked in again.wire.asked if asked.startswith(("POST", "DELETE"))]


def test_no_secret_is_said_and_none_is_in_an_error(vault: Any, double: ConfluentDouble) -> None:
    step = Step(vault, double)
    step.keys.make()
    double.next_answers = [failure(HTTPStatus.BAD_REQUEST, "no")]
    vault.put_secret_value(SecretId="frazil/dev/manager", SecretString="{}")
    with pytest.raises(ServiceError) as refused:
        step.keys.make()

    secrets = [value for account in ("registry", "materializer") for value in stored(vault, account).values()]
    hidden = [text for text in secrets if not text.startswith("DOUBLE")]
    assert len(hidden) == 3
    assert not [text for text in hidden if text in f"{step.said} {refused.value} {step.keys!r}"]


def test_a_key_whose_answer_got_lost_is_an_orphan_that_the_next_run_deletes(
    vault: Any, double: ConfluentDouble
) -> None:
    first = Step(vault, double)
    first.wire.losing = ["POST"]
    with pytest.raises(ServiceError, match="did not answer"):
        first.keys.make()

    again = Step(vault, double)
    again.keys.make()

    assert double.key_names == list(NAMES)
    assert [line for line in again.said if "nobody has its secret" in line] == [again.said[0]]


def test_a_crash_between_making_and_storing_leaves_one_key_of_a_kind_after_the_next_run(
    vault: Any, double: ConfluentDouble
) -> None:
    vault.delete_secret(SecretId="frazil/dev/materializer", ForceDeleteWithoutRecovery=True)
    with pytest.raises(ServiceError, match="frazil/dev/materializer cannot be written") as failed:
        Step(vault, double).keys.make()
    vault.create_secret(Name="frazil/dev/materializer")

    made = Step(vault, double).keys.make()

    assert "create` again" in failed.value.hint
    assert made == NAMES[2:]
    assert sorted(double.key_names) == sorted(NAMES)


def test_keys_of_others_and_of_other_clusters_stay(vault: Any, double: ConfluentDouble) -> None:
    cloud = Step(vault, double).keys.cloud
    cloud.make_key(NewKey(name="made by hand", description="", owner="sa-1", resource="lkc-1"))
    cloud.make_key(NewKey(name=NAMES[0], description="", owner="sa-1", resource="lkc-2"))

    Step(vault, double).keys.make()

    assert double.key_names == ["made by hand", NAMES[0], *NAMES]


def test_a_stored_key_that_is_gone_is_made_anew_and_its_neighbour_stays(vault: Any, double: ConfluentDouble) -> None:
    step = Step(vault, double)
    step.keys.make()
    before = stored(vault, "materializer")
    step.keys.cloud.delete_key(before["registry_api_key"])

    made = Step(vault, double).keys.make()

    after = stored(vault, "materializer")
    assert made == NAMES[3:]
    assert after["kafka_api_key"] == before["kafka_api_key"]
    assert after["registry_api_key"] != before["registry_api_key"]


def test_a_secret_that_was_restored_with_keys_of_an_earlier_cluster_gets_new_ones(
    vault: Any, double: ConfluentDouble
) -> None:
    Step(vault, double).keys.make()
    moved = Confluent("lkc-9", CONFLUENT.kafka_rest_endpoint, "lsrc-9", CONFLUENT.registry_url, ACCOUNTS)

    assert Step(vault, double, moved).keys.make() == NAMES


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"kafka_api_key": "without its secret"}'])
def test_what_is_no_key_of_ours_is_replaced_and_stays_as_the_previous_version(
    vault: Any, double: ConfluentDouble, text: str
) -> None:
    vault.put_secret_value(SecretId="frazil/dev/manager", SecretString=text)

    assert NAMES[0] in Step(vault, double).keys.make()
    previous = vault.get_secret_value(SecretId="frazil/dev/manager", VersionStage="AWSPREVIOUS")
    assert previous["SecretString"] == text


def test_new_keys_are_waited_for_until_they_work_three_times_in_a_row(vault: Any) -> None:
    step = Step(vault, ConfluentDouble(WHO, refused_for=2))

    step.keys.make()

    assert step.now == 4 * 5.0
    assert step.said[-1] == "0 of 4 keys work"


def test_keys_that_never_work_are_stored_and_named_after_a_bounded_wait(vault: Any) -> None:
    step = Step(vault, ConfluentDouble(WHO, refused_for=10_000))

    with pytest.raises(
        ServiceError, match=r"after 15 minutes 4 .* frazil-dev-manager-kafka: the key is not known there"
    ) as failed:
        step.keys.make()

    assert step.now == 900
    assert "goes on with waiting" in failed.value.hint
    assert versions(vault, "materializer") == 1


def test_a_cluster_that_does_not_answer_yet_is_waited_for_too(vault: Any, double: ConfluentDouble) -> None:
    step = Step(vault, double)
    step.wire.unreachable = ["pkc-1.us-east-1.aws.confluent.cloud"] * 10

    assert step.keys.make() == NAMES
    assert step.now == 3 * 5.0


def test_a_refused_cloud_api_key_ends_the_step_before_anything_is_made(vault: Any, double: ConfluentDouble) -> None:
    double.next_answers = [failure(HTTPStatus.UNAUTHORIZED, "no")] * 2

    with pytest.raises(SettingError):
        Step(vault, double).keys.make()

    assert double.key_names == []


def test_deleting_takes_all_keys_of_the_accounts_and_can_be_repeated(vault: Any, double: ConfluentDouble) -> None:
    step = Step(vault, double)
    step.keys.make()
    step.keys.cloud.make_key(NewKey(name="made by rotation", description="", owner="sa-1", resource="lkc-1"))
    step.keys.cloud.make_key(NewKey(name="another team's", description="", owner="sa-77", resource="lkc-1"))

    gone, again = step.keys.delete(), step.keys.delete()

    assert sorted(gone) == sorted((*NAMES, "made by rotation"))
    assert again == ()
    assert double.key_names == ["another team's"]


def test_after_a_delete_that_stopped_half_way_a_create_makes_all_keys_again(
    vault: Any, double: ConfluentDouble
) -> None:
    Step(vault, double).keys.make()
    Step(vault, double).keys.delete()

    assert Step(vault, double).keys.make() == NAMES


def test_tableflow_gets_its_key_by_the_environment_of_terraform_alone(vault: Any, double: ConfluentDouble) -> None:
    accounts: dict[Account, str] = {"tableflow": "sa-5"}
    with_tableflow = Confluent("lkc-1", "https://pkc-1", "lsrc-1", "https://psrc-1", accounts)

    assert tableflow_variables(vault, "dev") == {}
    Step(vault, double, with_tableflow).keys.make()

    found = {name: value.reveal() for name, value in tableflow_variables(vault, "dev").items()}
    fields = stored(vault, "tableflow")
    assert found == {
        "TABLEFLOW_API_KEY": fields["tableflow_api_key"],
        "TABLEFLOW_API_SECRET": fields["tableflow_api_secret"],
    }


def test_a_stack_that_is_not_applied_yet_is_named() -> None:
    outputs = {
        "cluster_id": "lkc-1",
        "kafka_rest_endpoint": CONFLUENT.kafka_rest_endpoint,
        "registry_id": "lsrc-1",
        "registry_url": CONFLUENT.registry_url,
        "service_accounts": ACCOUNTS,
        "environment_id": "env-1",
    }

    assert Confluent.of(outputs) == CONFLUENT
    with pytest.raises(SettingError, match="no output 'registry_id'"):
        Confluent.of({name: value for name, value in outputs.items() if name != "registry_id"})
