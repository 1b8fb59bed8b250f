from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import boto3
import pytest
from botocore.validate import ParamValidator

from infra.artefacts.artefact import Artefact, Artefacts
from infra.components.job_request import JobRuns, Request, as_parameters, for_scheduler, worker_settings
from infra.settings.model import Worker

ARTEFACTS = Artefacts(
    environment=Artefact("environment.tar.gz", "e" * 64, 1),
    frazil=Artefact("frazil.zip", "f" * 64, 1),
    start=Artefact("start.py", "5" * 64, 1),
    tables=Artefact("tables.zip", "7" * 64, 1),
)
RUNS = JobRuns(
    environment="dev",
    region="us-east-1",
    bucket="lake",
    artefacts=ARTEFACTS,
    config="s3://lake/configuration/1/frazil.yaml",
    python="/usr/bin/python3.11",
    driver=Worker(2, 8, 20),
    executor=Worker(4, 16, 50),
    executors=3,
    role_arn="arn:aws:iam::123456789012:role/frazil-dev-job",
    log_group="/frazil/dev/jobs",
    tags={"application": "frazil"},
    metrics_namespace="Frazil/dev",
)
PARAMETERS = {
    "spark.archives": f"s3://lake/artefacts/{'e' * 64}/environment.tar.gz#environment,"
    f"s3://lake/artefacts/{'f' * 64}/frazil.zip#frazil",
    "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "/usr/bin/python3.11",
    "spark.emr-serverless.driverEnv.PYTHONPATH": "./environment:./frazil",
    "spark.emr-serverless.driverEnv.AWS_DEFAULT_REGION": "us-east-1",
    "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": "/usr/bin/python3.11",
    "spark.emr-serverless.driverEnv.FRAZIL_METRICS_NAMESPACE": "Frazil/dev",
    "spark.emr-serverless.driverEnv.FRAZIL_METRICS_RUN": "streaming",
    "spark.executorEnv.PYSPARK_PYTHON": "/usr/bin/python3.11",
    "spark.executorEnv.PYTHONPATH": "./environment:./frazil",
    "spark.executorEnv.AWS_DEFAULT_REGION": "us-east-1",
    "spark.driver.cores": "2",
    "spark.driver.memory": "2048m",
    "spark.driver.memoryOverhead": "6144m",
    "spark.emr-serverless.driver.disk": "20g",
    "spark.executor.cores": "4",
    "spark.executor.memory": "4096m",
    "spark.executor.memoryOverhead": "12288m",
    "spark.emr-serverless.executor.disk": "50g",
    "spark.executor.instances": "3",
    "spark.dynamicAllocation.enabled": "false",
    "spark.default.parallelism": "12",
    "spark.task.maxFailures": "4",
    "spark.log.level": "WARN",
}
MONITORING = {
    "cloudWatchLoggingConfiguration": {
        "enabled": True,
        "logGroupName": "/frazil/dev/jobs",
        "logStreamNamePrefix": "streaming",
        "logTypes": {"SPARK_DRIVER": ["STDERR", "STDOUT"], "SPARK_EXECUTOR": ["STDERR", "STDOUT"]},
    },
    "managedPersistenceMonitoringConfiguration": {"enabled": True},
}


def test_the_streaming_run_never_times_out_and_is_tried_again() -> None:
    request = RUNS.streaming(["stock_trades", "orders"])

    arguments = ["--config", RUNS.config, "--tables", f"s3://lake/artefacts/{'7' * 64}/tables.zip"]
    assert request == {
        "name": "frazil-dev-streaming",
        "executionRoleArn": RUNS.role_arn,
        "mode": "STREAMING",
        "executionTimeoutMinutes": 0,
        "retryPolicy": {"maxFailedAttemptsPerHour": 5},
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"s3://lake/artefacts/{'5' * 64}/start.py",
                "entryPointArguments": [*arguments, "materialize", "stock_trades", "orders"],
                "sparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in PARAMETERS.items()),
            }
        },
        "configurationOverrides": {"monitoringConfiguration": MONITORING},
        "tags": {"application": "frazil"},
    }


def test_transformations_come_with_the_tables() -> None:
    transforms = Artefact("transforms.zip", "a" * 64, 1)
    runs = replace(RUNS, artefacts=replace(ARTEFACTS, transforms=transforms))

    arguments = runs.scheduled(["orders"])["jobDriver"]["sparkSubmit"]["entryPointArguments"]

    address = f"s3://lake/artefacts/{'a' * 64}/transforms.zip"
    assert arguments[4:] == ["--transforms", address, "materialize", "--once", "orders"]


def test_a_scheduled_run_ends_when_it_is_caught_up_or_its_time_is_up() -> None:
    request = RUNS.scheduled(["orders"])

    assert (request["name"], request["mode"]) == ("frazil-dev-scheduled", "BATCH")
    assert request["executionTimeoutMinutes"] == 240
    assert request["jobDriver"]["sparkSubmit"]["entryPointArguments"][4:] == ["materialize", "--once", "orders"]
    assert "retryPolicy" not in request


def test_a_run_that_maintains_all_tables_ends_before_it_is_cut_off() -> None:
    request = RUNS.maintaining(timedelta(minutes=15))
    arguments = request["jobDriver"]["sparkSubmit"]["entryPointArguments"][4:]

    assert (request["name"], request["mode"]) == ("frazil-dev-maintain", "BATCH")
    assert arguments == ["maintain", "--for", "3h", "--wait", "900s"]
    assert "retryPolicy" not in request


def test_without_a_streaming_driver_a_run_that_maintains_waits_as_the_command_does() -> None:
    request = RUNS.maintaining(None)

    assert request["jobDriver"]["sparkSubmit"]["entryPointArguments"][4:] == ["maintain", "--for", "3h"]


def test_a_run_that_verifies_proves_all_tables_once() -> None:
    request = RUNS.verifying()

    assert (request["name"], request["mode"]) == ("frazil-dev-verify", "BATCH")
    assert request["jobDriver"]["sparkSubmit"]["entryPointArguments"][4:] == ["verify", "--explain"]
    assert "retryPolicy" not in request


@pytest.mark.parametrize("request_of", [RUNS.streaming, RUNS.scheduled])
def test_the_api_takes_what_is_asked_for(
    request_of: Callable[[list[str]], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.client("emr-serverless", region_name="us-east-1")
    request = {"applicationId": "00f1", "clientToken": "1", **request_of(["orders"])}

    shape = client.meta.service_model.operation_model("StartJobRun").input_shape
    refused = ParamValidator().validate({**request, "mode": 1}, shape)

    assert refused.has_errors()
    assert ParamValidator().validate(request, shape).generate_report() == ""


def test_the_scheduler_gets_the_same_in_its_own_spelling() -> None:
    spelled = for_scheduler(RUNS.scheduled(["orders"]), "00f1")

    submit = RUNS.scheduled(["orders"])["jobDriver"]["sparkSubmit"]
    logging = spelled["ConfigurationOverrides"]["MonitoringConfiguration"]["CloudWatchLoggingConfiguration"]
    assert (spelled["ApplicationId"], spelled["ClientToken"]) == ("00f1", "<aws.scheduler.execution-id>")
    assert spelled["JobDriver"] == {"SparkSubmit": {name[0].upper() + name[1:]: submit[name] for name in submit}}
    assert spelled["Tags"] == {"application": "frazil"}
    assert list(logging["LogTypes"]) == ["SPARK_DRIVER", "SPARK_EXECUTOR"]


def test_java_gets_a_quarter_of_a_worker_and_both_parts_make_the_size_that_is_paid_for() -> None:
    smallest = worker_settings("executor", Worker(1, 2, 20))
    large = worker_settings("executor", Worker(16, 120, 200))

    assert (smallest["spark.executor.memory"], smallest["spark.executor.memoryOverhead"]) == ("1024m", "1024m")
    assert (large["spark.executor.memory"], large["spark.executor.memoryOverhead"]) == ("30720m", "92160m")


def test_a_value_with_a_space_is_refused() -> None:
    with pytest.raises(ValueError, match="a space in its value"):
        as_parameters({"spark.archives": "s3://a b"})


def test_new_artefacts_or_another_size_are_another_definition() -> None:
    code = replace(ARTEFACTS, frazil=Artefact("frazil.zip", "0" * 64, 1))
    others = [replace(RUNS, artefacts=code), replace(RUNS, executors=2), replace(RUNS, config="s3://lake/2")]

    assert len({str(runs.streaming(["orders"])) for runs in (RUNS, *others)}) == 4
