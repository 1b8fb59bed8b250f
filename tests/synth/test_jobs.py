"""The stack that writes the tables: what it asks for, what its roles may do, and that it works with every backend."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from kept import build

from frazil.materialize.scheduling import waiting
from frazil.materialize.scheduling.schedule import FAILING_SECONDS
from frazil.model.errors import SettingError
from frazil.model.settings import GlueSource
from infra.artefacts.artefact import Artefact, Artefacts
from infra.reports.picture import ACCOUNT
from infra.settings.file import load_environment
from infra.settings.model import EnvironmentSettings, ExternalKafka, PolicyKey, Scheduled, Streamed

Json = dict[str, Any]
Synthesize = Callable[..., "Written"]
ARTEFACTS = Artefacts(
    environment=Artefact("environment.tar.gz", "e" * 64, 1),
    frazil=Artefact("frazil.zip", "f" * 64, 1),
    start=Artefact("start.py", "5" * 64, 1),
    tables=Artefact("tables.zip", "7" * 64, 1),
)
MSK = """
region: eu-central-1
kafka:
  external:
    name: events
    bootstrap.servers: b-1.events.x.c2.kafka.eu-central-1.amazonaws.com:9098
    aws_msk_iam: true
    registry: {url: "https://registry.example", credentials: theirs/registry}
jobs: {alarm_email: someone@example.com}
"""


class Written:
    """The stack as it was written, references shortened to what they mean: `<lake>` or `<iam_role arn>`."""

    def __init__(self, out: Path) -> None:
        self.document: Json = json.loads((out / "stacks" / "jobs" / "cdk.tf.json").read_text())

    def all(self, kind: str) -> list[Json]:
        bodies = self.document["resource"].get(kind, {}).values()
        return [{key: _short(value) for key, value in body.items() if key != "//"} for body in bodies]

    def one(self, kind: str) -> Json:
        (body,) = self.all(kind)
        return body

    def schedules(self) -> dict[str, Json]:
        """By when they come."""
        return {each["schedule_expression"]: each for each in self.all("aws_scheduler_schedule")}

    def policy(self, role: str) -> dict[str, Json]:
        """The statements of a role's policy by their ids."""
        (policy,) = (body["policy"] for body in self.all("aws_iam_role_policy") if body["name"] == role)
        return {each.pop("Sid"): each for each in json.loads(policy)["Statement"]}

    def trust(self, role: str) -> Json:
        (policy,) = (body["assume_role_policy"] for body in self.all("aws_iam_role") if body["name"] == role)
        (statement,) = json.loads(policy)["Statement"]
        return dict(statement)


def _short(value: Any) -> Any:
    if isinstance(value, str):
        value = re.sub(r"\$\{data\.terraform_remote_state\.cross-stack-reference-input-(\w+)\.[^}]*\}", r"<\1>", value)
        value = re.sub(r"\$\{data\.\w+\.\w+\.(\w+)\}", r"<\1>", value)
        return re.sub(r"\$\{aws_(\w+)\.[\w-]+\.(\w+)\}", r"<\1 \2>", value)
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list) else value


@pytest.fixture
def synthesize(tmp_path: Path) -> Synthesize:
    def synthesized(settings: EnvironmentSettings, **tables: Streamed | Scheduled) -> Written:
        (tmp_path / "tables").mkdir()
        for topic in ("orders", "stock_trades"):
            (tmp_path / "tables" / f"{topic}.yaml").write_text(f"topic: {topic}\n")
        wanted = replace(settings, jobs=replace(settings.jobs, tables=tables))
        build(wanted, tmp_path / "out", ARTEFACTS, tables=tmp_path / "tables")
        return Written(tmp_path / "out")

    return synthesized


@pytest.fixture
def dev() -> EnvironmentSettings:
    return load_environment("dev", {})


@pytest.fixture
def msk(tmp_path: Path) -> EnvironmentSettings:
    (tmp_path / "msk.yaml").write_text(MSK)
    return load_environment("msk", {}, folder=tmp_path)


def test_the_application_costs_nothing_while_nothing_runs(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    assert synthesize(dev).one("aws_emrserverless_application") == {
        "name": "frazil-dev-jobs",
        "type": "spark",
        "release_label": "emr-spark-8.1.0",
        "architecture": "X86_64",
        "maximum_capacity": {"cpu": "16 vCPU", "memory": "64 GB", "disk": "200 GB"},
        "auto_start_configuration": {"enabled": True},
        "auto_stop_configuration": {"enabled": True, "idle_timeout_minutes": 15},
        "network_configuration": {"subnet_ids": ["<network>", "<network>"], "security_group_ids": ["<network>"]},
    }


def test_without_a_vpc_the_application_is_in_none(synthesize: Synthesize, msk: EnvironmentSettings) -> None:
    assert "network_configuration" not in synthesize(msk).one("aws_emrserverless_application")


def test_the_streaming_run_is_kept_by_every_apply(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    written = synthesize(dev)

    kept = written.one("aws_lambda_invocation")
    event = json.loads(kept.pop("input"))
    submit = event["wanted"]["jobDriver"]["sparkSubmit"]
    assert kept == {
        "function_name": "<lambda_function function_name>",
        "lifecycle_scope": "CRUD",
        "depends_on": kept["depends_on"],
        "lifecycle": {"replace_triggered_by": ["aws_emrserverless_application.application"]},
    }
    assert [each.split(".")[0] for each in kept["depends_on"]] == ["aws_iam_role_policy", "aws_iam_role_policy"]
    assert event["application_id"] == "<emrserverless_application id>"
    assert (event["wanted"]["name"], event["wanted"]["mode"]) == ("frazil-dev-streaming", "STREAMING")
    assert event["wanted"]["executionRoleArn"] == "<iam_role arn>"
    assert submit["entryPoint"] == f"s3://<lake>/artefacts/{'5' * 64}/start.py"
    assert submit["entryPointArguments"] == [
        *("--config", "s3://<lake>/<s3_object key>"),
        *("--tables", f"s3://<lake>/artefacts/{'7' * 64}/tables.zip"),
        *("materialize", "orders", "stock_trades"),
    ]
    assert "--conf spark.executor.cores=4 " in submit["sparkSubmitParameters"]
    assert event["wanted"]["tags"] == {
        "application": "frazil",
        "environment": "dev",
        "stack": "jobs",
        "team": "data",
    }


def test_a_schedule_brings_the_same_run_back(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    written = synthesize(dev)

    schedule = written.schedules()["rate(15 minutes)"]
    assert schedule["target"]["arn"] == "<lambda_function arn>"
    assert schedule["target"]["input"] == written.one("aws_lambda_invocation")["input"]
    assert any(each.startswith("aws_lambda_invocation.") for each in schedule["depends_on"])
    assert written.policy("frazil-dev-schedules") == {
        "Function": {
            "Effect": "Allow",
            "Action": "lambda:InvokeFunction",
            "Resource": ["<lambda_function arn>", "<secrets>"],
        }
    }
    assert written.trust("frazil-dev-schedules")["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "<account_id>"},
        "ArnLike": {"aws:SourceArn": "<scheduler_schedule_group arn>"},
    }


def test_it_is_asked_how_old_keys_are_and_old_ones_and_failures_are_told_of(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(dev)

    asking = written.schedules()["rate(6 hours)"]
    alarms = {each["alarm_name"]: each for each in written.all("aws_cloudwatch_metric_alarm")}
    assert asking["target"]["arn"] == "<secrets>"
    assert json.loads(asking["target"]["input"])["Step"] == "tellAges"
    assert "frazil/dev/materializer" in json.loads(asking["target"]["input"])["Secrets"]
    old, failed = alarms["frazil-dev-key-too-old"], alarms["frazil-dev-key-rotation-failed"]
    watched = {"namespace": "Frazil", "metric_name": "KeyAgeDays", "dimensions": {"Environment": "dev"}}
    assert (old["threshold"], old["comparison_operator"]) == (dev.rotation.days + 3, "GreaterThanThreshold")
    assert old["treat_missing_data"] == "breaching"
    assert old["metric_query"]["metric"] == {**watched, "period": 86400, "stat": "Maximum"}
    assert failed["treat_missing_data"] == "notBreaching"
    assert failed["metric_query"]["metric"]["dimensions"] == {"FunctionName": "<secrets>"}


def test_where_no_key_is_ours_nobody_asks_for_one(synthesize: Synthesize, msk: EnvironmentSettings) -> None:
    written = synthesize(msk)

    alarms = {each["alarm_name"] for each in written.all("aws_cloudwatch_metric_alarm")}
    assert not [name for name in alarms if "key" in name]
    assert "rate(6 hours)" not in written.schedules()


def test_tables_on_a_schedule_have_runs_of_their_own(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    written = synthesize(dev, orders=Scheduled("rate(1 hour)"))

    schedules = written.schedules()
    started = schedules["rate(1 hour)"]
    asked = json.loads(started["target"]["input"])
    streamed = json.loads(written.one("aws_lambda_invocation")["input"])["wanted"]["jobDriver"]["sparkSubmit"]
    assert set(schedules) == {"rate(15 minutes)", "rate(1 hour)", "rate(6 hours)"}
    assert started["description"] == "Brings up to date: orders"
    assert started["target"]["arn"] == "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    assert (asked["ApplicationId"], asked["Mode"]) == ("<emrserverless_application id>", "BATCH")
    assert asked["JobDriver"]["SparkSubmit"]["EntryPointArguments"][4:] == ["materialize", "--once", "orders"]
    assert streamed["entryPointArguments"][4:] == ["materialize", "stock_trades"]
    assert set(written.policy("frazil-dev-schedules")) == {"Function", "Application", "JobRuns", "JobRole"}


def test_tables_are_proven_on_a_schedule_and_a_proof_that_fails_raises_an_alarm(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(replace(dev, jobs=replace(dev.jobs, verify="rate(1 day)")))

    started = written.schedules()["rate(1 day)"]
    asked = json.loads(started["target"]["input"])
    (alarm,) = [
        each for each in written.all("aws_cloudwatch_metric_alarm") if each["alarm_name"] == "frazil-dev-job-run-failed"
    ]
    assert started["name"] == "frazil-dev-verify"
    assert (asked["Name"], asked["Mode"]) == ("frazil-dev-verify", "BATCH")
    assert asked["JobDriver"]["SparkSubmit"]["EntryPointArguments"][4:] == ["verify", "--explain"]
    assert set(written.policy("frazil-dev-schedules")) == {"Function", "Application", "JobRuns", "JobRole"}
    assert "FailedJobs" in json.dumps(alarm)
    assert "frazil-dev-verify, a table is not proven" in alarm["alarm_description"]


def test_tables_are_maintained_on_a_schedule_in_a_time_zone_and_a_failure_raises_an_alarm(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(replace(dev, jobs=replace(dev.jobs, maintain="cron(0 3 * * ? *)", time_zone="Europe/Berlin")))

    started = written.schedules()["cron(0 3 * * ? *)"]
    asked = json.loads(started["target"]["input"])
    (alarm,) = [
        each for each in written.all("aws_cloudwatch_metric_alarm") if each["alarm_name"] == "frazil-dev-job-run-failed"
    ]
    assert (started["name"], started["schedule_expression_timezone"]) == ("frazil-dev-maintain", "Europe/Berlin")
    assert (asked["Name"], asked["Mode"]) == ("frazil-dev-maintain", "BATCH")
    assert asked["JobDriver"]["SparkSubmit"]["EntryPointArguments"][4:6] == ["maintain", "--for"]
    assert asked["JobDriver"]["SparkSubmit"]["EntryPointArguments"][-2:] == ["--wait", "900s"]
    assert set(written.policy("frazil-dev-schedules")) == {"Function", "Application", "JobRuns", "JobRole"}
    assert "frazil-dev-maintain, a table was not maintained" in alarm["alarm_description"]


def test_without_a_streamed_table_nothing_is_kept_and_nothing_is_missed(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    daily = Scheduled("cron(0 6 * * ? *)")

    written = synthesize(dev, orders=daily, stock_trades=daily)

    assert json.loads(written.one("aws_lambda_invocation")["input"])["wanted"] is None
    assert set(written.schedules()) == {"cron(0 6 * * ? *)", "rate(6 hours)"}
    assert "frazil-dev-streaming-stopped" not in {
        each["alarm_name"] for each in written.all("aws_cloudwatch_metric_alarm")
    }
    assert set(written.policy("frazil-dev-schedules")) == {"Function", "Application", "JobRuns", "JobRole"}


def test_the_role_of_a_job_run_is_for_this_application_and_touches_only_what_it_needs(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(dev)

    glue = [f"glue:{verb}" for verb in ("CreateDatabase", "CreateTable", "GetDatabase", "GetTable", "UpdateTable")]
    in_glue = "arn:aws:glue:us-east-1:<lake>"
    assert written.trust("frazil-dev-job") == {
        "Effect": "Allow",
        "Principal": {"Service": "emr-serverless.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": "<account_id>"},
            "ArnLike": {"aws:SourceArn": "<emrserverless_application arn>"},
        },
    }
    assert written.policy("frazil-dev-job") == {
        "TableFiles": allow(["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], "<lake>/<confluent>/*"),
        "Artefacts": allow("s3:GetObject", "<lake>/artefacts/*"),
        "Bucket": allow("s3:ListBucket", "<lake>"),
        "KeyUnderS3": allow(["kms:Decrypt", "kms:GenerateDataKey"], "<lake>", via="s3"),
        "Catalog": allow(glue, f"{in_glue}:catalog"),
        "Database": allow(glue, f"{in_glue}:database/<lake>"),
        "Tables": allow([each for each in glue if each.endswith("Table")], f"{in_glue}:table/<lake>/*"),
        "Secrets": allow("secretsmanager:GetSecretValue", "<secrets>"),
        "KeyUnderSecrets": allow("kms:Decrypt", "<lake>", via="secretsmanager"),
        "Logs": allow(
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            "<cloudwatch_log_group arn>:*",
        ),
        "AllLogGroups": allow("logs:DescribeLogGroups", "*"),
    }


def allow(actions: list[str] | str, resource: list[str] | str, *, via: str = "") -> Json:
    condition = {"Condition": {"StringEquals": {"kms:ViaService": f"{via}.us-east-1.amazonaws.com"}}} if via else {}
    return {"Effect": "Allow", "Action": actions, "Resource": resource, **condition}


@pytest.mark.parametrize(("formats", "secrets"), [("iceberg", 1), ("iceberg, delta", 2)])
def test_a_job_run_may_read_the_loaders_key_where_there_is_a_delta_log_to_tell_of(
    tmp_path: Path, dev: EnvironmentSettings, formats: str, secrets: int
) -> None:
    (tmp_path / "tables").mkdir()
    spec = f"topic: orders\nreaders: [snowflake]\nformats: [{formats}]\n"
    (tmp_path / "tables" / "orders.yaml").write_text(spec)

    build(replace(dev, snowflake=ACCOUNT), tmp_path / "out", ARTEFACTS, tables=tmp_path / "tables")

    written = Written(tmp_path / "out")
    allowed = written.policy("frazil-dev-job")["Secrets"]["Resource"]
    assert len([allowed] if isinstance(allowed, str) else allowed) == secrets
    (text,) = written.document["locals"].values()
    assert "    private_key: $${secret:frazil/dev/snowflake/loader#private_key}\n" in text


def test_msk_knows_the_job_by_its_role_and_lets_it_read_the_topics_of_its_tables(
    synthesize: Synthesize, msk: EnvironmentSettings
) -> None:
    policy = synthesize(msk).policy("frazil-msk-job")

    in_kafka = "arn:aws:kafka:eu-central-1:<account_id>"
    assert policy["MskCluster"] == allow("kafka-cluster:Connect", f"{in_kafka}:cluster/*/*")
    assert policy["MskTopics"] == {
        "Effect": "Allow",
        "Action": ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"],
        "Resource": [f"{in_kafka}:topic/*/*/orders", f"{in_kafka}:topic/*/*/stock_trades"],
    }
    assert policy["MskGroup"] == {
        "Effect": "Allow",
        "Action": ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"],
        "Resource": f"{in_kafka}:group/*/*/frazil-reads-explicit-offsets",
    }
    assert policy["Secrets"]["Resource"].endswith(":secret:theirs/registry-??????")


def test_msk_lets_the_job_send_to_the_outputs_of_its_tables(tmp_path: Path, msk: EnvironmentSettings) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "orders.yaml").write_text("topic: orders\noutputs: [{topic: orders.clean}]")
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms" / "large.yaml").write_text(
        "from: orders\nsql: SELECT * FROM orders\noutputs: [{topic: orders.large}]"
    )

    build(msk, tmp_path / "out", ARTEFACTS, tables=tmp_path / "tables")

    policy = Written(tmp_path / "out").policy("frazil-msk-job")
    in_kafka = "arn:aws:kafka:eu-central-1:<account_id>"
    topic = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData", "kafka-cluster:WriteData"]
    group = ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"]
    ours = ["kafka-cluster:AlterTransactionalId", "kafka-cluster:DescribeTransactionalId"]
    both = [f"{in_kafka}:topic/*/*/{name}" for name in ("orders.clean", "orders.large")]
    assert policy["MskOutputTopics"] == allow(topic, both)
    assert policy["MskOutputGroups"] == allow(group, f"{in_kafka}:group/*/*/frazil-output-*")
    assert policy["MskTransactions"] == allow(ours, f"{in_kafka}:transactional-id/*/*/frazil-output-*")


def test_a_registry_in_glue_is_read_by_the_role_and_no_other_registrys_secret(
    synthesize: Synthesize, msk: EnvironmentSettings
) -> None:
    assert isinstance(msk.kafka, ExternalKafka)

    policy = synthesize(replace(msk, kafka=replace(msk.kafka, registry=GlueSource("payments", "eu-west-1")))).policy(
        "frazil-msk-job"
    )

    in_glue = "arn:aws:glue:eu-west-1:<account_id>"
    assert policy["SchemaRegistry"] == {
        "Effect": "Allow",
        "Action": ["glue:ListSchemaVersions", "glue:ListSchemas"],
        "Resource": [f"{in_glue}:registry/payments", f"{in_glue}:schema/payments/*"],
    }
    assert policy["AllSchemaVersions"] == {
        **allow("glue:GetSchemaVersion", "*"),
        "Condition": {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}},
    }
    assert not {"Secrets", "KeyUnderSecrets"} & set(policy)


def masked(folder: Path) -> Path:
    folder.mkdir()
    (folder / "orders.yaml").write_text("topic: orders\ncolumns: {email: {mask: hash}}\n")
    return folder


def test_the_keys_of_masks_are_secrets_that_the_role_may_read(tmp_path: Path, msk: EnvironmentSettings) -> None:
    keys = {"hash_key": PolicyKey("1", "acme/masks"), "dead_letter_key": PolicyKey("2", "acme/letters")}

    build(replace(msk, policies=keys), tmp_path / "out", ARTEFACTS, tables=masked(tmp_path / "tables"))

    written = Written(tmp_path / "out")
    secrets = "arn:aws:secretsmanager:eu-central-1:<secrets>:secret:"
    assert written.policy("frazil-msk-job")["Secrets"] == {
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": [f"{secrets}{name}-??????" for name in ("theirs/registry", "acme/masks", "acme/letters")],
    }
    (text,) = written.document["locals"].values()
    assert "    secret: $${secret:acme/masks#hash_key}\n" in text


@pytest.mark.parametrize("missing", ["hash_key", "dead_letter_key"])
def test_a_table_with_masks_needs_their_keys_in_the_settings(
    tmp_path: Path, msk: EnvironmentSettings, missing: str
) -> None:
    keys = {"hash_key": PolicyKey("1", "acme/masks"), "dead_letter_key": PolicyKey("2", "acme/letters")}
    others = {name: key for name, key in keys.items() if name != missing}

    with pytest.raises(SettingError, match=rf"policies\.{missing} is missing"):
        build(replace(msk, policies=others), tmp_path / "out", ARTEFACTS, tables=masked(tmp_path / "tables"))


def test_who_keeps_the_run_may_hand_the_jobs_role_to_emr_serverless_alone(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    policy = synthesize(dev).policy("frazil-dev-streaming-job")

    assert set(policy) == {"Application", "JobRuns", "JobRole", "WriteLogs"}
    assert policy["JobRole"] == {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "<iam_role arn>",
        "Condition": {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
    }
    assert policy["JobRuns"]["Resource"] == "<emrserverless_application arn>/jobruns/*"


def test_the_configuration_lies_under_the_hash_of_its_content_and_names_its_secrets(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(dev)

    (name,) = written.document["locals"]
    text = written.document["locals"][name]
    stored = written.one("aws_s3_object")
    assert stored["key"] == f"artefacts/${{sha256(local.{name})}}/frazil.yaml"
    assert stored["content"] == f"${{local.{name}}}" == written.document["output"]["frazil_config"]["value"]
    assert (stored["server_side_encryption"], stored["kms_key_id"]) == ("aws:kms", "<lake>")
    assert stored["override_provider"] == {"default_tags": {"tags": {}}}, "S3 takes ten tags, and settings may have 40"
    assert "  sasl.password: $${secret:frazil/dev/materializer#kafka_api_secret}\n" in text
    assert '  client.region: "us-east-1"\n' in text


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_it_stands_with_every_backend(synthesize: Synthesize, dev: EnvironmentSettings, backend: str) -> None:
    document = synthesize(replace(dev, backend=BACKENDS[backend])).document

    states = document["data"]["terraform_remote_state"]
    assert list(document["terraform"]["cloud" if backend == "cloud" else "backend"])
    assert sorted(name.rpartition("-")[2] for name in states) == ["confluent", "lake", "network", "secrets"]


def test_production_keeps_no_rule_from_holding(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    assert synthesize(replace(dev, production=True)).one("aws_emrserverless_application")


def test_a_table_that_keeps_failing_beside_healthy_ones_is_told_of(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(dev)

    counted = written.one("aws_cloudwatch_log_metric_filter")
    alarms = {each["alarm_name"]: each for each in written.all("aws_cloudwatch_metric_alarm")}
    alarm = alarms["frazil-dev-table-failing"]
    watched = alarm["metric_query"]["metric"]
    transformed = counted["metric_transformation"]
    assert (watched["namespace"], watched["metric_name"]) == (transformed["namespace"], transformed["name"])
    assert watched["period"] * alarm["evaluation_periods"] > 2 * FAILING_SECONDS
    assert watched["period"] > FAILING_SECONDS, "each period meets a try"
    assert watched["period"] >= 2 * waiting.QUIET_SECONDS, "each period meets a line, however often it is tried"
    assert f'_log(logging.ERROR, "{counted["pattern"]}"' in inspect.getsource(waiting)


def test_alarms_are_mailed_where_there_is_an_address(synthesize: Synthesize, msk: EnvironmentSettings) -> None:
    written = synthesize(msk)

    mail = written.one("aws_sns_topic_subscription")
    assert mail == {"protocol": "email", "endpoint": "someone@example.com", "topic_arn": "<sns_topic arn>"}
    assert written.one("aws_sns_topic")["kms_master_key_id"] == "<lake>"
    assert {
        alarm["alarm_name"]: alarm["treat_missing_data"] for alarm in written.all("aws_cloudwatch_metric_alarm")
    } == {
        "frazil-msk-streaming-stopped": "breaching",
        "frazil-msk-table-behind": "notBreaching",
        "frazil-msk-job-run-failed": "notBreaching",
        "frazil-msk-table-failing": "notBreaching",
        "frazil-msk-streaming-not-kept": "notBreaching",
        "frazil-msk-schedule-dropped": "notBreaching",
    }


def test_the_dashboard_can_be_read_and_no_widget_lies_on_another(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    widgets = json.loads(synthesize(dev).one("aws_cloudwatch_dashboard")["dashboard_body"])["widgets"]

    places = [(each["x"], each["y"]) for each in widgets]
    assert len(set(places)) == len(places) == 13
    assert all(each["x"] + each["width"] <= 24 for each in widgets)


def test_the_widgets_of_tables_quote_the_namespace_that_they_search(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    widgets = json.loads(synthesize(dev).one("aws_cloudwatch_dashboard")["dashboard_body"])["widgets"]

    metrics = [metric for each in widgets for metric in each["properties"].get("metrics", [])]
    searched = [metric[0]["expression"] for metric in metrics if isinstance(metric[0], dict)]
    wanted = """SEARCH('{"Frazil/dev",Table} MetricName="LagSeconds"', 'Maximum', 60)"""
    assert wanted in searched


def test_every_log_is_kept_for_as_long_as_the_settings_say(synthesize: Synthesize, dev: EnvironmentSettings) -> None:
    groups = synthesize(replace(dev, log_retention_days=7)).all("aws_cloudwatch_log_group")

    assert {each["name"]: (each["retention_in_days"], each["kms_key_id"]) for each in groups} == {
        "/frazil/dev/jobs": (7, "<lake>"),
        "/aws/lambda/frazil-dev-streaming-job": (7, "<lake>"),
    }


def test_a_schedule_for_a_table_that_is_not_there_stops_the_synthesis(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    with pytest.raises(SettingError, match="there is no table stock_trade\n\nhint: did you mean stock_trades"):
        synthesize(dev, stock_trade=Scheduled("rate(1 hour)"))


def test_without_table_metrics_there_is_nothing_that_waits_for_them(
    synthesize: Synthesize, dev: EnvironmentSettings
) -> None:
    written = synthesize(replace(dev, jobs=replace(dev.jobs, table_metrics=False)))

    widgets = json.loads(written.one("aws_cloudwatch_dashboard")["dashboard_body"])["widgets"]
    alarms = {alarm["alarm_name"] for alarm in written.all("aws_cloudwatch_metric_alarm")}
    assert len(widgets) == 7
    assert "frazil-dev-table-behind" not in alarms
    assert "FRAZIL_METRICS_NAMESPACE" not in json.dumps(written.all("aws_lambda_function"))
