"""The steps that have API keys made and deleted: what passes by itself, what does not, and what is never printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from confluent_in_memory import WHO, Wire, cloud_over
from moto import mock_aws

from devcloud.confluent_double import ConfluentDouble
from frazil.model.errors import ServiceError
from infra.deploy.deployment import Deployment
from infra.deploy.keys.making import Keys, Waiting, delete_keys, flink_variables, tableflow_variables
from infra.deploy.keys.rotation_function import FunctionFailedError, RotationFunction
from infra.deploy.stacks.deployed import Stacks
from infra.terraform.runner import Terraform
from shared.confluent_api import NewKey

SECRETS = {"manager": "frazil/dev/manager", "producer": "frazil/dev/producer"}
NOT_YET = (
    "NotProvenError",
    "The new API keys of manager do not work yet: kafka: the key is not accepted\n\nhint: -",
)
NO_ROLE = ("ClientError", "An error occurred (AccessDeniedException) when calling the DescribeSecret operation")
REFUSED = ("SettingError", "Confluent Cloud does not let K POST\n\nhint: give a Cloud API key")


@dataclass
class Function:
    """boto3's client of Lambda, with a function behind it that has keys. `fails`: why, call by call, by step."""

    fails: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    had: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def invoke(self, *, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803
        assert FunctionName == "frazil-dev-rotate-keys"
        event = json.loads(Payload)
        step, secret = event["Step"], event["SecretId"]
        self.asked.append((step, secret))
        if self.fails.get(step):
            error, why = self.fails[step].pop(0)
            if step == "proveKey" and error == "NotProvenError":
                return _answer({"not_yet": why.partition("\n")[0], "hint": "-"})
            return _answer({"errorType": error, "errorMessage": why}) | {"FunctionError": "Unhandled"}
        made = {"made": "no" if secret in self.had else "yes"} if step == "firstKey" else {}
        self.had.add(secret)
        return _answer({**made, "kafka_api_key": f"ID-OF-{secret.rpartition('/')[2]}"})


def _answer(told: Mapping[str, str]) -> dict[str, Any]:
    return {"Payload": io.BytesIO(json.dumps(told).encode())}


class Step:
    """The step over a function, and all that it says; only sleeping takes time."""

    def __init__(self, vault: Any, function: Function) -> None:
        self.said: list[str] = []
        self.now = 0.0
        named = RotationFunction("frazil-dev-rotate-keys", function)
        self.keys = Keys("dev", SECRETS, named, vault, self.said.append, Waiting(lambda: self.now, self._sleep))  # type: ignore[arg-type]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def make(self) -> int:
        return self.keys.make(WHO)


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("secretsmanager", region_name="eu-central-1")
        for word in ("cloud", "tableflow", "flink"):
            client.create_secret(Name=f"frazil/dev/{word}")
        yield client


def cloud_versions(vault: Any) -> list[dict[str, str]]:
    listed = vault.list_secret_version_ids(SecretId="frazil/dev/cloud")["Versions"]
    values = [vault.get_secret_value(SecretId="frazil/dev/cloud", VersionId=each["VersionId"]) for each in listed]
    return [json.loads(value["SecretString"]) for value in values]


def test_the_cloud_key_is_stored_then_every_key_is_made_and_proven(vault: Any) -> None:
    function = Function()

    made = Step(vault, function).make()

    assert made == 2
    assert cloud_versions(vault) == [{"cloud_api_key": WHO.key, "cloud_api_secret": WHO.secret.reveal()}]
    asked = {(step, secret) for step in ("firstKey", "proveKey") for secret in SECRETS.values()}
    assert set(function.asked) == asked
    assert len(function.asked) == len(asked)
    for secret in SECRETS.values():
        assert [step for step, name in function.asked if name == secret] == ["firstKey", "proveKey"]


def test_nothing_is_new_where_all_is_there(vault: Any) -> None:
    Step(vault, Function()).make()

    again = Step(vault, Function(had=set(SECRETS.values())))

    assert again.make() == 0
    assert len(cloud_versions(vault)) == 1
    assert sorted(again.said) == ["manager: has ID-OF-manager", "producer: has ID-OF-producer"]


def test_another_cloud_key_takes_the_place_of_the_one_before(vault: Any) -> None:
    vault.put_secret_value(SecretId="frazil/dev/cloud", SecretString='{"cloud_api_key": "OLD"}')

    Step(vault, Function()).make()

    current = json.loads(vault.get_secret_value(SecretId="frazil/dev/cloud")["SecretString"])
    assert current["cloud_api_key"] == WHO.key


@pytest.mark.parametrize(("step", "why"), [("proveKey", NOT_YET), ("firstKey", NO_ROLE)])
def test_what_passes_by_itself_is_waited_for(vault: Any, step: str, why: tuple[str, str]) -> None:
    run = Step(vault, Function({step: [why] * 5}))

    assert run.make() == 2
    assert run.now == 5 * 5.0
    assert len([line for line in run.said if "not yet" in line]) == 5


def test_keys_that_never_work_end_the_step_after_a_bounded_wait(vault: Any) -> None:
    run = Step(vault, Function({"proveKey": [NOT_YET] * 1000}))
    run.keys = replace(run.keys, secrets={"manager": SECRETS["manager"]})  # two would share the clock

    with pytest.raises(ServiceError, match=r"proveKey of frazil/dev/.*: The new API keys of manager do not work yet"):
        run.make()

    assert run.now == 900


def test_what_does_not_pass_is_said_at_once_in_the_functions_own_words(vault: Any) -> None:
    run = Step(vault, Function({"firstKey": [REFUSED, REFUSED]}))

    with pytest.raises(FunctionFailedError, match="SettingError: Confluent Cloud does not let K POST") as failed:
        run.make()

    assert (failed.value.hint, run.now) == ("give a Cloud API key", 0)


def test_one_account_that_fails_keeps_no_other_from_its_key(vault: Any) -> None:
    function = Function({"firstKey": [REFUSED]})
    with pytest.raises(FunctionFailedError):
        Step(vault, function).make()

    assert Step(vault, function).make() >= 1
    assert function.had == set(SECRETS.values())


def test_a_function_that_is_not_there_says_who_makes_it(vault: Any) -> None:
    with mock_aws():
        missing = boto3.client("lambda", region_name="eu-central-1")
        function = RotationFunction("frazil-dev-rotate-keys", missing)

        with pytest.raises(ServiceError, match="cannot invoke the function frazil-dev-rotate-keys") as failed:
            function.first_key("frazil/dev/manager")

    assert "deploy.sh create" in failed.value.hint


def test_a_secret_that_cannot_be_written_ends_the_step_before_anything_is_asked(vault: Any) -> None:
    vault.delete_secret(SecretId="frazil/dev/cloud", ForceDeleteWithoutRecovery=True)
    function = Function()

    with pytest.raises(ServiceError, match="frazil/dev/cloud cannot be written"):
        Step(vault, function).make()

    assert function.asked == []


def test_no_secret_is_said(vault: Any) -> None:
    run = Step(vault, Function({"proveKey": [NOT_YET]}))

    run.make()

    assert WHO.secret.reveal() not in f"{run.said} {run.keys!r}"


def test_deleting_takes_all_keys_of_the_accounts_and_can_be_repeated() -> None:
    double = ConfluentDouble(WHO)
    cloud, said = cloud_over(Wire(double), []), list[str]()
    for name, owner in (("made by rotation", "sa-1"), ("made by hand", "sa-2"), ("another team's", "sa-77")):
        cloud.make_key(NewKey(name=name, description="", owner=owner, resource="lkc-1"))

    deleting: Callable[[], int] = lambda: delete_keys(cloud, ["sa-1", "sa-2"], said.append)  # noqa: E731

    assert (deleting(), deleting()) == (2, 0)
    assert double.key_names == ["another team's"]
    assert len(said) == 2


def test_tableflow_gets_its_key_by_the_environment_of_terraform_alone(vault: Any) -> None:
    assert tableflow_variables(vault, "dev") == {}
    fields = {"tableflow_api_key": "K", "tableflow_api_secret": "S"}
    vault.put_secret_value(SecretId="frazil/dev/tableflow", SecretString=json.dumps(fields))

    found = {name: value.reveal() for name, value in tableflow_variables(vault, "dev").items()}

    assert found == {"TABLEFLOW_API_KEY": "K", "TABLEFLOW_API_SECRET": "S"}


def test_statements_of_flink_get_their_key_with_where_they_run_or_nothing(vault: Any) -> None:
    region = {"CONFLUENT_ENVIRONMENT_ID": "env-1", "FLINK_COMPUTE_POOL_ID": "lfcp-1"}
    assert flink_variables(vault, "dev", region) == {}
    fields = {"flink_api_key": "K", "flink_api_secret": "S"}
    vault.put_secret_value(SecretId="frazil/dev/flink", SecretString=json.dumps(fields))

    found = {name: value.reveal() for name, value in flink_variables(vault, "dev", region).items()}

    assert found == {**region, "FLINK_API_KEY": "K", "FLINK_API_SECRET": "S"}
    assert flink_variables(vault, "dev", {}) == {}


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"tableflow_api_key": "without its secret"}'])
def test_what_is_no_key_of_ours_is_none(vault: Any, text: str) -> None:
    vault.put_secret_value(SecretId="frazil/dev/tableflow", SecretString=text)

    assert tableflow_variables(vault, "dev") == {}


def test_only_the_stack_of_connectors_gets_the_keys_of_tableflow_and_flink(
    vault: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for word in ("tableflow", "flink"):
        fields = {f"{word}_api_key": word, f"{word}_api_secret": "S"}
        vault.put_secret_value(SecretId=f"frazil/dev/{word}", SecretString=json.dumps(fields))
    monkeypatch.setattr("boto3.client", lambda _: vault)
    known = {name: Terraform(name, tmp_path, {}, tmp_path / "log", print) for name in ("confluent", "connectors")}
    stacks = Stacks(cast(Deployment, SimpleNamespace(environment="dev")), tuple(known), print, known)
    stacks._states.outputs["confluent"] = {"flink_variables": {"FLINK_COMPUTE_POOL_ID": "lfcp-1"}}

    given = {name: set(stacks._with_keys(name).env) for name in known}

    tableflow = {"TABLEFLOW_API_KEY", "TABLEFLOW_API_SECRET"}
    flink = {"FLINK_API_KEY", "FLINK_API_SECRET", "FLINK_COMPUTE_POOL_ID"}
    assert given == {"confluent": set(), "connectors": tableflow | flink}
