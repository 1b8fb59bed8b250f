from __future__ import annotations

import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError
from confluent_in_memory import WHO, Wire, cloud_over

from devcloud.confluent_double import ConfluentDouble
from frazil.cli import check
from frazil.model.errors import ServiceError, SettingError
from infra.artefacts.artefact import NOTHING, Artefacts, artefact_of, read_manifest, write_manifest
from infra.deploy.__main__ import run
from infra.deploy.accounts import account_record
from infra.deploy.accounts.recall import WITHOUT_AWS, compare_accounts
from infra.deploy.accounts.snowflake_account import Recorded, account_from, recorded, remember
from infra.deploy.asked import Asked
from infra.deploy.cloud import NO_SERVICES
from infra.deploy.deleting.delete_report import NotConfirmedError, ask_for_name
from infra.deploy.deployment import STACKS, Deployment, open_deployment
from infra.deploy.kafka.brokers import out_of_reach
from infra.deploy.local import services
from infra.deploy.stacks.deployed import synthesize
from infra.deploy.stacks.removed import refuse_removed_stacks
from infra.deploy.steps import STEPS
from infra.deploy.tables.client_files import write_client_files
from infra.deploy.tables.frazil_command import NOT_THERE_YET, CommandFailedError, Frazil
from infra.settings.model import CloudExport, ExternalKafka, ExternalRegistry, HcpState, LocalState, S3State
from shared.confluent_api import NewKey

MSK = ExternalKafka(
    name="msk",
    bootstrap_servers="b-1.private:9098, b-2.private:9098",
    protocol="sasl_ssl",
    mechanism=None,
    msk_iam=True,
    credentials=None,
    registry=ExternalRegistry("https://registry.private", None),
)


def nothing() -> Asked:
    return Asked((), keeps_data=False)


@pytest.fixture
def never_packed(tmp_path: Path) -> Deployment:
    """As on another machine than the one that applied the stacks."""
    here = open_deployment("dev", "me", asks=False)
    return replace(here, checkout=tmp_path)


@pytest.mark.parametrize("step", ["apply", "plan"])
def test_a_job_whose_artefacts_were_never_packed_here_is_not_applied(never_packed: Deployment, step: str) -> None:
    with pytest.raises(SettingError, match="no manifest of artefacts"):
        STEPS[step](never_packed, Asked(("jobs",), keeps_data=False))


def test_a_job_whose_artefacts_were_never_packed_here_can_still_be_taken_away(never_packed: Deployment) -> None:
    assert "jobs" in synthesize(never_packed, lambda _: None).names


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """All that comes before the tables is there."""
    monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: NothingApplied())
    return replace(open_deployment("dev", "me", asks=False), checkout=tmp_path)


class NothingApplied:
    def outputs(self, _: str) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("status", [0, NOT_THERE_YET])
def test_tables_that_wait_for_a_topic_or_a_subject_stop_nothing(
    applied: Deployment, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(Frazil, "show", lambda *_: status)

    STEPS["tables"](applied, nothing())

    assert check.NOT_THERE_YET == NOT_THERE_YET


def test_hints_name_frazil_as_it_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    program = Path(sys.executable).with_name("frazil")

    with pytest.raises(CommandFailedError, match=f"`{program} local produce stock_trades` failed"):
        Frazil(tmp_path).must("local", "produce", "stock_trades")

    assert f"hint: run `{program} local up" in capfd.readouterr().err


@pytest.mark.parametrize("status", [1, 2])
def test_tables_that_cannot_be_made_stop_the_create(
    applied: Deployment, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(Frazil, "show", lambda *_: status)

    with pytest.raises(CommandFailedError, match=f"failed with exit status {status}"):
        STEPS["tables"](applied, nothing())


def test_brokers_of_a_private_network_are_left_to_the_job(
    applied: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("infra.deploy.steps.connect", refused)
    monkeypatch.setattr(Frazil, "show", lambda *_: pytest.fail("there is nobody to ask"))

    STEPS["tables"](replace(applied, settings=replace(applied.settings, kafka=MSK)), nothing())

    assert "warning: cannot reach b-1.private:9098, b-2.private:9098 from this machine" in capsys.readouterr().err


def test_one_broker_that_answers_is_enough() -> None:
    def only_the_second(host: str, port: int) -> None:
        if (host, port) != ("b-2.private", 9098):
            refused(host, port)

    assert out_of_reach(MSK, only_the_second) is None


def refused(host: str, port: int) -> None:
    raise ConnectionRefusedError(host, port)


class SessionOf:
    """A boto3 session of an account that is asked who it is, and for states."""

    def __init__(self, account: str, states: States | None = None) -> None:
        self.account = account
        self.states = states

    def client(self, service: str, **where: str) -> SessionOf | States:
        if self.states is not None and service == "s3":
            return self.states.client(service, **where)
        assert service == "sts"
        return self

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": self.account}


class Applied:
    """Stacks whose state has outputs; applying them changes nothing."""

    def __init__(self, **outputs: dict[str, Any]) -> None:
        self.found = outputs
        self.addresses: dict[str, list[str]] = {}

    def resources(self) -> dict[str, list[str]]:
        return self.addresses

    def outputs(self, name: str) -> dict[str, Any]:
        return self.found.get(name, {})

    def apply(self, _: object) -> None:
        return None


@pytest.fixture
def in_222(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """An environment that was never applied, opened with a profile of the account 222222222222."""
    monkeypatch.setattr("infra.deploy.asked.open_session", lambda: SessionOf("222222222222"))
    monkeypatch.setattr("infra.deploy.steps._stacks_for", lambda *_: Applied())
    return replace(open_deployment("dev", "me", asks=False), checkout=tmp_path)


def test_the_first_apply_records_the_account(in_222: Deployment) -> None:
    compare_accounts(in_222, "apply", nothing())
    STEPS["apply"](in_222, Asked(("network",), keeps_data=False))
    compare_accounts(in_222, "apply", nothing())

    assert account_record.recorded(in_222.folder) == "222222222222"


@pytest.mark.parametrize("step", ["apply", "plan"])
def test_exports_are_not_applied_before_their_function_is_packed(in_222: Deployment, step: str) -> None:
    weekly = {"weekly": CloudExport("rate(7 days)", None, ())}
    deployment = replace(in_222, settings=replace(in_222.settings, exports=weekly))
    (deployment.folder).mkdir(parents=True)
    write_manifest(Artefacts(NOTHING, NOTHING, NOTHING, NOTHING), deployment.manifest)

    with pytest.raises(SettingError, match=r"the export function is not packed: .*artefacts\.json does not name it"):
        STEPS[step](deployment, Asked(("exports",), keeps_data=False))


def test_the_function_of_the_exports_is_packed_if_there_are_any(
    in_222: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "export_csv.zip").write_bytes(b"packed")
    job = Artefacts(NOTHING, NOTHING, NOTHING, NOTHING)
    monkeypatch.setattr("infra.deploy.steps.pack", lambda *_, **__: job)
    monkeypatch.setattr("infra.deploy.steps.lambda_zip", lambda *_: tmp_path / "export_csv.zip")

    found = []
    for exports in ({}, {"weekly": CloudExport(None, None, ())}):
        deployment = replace(in_222, settings=replace(in_222.settings, exports=exports))
        STEPS["artefacts"](deployment, nothing())
        found.append(read_manifest(deployment.manifest))

    assert found == [job, replace(job, exports=artefact_of(tmp_path / "export_csv.zip"))]


@pytest.mark.parametrize("step", sorted(STEPS.keys() - WITHOUT_AWS))
def test_no_step_works_on_the_state_of_another_account(in_222: Deployment, step: str) -> None:
    account_record.remember("111111111111", in_222.folder)

    with pytest.raises(
        SettingError, match=r"111111111111, but --profile=me is the AWS account 222222222222"
    ) as refused:
        compare_accounts(in_222, step, nothing())

    assert str(in_222.folder / account_record.FILE) in str(refused.value.hint)


def test_steps_compare_the_account_before_they_begin(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account_record.remember("111111111111", in_222.folder)
    folder = in_222.folder
    monkeypatch.setattr("infra.deploy.deployment.folder_of", lambda *_: folder)
    monkeypatch.setattr("infra.deploy.session.open_deployment", lambda *_, **__: in_222)

    with patch.dict(os.environ):
        assert run(["destroy", "lake", "--profile=me", "--environment=dev"]) == SettingError.exit_status

    assert "is deployed to the AWS account 111111111111" in capsys.readouterr().err


def test_another_machine_reads_the_account_from_the_shared_state(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = replace(in_222, settings=replace(in_222.settings, backend=S3State("states", "us-east-1")))
    applied = Applied(network={"aws_account_id": "111111111111"})
    monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: applied)

    with pytest.raises(SettingError, match="111111111111"):
        compare_accounts(shared, "rotate", nothing())


def test_deleting_everything_forgets_the_account_and_keeping_data_does_not(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.deploy.local.services.down", lambda *_: ())
    account_record.remember("222222222222", in_222.folder)

    STEPS["services-down"](in_222, Asked((), keeps_data=True))
    kept = account_record.recorded(in_222.folder)
    STEPS["services-down"](in_222, nothing())

    assert (kept, account_record.recorded(in_222.folder)) == ("222222222222", None)


@pytest.mark.parametrize(
    ("ran_before", "had_topics", "command", "rest"),
    [
        (
            True,
            True,
            [],
            "they ran before `create`, so they keep running, with all topics; `.venv/bin/frazil local down` stops them",
        ),
        (
            False,
            True,
            [("local", "down")],
            "stopped; their data are kept, since there were topics before `create`;"
            " `.venv/bin/frazil local down --wipe` deletes them",
        ),
        (False, False, [("local", "down", "--wipe")], "stopped, data deleted"),
    ],
)
def test_deleting_everything_keeps_the_local_services_and_topics_of_before(
    in_222: Deployment,
    ran_before: bool,
    had_topics: bool,
    command: list[tuple[str, ...]],
    rest: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr("infra.deploy.local.services.Frazil.must", lambda _, *words: commands.append(words))
    local = replace(in_222, profile="local", settings=replace(in_222.settings, kafka=MSK, snowflake=None))
    services.confluent_cloud(local.folder).folder.mkdir(parents=True)
    topics = local.checkout / ".frazil" / "local" / "broker"
    if had_topics:
        topics.mkdir(parents=True)
    services.up(local, replace(NO_SERVICES, are_up=ran_before))
    topics.mkdir(parents=True, exist_ok=True)
    services.up(local, replace(NO_SERVICES, are_up=ran_before))
    commands.clear()

    STEPS["services-down"](local, nothing())

    which = f"broker, registry and double of AWS in {local.checkout}/.frazil/local"
    assert commands == command
    assert capsys.readouterr().err.splitlines() == [
        "the double of Confluent Cloud: stopped, data deleted",
        f"{which}: {rest}",
    ]


@pytest.fixture
def with_client_files(in_222: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setenv("AWS_PROFILE", "me")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for specs in ("tables", "transforms"):
        (in_222.checkout / specs).mkdir()
    write_client_files(in_222, "kafka: {}")
    return in_222


OF_CLIENTS = {"env", "frazil.yaml", "tables", "transforms"}


def test_specs_that_were_removed_are_removed_from_the_copy(with_client_files: Deployment) -> None:
    assert {path.name for path in with_client_files.folder.iterdir()} >= OF_CLIENTS

    with_client_files.transforms.rmdir()
    write_client_files(with_client_files, "kafka: {}")

    assert {path.name for path in with_client_files.folder.iterdir()} & OF_CLIENTS == OF_CLIENTS - {"transforms"}


def test_a_deleted_environment_has_no_file_that_leads_to_it(
    with_client_files: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    STEPS["services-down"](with_client_files, nothing())

    assert {path.name for path in with_client_files.folder.iterdir()} & OF_CLIENTS == set()
    assert capsys.readouterr().err.splitlines()[-1] == (
        ".frazil/deploy/dev/env: deleted; in a shell that sourced it, run"
        " `unset FRAZIL_CONFIG AWS_PROFILE AWS_DEFAULT_REGION` or open a new shell"
    )


def test_a_repeated_delete_has_no_variable_to_unset(
    with_client_files: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    STEPS["services-down"](with_client_files, nothing())
    capsys.readouterr()

    STEPS["services-down"](with_client_files, nothing())

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("is_own", "stay"), [(True, OF_CLIENTS), (False, set())], ids=["own Kafka", "Confluent"])
def test_kept_tables_stay_within_reach_if_their_kafka_stays(
    with_client_files: Deployment, is_own: bool, stay: set[str]
) -> None:
    kafka = MSK if is_own else with_client_files.settings.kafka
    deployment = replace(with_client_files, settings=replace(with_client_files.settings, kafka=kafka))

    STEPS["services-down"](deployment, Asked((), keeps_data=True))

    assert {path.name for path in deployment.folder.iterdir()} & OF_CLIENTS == stay


def test_terraform_refuses_another_account_than_the_recorded_one(in_222: Deployment) -> None:
    recorded = replace(in_222, settings=replace(in_222.settings, account_id="111111111111"))
    folder = synthesize(recorded, lambda _: None).deployment.synthesized / "stacks" / "network"

    (provider,) = json.loads((folder / "cdk.tf.json").read_text())["provider"]["aws"]
    assert provider["allowed_account_ids"] == ["111111111111"]


def test_the_policy_leaves_the_files_of_a_running_verb_alone(
    in_222: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    STEPS["policy"](in_222, nothing())

    assert "iam:CreateRole" in capsys.readouterr().out
    assert not in_222.synthesized.exists()


class Removing(Applied):
    """Stacks whose resources `gone` the settings no longer have."""

    gone: tuple[str, ...] = ()
    names: tuple[str, ...] = STACKS

    def destroy_removed(self, _: object) -> list[str]:
        return list(self.gone)

    def removed(self, _: object) -> list[str]:
        return list(self.gone)

    def plan(self, _: object) -> None:
        return None


def test_an_account_that_the_settings_no_longer_have_loses_its_keys_before_it_goes(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_222.tables.mkdir()
    (in_222.tables / "orders.yaml").write_text("topic: orders\n")
    cloud = cloud_over(Wire(ConfluentDouble(WHO)), [])
    for owner in ("sa-manager", "sa-tableflow"):
        cloud.make_key(NewKey(owner, "", owner=owner, resource="tableflow"))
    stacks = Removing(
        confluent={
            "cluster_id": "lkc-1",
            "service_accounts": {"manager": "sa-manager", "tableflow": "sa-tableflow"},
        }
    )
    stacks.gone = ("confluent_tableflow_topic.table-orders",)
    monkeypatch.setattr("infra.deploy.stacks.synthesis.Synthesis.stacks", lambda *_, **__: stacks)
    monkeypatch.setattr("infra.deploy.kafka.accounts_and_topics.cloud_of", lambda _: cloud)

    STEPS["destroy-removed"](in_222, Asked(("connectors",), keeps_data=False))

    assert (len(cloud.keys_of("sa-manager")), len(cloud.keys_of("sa-tableflow"))) == (1, 0)
    said = capsys.readouterr().err
    assert "the Glue database lkc-1, without updates; `delete` removes them" in said
    assert "keys: 1 deleted, because the settings no longer have their accounts" in said


def test_a_removed_statement_of_flink_leaves_its_topic(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = Removing(confluent={"service_accounts": {}})
    stacks.gone = ("confluent_flink_statement.flink_fill",)
    in_222.tables.mkdir()
    (in_222.tables / "orders.yaml").write_text("topic: orders\n")
    monkeypatch.setattr("infra.deploy.stacks.synthesis.Synthesis.stacks", lambda *_, **__: stacks)

    STEPS["destroy-removed"](in_222, Asked(("connectors",), keeps_data=False))

    assert "the topic stock_total_trades stays with its schemas, without updates" in capsys.readouterr().err


KEY_ARN = "arn:aws:kms:us-east-1:111111111111:key/k"


def state_file(deployment: Deployment, stack: str, **outputs: str) -> None:
    file = deployment.folder / "state" / f"{stack}.tfstate"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"outputs": {name: {"value": value} for name, value in outputs.items()}}))


@pytest.mark.parametrize(
    ("network", "lake"),
    [({"aws_account_id": "111111111111"}, {}), ({"subnet_ids": ""}, {"key_arn": KEY_ARN})],
)
def test_an_environment_without_a_record_is_of_the_account_that_its_state_names(
    in_222: Deployment, network: dict[str, str], lake: dict[str, str]
) -> None:
    """As one that was applied before there were records, or whose record was deleted."""
    state_file(in_222, "network", **network)
    state_file(in_222, "lake", **lake)

    with pytest.raises(SettingError, match="111111111111, but --profile=me is the AWS account 222222222222"):
        compare_accounts(in_222, "apply", nothing())


def test_an_environment_whose_state_names_no_account_is_refused_until_it_is_told(in_222: Deployment) -> None:
    state_file(in_222, "network", subnet_ids="")

    with pytest.raises(SettingError, match="its AWS account is not known") as refused:
        compare_accounts(in_222, "apply", nothing())

    assert str(in_222.folder / account_record.FILE) in str(refused.value.hint)
    account_record.remember("222222222222", in_222.folder)
    compare_accounts(in_222, "apply", nothing())


@pytest.mark.parametrize("shared", [True, False])
def test_a_half_destroyed_environment_is_not_taken_for_none(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """An interrupted destroy removes the outputs first."""
    deployment, left = in_222, Applied()
    if shared:
        deployment = replace(in_222, settings=replace(in_222.settings, backend=S3State("states", "us-east-1")))
        left.addresses = {"lake": ["data.aws_region.here", "aws_s3_bucket.lake"]}
        monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: left)
    else:
        state_file(in_222, "lake")
        (in_222.folder / "state" / "lake.tfstate").write_text(WITH_RESOURCES)

    with pytest.raises(SettingError, match="its AWS account is not known"):
        compare_accounts(deployment, "apply", nothing())


@pytest.mark.parametrize("managed", [["snowflake_database.database"], []])
@pytest.mark.parametrize("backend", [S3State("states", "us-east-1"), HcpState("acme", None, "app.terraform.io")])
def test_a_step_on_another_machine_recalls_the_snowflake_account_too_unless_it_was_given_up(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, backend: S3State | HcpState, managed: list[str]
) -> None:
    account_record.remember("222222222222", in_222.folder)
    shared = replace(in_222, settings=replace(in_222.settings, backend=backend))
    told = {"organization": "ACME", "account": "LAKE", "warehouse": ""}
    applied = Applied(network={"aws_account_id": "222222222222"}, secrets={"snowflake_account": told})
    applied.addresses = {"snowflake": ["data.aws_caller_identity.caller", *managed]}
    monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: applied)
    state = WITH_RESOURCES if managed else WITHOUT
    monkeypatch.setattr("infra.deploy.asked.open_session", lambda: SessionOf("222222222222", States(snowflake=state)))

    compare_accounts(shared, "outputs", nothing())

    assert recorded(in_222.folder) == (Recorded("ACME", "LAKE") if managed else None)


@pytest.mark.parametrize(
    ("told", "state", "is_first", "known"),
    [
        (
            {"organization": "ACME", "account": "LAKE", "warehouse": "NEW"},
            "with",
            True,
            Recorded("ACME", "LAKE", "NEW"),
        ),
        ({"organization": "ACME", "account": "DEAD", "warehouse": "OLD"}, "without", True, None),
        (None, "without", True, None),
        (None, "without", False, Recorded("ACME", "DEAD", "OLD")),
        ({"organization": "ACME", "account": "DEAD", "warehouse": "OLD"}, None, True, Recorded("ACME", "DEAD", "OLD")),
        (None, None, True, Recorded("ACME", "DEAD", "OLD")),
    ],
)
def test_a_shared_state_counts_more_than_what_this_machine_remembers_of_snowflake(
    in_222: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    told: dict[str, str] | None,
    state: str | None,
    is_first: bool,
    known: Recorded | None,
) -> None:
    """Without a state, the record is of a first `create` that was interrupted."""
    account_record.remember("222222222222", in_222.folder)
    remember(Recorded("ACME", "DEAD", "OLD"), in_222.folder)
    account = account_from(Recorded("ACME", "DEAD", "OLD"))
    settings = replace(in_222.settings, backend=S3State("states", "us-east-1"), snowflake=account)
    shared = replace(in_222, settings=settings, snowflake_is_given=True)
    applied = Applied(network={"aws_account_id": "222222222222"}, secrets={"snowflake_account": told} if told else {})
    monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: applied)
    texts = {"with": WITH_RESOURCES, "without": WITHOUT}
    states = States(**({} if state is None else {"snowflake": texts[state]}))
    monkeypatch.setattr("infra.deploy.asked.open_session", lambda: SessionOf("222222222222", states))

    compare_accounts(shared, "outputs", replace(nothing(), is_first=is_first))

    assert recorded(in_222.folder) == known


def test_the_account_is_compared_with_the_one_that_the_shared_state_names(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an environment that another machine has deployed to another account since."""
    account_record.remember("222222222222", in_222.folder)
    shared = replace(in_222, settings=replace(in_222.settings, backend=S3State("states", "us-east-1")))
    applied = Applied(network={"aws_account_id": "111111111111"})
    monkeypatch.setattr("infra.deploy.asked.Asked.readable", lambda *_: applied)

    with pytest.raises(SettingError, match="111111111111, but --profile=me is the AWS account 222222222222"):
        compare_accounts(shared, "outputs", nothing())


def test_a_shared_state_that_another_account_cannot_read_is_blamed_on_the_account(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_record.remember("111111111111", in_222.folder)
    shared = replace(in_222, settings=replace(in_222.settings, backend=S3State("states", "us-east-1")))

    def denied(*_: object) -> Applied:
        raise ServiceError("AccessDenied", hint="ask")

    monkeypatch.setattr("infra.deploy.asked.Asked.readable", denied)

    with pytest.raises(SettingError, match="111111111111, but --profile=me is the AWS account 222222222222"):
        compare_accounts(shared, "outputs", nothing())


def test_a_plan_says_what_create_destroys_first_and_refuses_removed_stacks(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removing = Removing()
    removing.gone = ("confluent_tableflow_topic.orders",)
    monkeypatch.setattr("infra.deploy.steps._stacks_for", lambda *_: removing)

    STEPS["plan"](in_222, Asked(("connectors",), keeps_data=False))

    assert "connectors: `create` first destroys confluent_tableflow_topic.orders" in capsys.readouterr().err
    removing.names = STACKS[:-1]
    state_file(in_222, "snowflake")
    (in_222.folder / "state" / "snowflake.tfstate").write_text(WITH_RESOURCES)
    with pytest.raises(SettingError, match="which still has resources"):
        STEPS["plan"](in_222, Asked(("connectors",), keeps_data=False))


def test_a_snowflake_account_that_is_given_up_loses_its_roles_in_aws(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    did: list[object] = []

    class Abandoned(Applied):
        def forget(self, name: str, kinds: str) -> int:
            did.append(("forget", name, kinds))
            return 2

        def apply(self, wanted: object) -> None:
            did.append(("apply", wanted))

    def stacks(*_: object, purpose: str) -> Abandoned:
        did.append(purpose)
        return Abandoned()

    def remove(_: object, prefix: str) -> list[str]:
        did.append(prefix)
        return [f"{prefix}tables"]

    monkeypatch.setattr("infra.deploy.stacks.synthesis.Synthesis.stacks", stacks)
    monkeypatch.setattr("infra.deploy.delete_steps.remove_roles", remove)
    monkeypatch.setattr("infra.deploy.asked.open_session", lambda: SimpleNamespace(client=lambda _: None))
    remember(Recorded("ACME", "LAKE"), in_222.folder)

    with pytest.raises(NotConfirmedError, match="abandon-snowflake needs a confirmation"):
        STEPS["abandon-snowflake"](replace(in_222, asks=True), nothing())
    assert (did, recorded(in_222.folder)) == (["abandon-snowflake"], Recorded("ACME", "LAKE"))
    did.clear()
    STEPS["abandon-snowflake"](in_222, nothing())

    assert did == [
        "abandon-snowflake",
        ("forget", "snowflake", "snowflake_"),
        ("apply", ["snowflake"]),
        "frazil-dev-snowflake-",
    ]
    assert recorded(in_222.folder) is None
    assert "frazil-dev-snowflake-tables deleted" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["", "prod", "dev"])
def test_an_account_is_given_up_only_by_the_name_of_its_environment(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda _: typed)
    deployment = replace(in_222, asks=True)

    if typed == "dev":
        ask_for_name(deployment, "abandon-snowflake", purpose="give up its Snowflake account")
        return
    with pytest.raises(NotConfirmedError, match="the answer was not dev"):
        ask_for_name(deployment, "abandon-snowflake", purpose="give up its Snowflake account")


@pytest.mark.parametrize(
    ("destroyed", "known"),
    [
        (("snowflake",), None),
        (("snowflake", "jobs", "connectors"), Recorded("ACME", "LAKE")),
        (("jobs",), Recorded("ACME", "LAKE")),
    ],
)
def test_an_account_whose_stack_is_destroyed_alone_is_not_made_again_by_the_next_create(
    in_222: Deployment, monkeypatch: pytest.MonkeyPatch, destroyed: tuple[str, ...], known: Recorded | None
) -> None:
    """A `delete` forgets it at its end only, so that it can be resumed."""
    stacks = SimpleNamespace(destroy=lambda _: None)
    monkeypatch.setattr("infra.deploy.stacks.synthesis.Synthesis.stacks", lambda *_, **__: stacks)
    remember(Recorded("ACME", "LAKE"), in_222.folder)

    STEPS["destroy"](in_222, Asked(destroyed, keeps_data=False))

    assert recorded(in_222.folder) == known


def test_a_local_cloud_without_a_record_is_known_by_the_account_of_its_double(in_222: Deployment) -> None:
    state_file(in_222, "network", aws_account_id="222222222222")

    compare_accounts(replace(in_222, profile="local"), "apply", nothing())

    assert account_record.recorded(in_222.folder) == "local"


@pytest.mark.parametrize(
    ("backend", "state"),
    [
        (LocalState(), "/.frazil/deploy/dev/state and"),
        (S3State("states", "us-east-1"), "the objects s3://states/frazil/dev/*.tfstate and"),
        (HcpState("acme", None, "app.terraform.io"), "the workspaces frazil-dev-* of the organization acme and"),
    ],
)
def test_the_hint_names_the_state_that_would_bring_the_record_back(
    in_222: Deployment, backend: LocalState | S3State | HcpState, state: str
) -> None:
    account_record.remember("111111111111", in_222.folder)
    there = replace(in_222, settings=replace(in_222.settings, backend=backend))

    with pytest.raises(SettingError) as refused:
        compare_accounts(there, "apply", nothing())

    assert state in str(refused.value.hint)


WITH_RESOURCES = json.dumps({"resources": [{"mode": "managed", "instances": [{}]}]})
WITHOUT = json.dumps({"resources": [{"mode": "data", "instances": [{}]}, {"mode": "managed", "instances": []}]})


class States:
    """A bucket of states, and a session that leads to it."""

    def __init__(self, **states: str) -> None:
        self.states = states

    def client(self, service: str, region_name: str) -> States:
        assert (service, region_name) == ("s3", "us-east-1")
        return self

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        name = Key.removeprefix("frazil/dev/").removesuffix(".tfstate")
        if name not in self.states:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": Bucket}}, "GetObject")
        return {"Body": io.BytesIO(self.states[name].encode())}


@pytest.mark.parametrize(
    ("states", "names", "hint"),
    [
        (
            {"snowflake": WITH_RESOURCES},
            STACKS[:-1],
            "`snowflake` in .*infra.deploy destroy snowflake --profile.*gone, run .*deploy abandon-snowflake --profile",
        ),
        (
            {"confluent": WITH_RESOURCES},
            ("network", "lake"),
            "`kafka.confluent` in .*deploy.sh delete --profile",
        ),
        (
            {"exports": WITH_RESOURCES},
            tuple(name for name in STACKS if name != "exports"),
            "restore `exports` in .*infra.deploy destroy exports --profile.*then remove `exports` again",
        ),
        ({"snowflake": WITHOUT}, STACKS[:-1], None),
        ({"snowflake": WITH_RESOURCES}, STACKS, None),
        ({}, STACKS[:-1], None),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_a_stack_that_the_settings_no_longer_have_is_not_left_behind(
    in_222: Deployment, states: dict[str, str], names: tuple[str, ...], hint: str | None, shared: bool
) -> None:
    deployment = in_222
    if shared:
        deployment = replace(in_222, settings=replace(in_222.settings, backend=S3State("states", "us-east-1")))
    for name, text in {}.items() if shared else states.items():
        state_file(in_222, name)
        (in_222.folder / "state" / f"{name}.tfstate").write_text(text)

    def look() -> None:
        refuse_removed_stacks(deployment, names, lambda: States(**states))

    if hint is None:
        look()
        return
    with pytest.raises(SettingError, match="which still has resources") as refused:
        look()
    assert re.search(hint, refused.value.hint)
