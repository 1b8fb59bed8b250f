"""The local EMR Serverless: what StartJobRun starts is a process that really runs, and its states are the process's."""

from __future__ import annotations

import io
import tarfile
import uuid
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from botocore.exceptions import ClientError
from cloud import ENDED, Cloud, names
from waiting import eventually

SERVICE = "emr-serverless.amazonaws.com"
NO_SPARK = "--conf spark.log.level=ERROR"


@dataclass(frozen=True)
class Emr:
    """One application, and a role for its job runs."""

    cloud: Cloud
    client: Any
    application: str
    role: str

    def start(self, script: str, *arguments: str, parameters: str = "", **options: Any) -> str:
        bucket = self.cloud.bucket(**{"main.py": script})
        driver = {
            "entryPoint": f"s3://{bucket}/main.py",
            "entryPointArguments": list(arguments),
            "sparkSubmitParameters": f"{NO_SPARK} {parameters}",
        }
        request = {"clientToken": uuid.uuid4().hex, "executionRoleArn": self.role, "jobDriver": {"sparkSubmit": driver}}
        return str(self.client.start_job_run(applicationId=self.application, **(request | options))["jobRunId"])

    def run(self, job_run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_job_run(applicationId=self.application, jobRunId=job_run)["jobRun"]
        return found

    def until(self, job_run: str, *states: str) -> dict[str, Any]:
        found: dict[str, Any] = eventually(lambda: self.run(job_run), lambda run: run["state"] in states)
        return found

    def stdout(self, job_run: str, attempt: int = 1) -> str:
        folder = self.cloud.folder / "job-runs" / self.application / job_run / str(attempt)
        return (folder / "stdout").read_text(encoding="utf-8")


@pytest.fixture
def emr(cloud: Cloud) -> Emr:
    client = cloud.client("emr-serverless")
    made = client.create_application(
        name="jobs", releaseLabel="emr-spark-8.1.0", type="spark", architecture="X86_64", clientToken=uuid.uuid4().hex
    )
    return Emr(cloud, client, made["applicationId"], cloud.role(SERVICE))


SPARK_JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
total = spark.range(100).selectExpr("sum(id) AS total").first().total
print("total", total, "on", spark.sparkContext.master, "of", sys.argv[1])
"""


def test_a_job_run_computes_with_spark(emr: Emr) -> None:
    run = emr.until(emr.start(SPARK_JOB, "first"), *ENDED)

    assert run["state"] == "SUCCESS", run
    assert emr.stdout(run["jobRunId"]) == "total 4950 on local[2] of first\n"


ENVIRONMENT_JOB = """
import os, pathlib, boto_of_archive
print(os.environ["SIZE"], os.environ["AWS_ENDPOINT_URL"], boto_of_archive.__file__.split("/")[-2])
print(pathlib.Path("packages/data.txt").read_text(), "AWS_PROFILE" in os.environ)
"""


def test_archives_and_environment_are_as_the_parameters_say(emr: Emr) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("boto_of_archive.py", b""), ("data.txt", b"unpacked")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    bucket = emr.cloud.bucket(**{"p.tar.gz": packed.getvalue()})
    parameters = (
        f"--conf spark.archives=s3://{bucket}/p.tar.gz#packages --conf spark.executor.memory=64g"
        " --conf spark.emr-serverless.driverEnv.SIZE=large --conf spark.executorEnv.SIZE=small"
        " --conf spark.emr-serverless.driverEnv.PYTHONPATH=./packages"
    )

    run = emr.until(emr.start(ENVIRONMENT_JOB, parameters=parameters), *ENDED)

    assert run["state"] == "SUCCESS", run
    assert emr.stdout(run["jobRunId"]) == f"large {emr.cloud.endpoint_url} packages\nunpacked False\n"


def test_what_a_run_asks_of_aws_is_recorded_as_its_role(emr: Emr) -> None:
    logging = {"cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": "/frazil/jobs"}}
    overrides = {"monitoringConfiguration": logging}

    run = emr.until(emr.start("print('said')", configurationOverrides=overrides), *ENDED)

    called = emr.cloud.calls(emr.role)
    assert {"s3:GetObject", "logs:CreateLogStream", "logs:PutLogEvents"} <= names(called)
    assert [call["resource"]["Key"] for call in called if call["service"] == "s3"] == ["main.py"]
    events = emr.cloud.client("logs").filter_log_events(logGroupName="/frazil/jobs")["events"]
    assert "said" in [event["message"] for event in events if run["jobRunId"] in event["logStreamName"]]


def test_a_failed_run_says_so(emr: Emr) -> None:
    run = emr.until(emr.start("raise SystemExit(3)"), *ENDED)

    assert (run["state"], run["attempt"]) == ("FAILED", 1)
    assert "ExitCode: 3" in run["stateDetails"]


WAITING_JOB = """
import pathlib, signal, sys, time
def leave(number, frame):
    print("left in order", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave if sys.argv[1] == "orderly" else signal.SIG_IGN)
print("waiting", flush=True)
while True:
    time.sleep(0.1)
"""


def test_a_cancelled_run_is_asked_to_leave(emr: Emr) -> None:
    job_run = emr.start(WAITING_JOB, "orderly", mode="STREAMING")
    eventually(lambda: _waits(emr, job_run), bool)

    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=job_run)

    assert emr.run(job_run)["state"] in ("CANCELLING", "CANCELLED")
    assert emr.until(job_run, *ENDED)["state"] == "CANCELLED"
    assert emr.stdout(job_run) == "waiting\nleft in order\n"


def test_a_run_that_does_not_leave_is_killed_after_the_grace_period(emr: Emr) -> None:
    job_run = emr.start(WAITING_JOB, "deaf", mode="STREAMING")
    eventually(lambda: _waits(emr, job_run), bool)

    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=job_run, shutdownGracePeriodInSeconds=2)

    assert emr.until(job_run, *ENDED)["state"] == "CANCELLED"
    assert _processes(job_run) == []


CRASHING_JOB = """
import pathlib, sys
crashed = pathlib.Path(sys.argv[1])
if crashed.exists():
    print("second")
else:
    crashed.touch()
    sys.exit(9)
"""


def test_a_streaming_run_that_crashes_is_tried_again(emr: Emr, tmp_path: Any) -> None:
    job_run = emr.start(CRASHING_JOB, str(tmp_path / "crashed"), mode="STREAMING")

    run = emr.until(job_run, *ENDED)

    attempts = emr.client.list_job_run_attempts(applicationId=emr.application, jobRunId=job_run)["jobRunAttempts"]
    assert (run["state"], run["attempt"]) == ("SUCCESS", 2)
    assert [(attempt["attempt"], attempt["state"]) for attempt in attempts] == [(1, "FAILED"), (2, "SUCCESS")]
    assert emr.stdout(job_run, attempt=2) == "second\n"


def test_a_streaming_run_is_given_up_after_so_many_failures_an_hour(emr: Emr) -> None:
    policy = {"maxFailedAttemptsPerHour": 2}

    run = emr.until(emr.start("raise SystemExit(9)", mode="STREAMING", retryPolicy=policy), *ENDED)

    assert (run["state"], run["attempt"]) == ("FAILED", 2)


def test_the_same_client_token_starts_one_run(emr: Emr) -> None:
    bucket = emr.cloud.bucket(**{"main.py": "pass"})
    request = {
        "applicationId": emr.application,
        "clientToken": uuid.uuid4().hex,
        "executionRoleArn": emr.role,
        "jobDriver": {"sparkSubmit": {"entryPoint": f"s3://{bucket}/main.py"}},
    }

    first, again = emr.client.start_job_run(**request), emr.client.start_job_run(**request)

    assert first["jobRunId"] == again["jobRunId"]
    with pytest.raises(emr.client.exceptions.ConflictException):
        emr.client.start_job_run(**request, name="another")


def test_a_role_that_does_not_trust_the_service_fails_the_run(emr: Emr) -> None:
    role = emr.cloud.role("lambda.amazonaws.com")

    run = emr.until(emr.start("pass", executionRoleArn=role), *ENDED)

    assert run["state"] == "FAILED"
    assert "does not let emr-serverless.amazonaws.com assume it" in run["stateDetails"]


def test_an_application_goes_through_its_states(emr: Emr) -> None:
    assert _state(emr) == "CREATED"
    job_run = emr.start(WAITING_JOB, "orderly", mode="STREAMING", tags={"a": "b"})
    eventually(lambda: _waits(emr, job_run), bool)

    assert _state(emr) == "STARTED"
    _is_refused(emr.client.stop_application, emr)
    _is_refused(emr.client.delete_application, emr)
    listed = emr.client.list_job_runs(applicationId=emr.application, states=["RUNNING"], mode="STREAMING")["jobRuns"]
    assert [run["id"] for run in listed] == [job_run]
    assert emr.run(job_run)["tags"] == {"a": "b"}

    emr.client.cancel_job_run(applicationId=emr.application, jobRunId=job_run)
    emr.until(job_run, *ENDED)
    emr.client.stop_application(applicationId=emr.application)
    updated = emr.client.update_application(
        applicationId=emr.application, clientToken="t", releaseLabel="emr-spark-8.0.0"
    )["application"]
    assert (updated["state"], updated["releaseLabel"], updated["type"]) == ("STOPPED", "emr-spark-8.0.0", "Spark")
    emr.client.delete_application(applicationId=emr.application)
    assert _state(emr) == "TERMINATED"


def test_an_application_is_told_as_it_was_made(emr: Emr) -> None:
    settings = {
        "monitoringConfiguration": {"cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": "/g"}},
        "runtimeConfiguration": [{"classification": "spark-defaults", "properties": {"spark.a": "b"}}],
        "maximumCapacity": {"cpu": "4 vCPU", "memory": "16 GB"},
        "architecture": "ARM64",
    }
    made = emr.client.create_application(
        releaseLabel="emr-spark-8.1.0", type="SPARK", clientToken=uuid.uuid4().hex, tags={"x": "y"}, **settings
    )

    told = emr.client.get_application(applicationId=made["applicationId"])["application"]

    assert {name: told[name] for name in settings} == settings
    assert emr.client.list_tags_for_resource(resourceArn=made["arn"])["tags"] == {"x": "y"}


def _waits(emr: Emr, job_run: str) -> bool:
    try:
        return "waiting" in emr.stdout(job_run)
    except FileNotFoundError:
        return False


def _processes(job_run: str) -> list[list[str]]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        found += [command] if any(job_run in word for word in command) else []
    return found


def _state(emr: Emr) -> str:
    return str(emr.client.get_application(applicationId=emr.application)["application"]["state"])


def _is_refused(act: Any, emr: Emr) -> None:
    with pytest.raises(ClientError) as refused:
        act(applicationId=emr.application)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
