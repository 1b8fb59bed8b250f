"""`frazil doctor --application`: a job run really asks, as the job's role, and its report comes back by CloudWatch."""

from __future__ import annotations

import io
import json
import sysconfig
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cloud import ENDED, REGION, Cloud, names
from waiting import eventually

import frazil
from frazil.cli import app
from infra.permissions.of_roles import JOB, WITH_SECRETS

SERVICE = "emr-serverless.amazonaws.com"
PACKAGES = Path(frazil.__file__).parents[1]
START = f"""
import sys
sys.path[:0] = [{str(PACKAGES)!r}, {sysconfig.get_paths()["purelib"]!r}]
from frazil.job_run import main
main()
"""
"""As the packed job's, with the packages of this environment instead of an archive's."""

Said = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Deployed:
    """An application, and what its job runs are made from."""

    cloud: Cloud
    application: str
    role: str
    bucket: str
    group: str

    def run(self, *command: str, start: str = START, logs: bool = True, options: bool = True) -> dict[str, Any]:
        """A job run as a schedule starts it, when it has ended."""
        s3 = self.cloud.client("s3")
        s3.put_object(Bucket=self.bucket, Key="start.py", Body=start)
        given = ["--config", f"s3://{self.bucket}/frazil.yaml", "--tables", f"s3://{self.bucket}/tables.zip"]
        driver = {
            "entryPoint": f"s3://{self.bucket}/start.py",
            "entryPointArguments": [*(given if options else []), *command],
            "sparkSubmitParameters": "--conf spark.log.level=ERROR",
        }
        watched = {"enabled": logs, "logGroupName": self.group, "logStreamNamePrefix": "scheduled"}
        emr = self.cloud.client("emr-serverless")
        job_run = emr.start_job_run(
            applicationId=self.application,
            clientToken=uuid.uuid4().hex,
            name="frazil-test-scheduled",
            executionRoleArn=self.role,
            jobDriver={"sparkSubmit": driver},
            configurationOverrides={"monitoringConfiguration": {"cloudWatchLoggingConfiguration": watched}},
            tags={"application": "frazil", "frazil-definition": "abc"},
        )["jobRunId"]
        return self.ended(str(job_run))

    def ended(self, job_run: str) -> dict[str, Any]:
        emr = self.cloud.client("emr-serverless")
        look = lambda: emr.get_job_run(applicationId=self.application, jobRunId=job_run)["jobRun"]  # noqa: E731
        found: dict[str, Any] = eventually(look, lambda run: run["state"] in ENDED)
        return found

    def newest(self) -> dict[str, Any]:
        listed = self.cloud.client("emr-serverless").list_job_runs(applicationId=self.application)["jobRuns"]
        return self.ended(max(listed, key=lambda run: run["createdAt"])["id"])

    def doctor(self, *options: str) -> int:
        return app.run(["doctor", "--application", self.application, *options])


@pytest.fixture
def deployed(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    identity = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_REGION": REGION}
    for name, value in {"AWS_ENDPOINT_URL": cloud.endpoint_url, "AWS_DEFAULT_REGION": REGION, **identity}.items():
        monkeypatch.setenv(name, value)
    emr = cloud.client("emr-serverless")
    made = emr.create_application(
        name="jobs", releaseLabel="emr-spark-8.1.0", type="spark", clientToken=uuid.uuid4().hex
    )
    bucket, group = cloud.bucket(), f"/frazil/{uuid.uuid4().hex[:8]}"
    cloud.client("logs").create_log_group(logGroupName=group)
    secret = f"frazil/{uuid.uuid4().hex[:8]}"
    cloud.client("secretsmanager").create_secret(Name=secret, SecretString=json.dumps({"key": "kept-for-itself"}))
    config = {
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "schema_registry": {"url": "http://127.0.0.1:1", "basic.auth.user.info": f"me:${{secret:{secret}#key}}"},
        "catalog": {
            "type": "glue",
            "warehouse": f"s3://{bucket}/lake",
            "client.region": REGION,
            "s3.endpoint": cloud.endpoint_url,
        },
    }
    s3 = cloud.client("s3")
    s3.put_object(Bucket=bucket, Key="frazil.yaml", Body=json.dumps(config))
    s3.put_object(Bucket=bucket, Key="tables.zip", Body=specs())
    return Deployed(cloud, made["applicationId"], cloud.role(SERVICE), bucket, group)


def specs() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trades.yaml", "topic: trades\n")
    return packed.getvalue()


def test_the_report_comes_from_inside_with_calls_that_the_job_may_make(deployed: Deployed, capsys: Said) -> None:
    deployed.run("check", "--offline")
    before = len(deployed.cloud.calls(deployed.role))
    capsys.readouterr()

    status = deployed.doctor("--json")

    out, err = capsys.readouterr()
    report, run = json.loads(out), deployed.newest()
    findings = {(each["part"], each["what"]): each for each in report["findings"]}
    assert status == 1
    assert report["place"] == f"application {deployed.application}, job run {run['jobRunId']}"
    assert f"assumed-role/{deployed.role.rpartition('/')[2]}/" in findings["identity", "AWS"]["found"]
    assert findings["broker", "way to 127.0.0.1:1"]["verdict"] == "failed"
    assert {findings["warehouse", step]["verdict"] for step in ("list", "put", "get", "remove")} == {"ok"}
    assert findings["machine", "Java"]["verdict"] == "not asked"
    well = {part for (part, _), each in findings.items() if each["verdict"] == "ok"}
    assert {"identity", "configuration", "catalog", "warehouse"} <= well
    assert not {"broker", "registry"} & well
    assert (run["name"], run["mode"], run["tags"]) == (
        "frazil-test-scheduled-doctor",
        "BATCH",
        {"application": "frazil"},
    )
    assert f"job run {run['jobRunId']}: running" in err
    assert "kept-for-itself" not in out + err
    called = names(deployed.cloud.calls(deployed.role)[before:])
    needs_no_permission = {"sts:GetCallerIdentity"}
    assert called - needs_no_permission <= {call.api for call in JOB | WITH_SECRETS}
    assert {"s3:DeleteObject", "glue:GetDatabase", "sts:GetCallerIdentity"} <= called


def test_an_application_that_is_not_there(deployed: Deployed, capsys: Said) -> None:
    assert app.run(["doctor", "--application", "00nowhere"]) == 2

    assert "EMR Serverless could not find the application 00nowhere" in capsys.readouterr().err


def test_an_application_without_a_job_run_of_ours(deployed: Deployed, capsys: Said) -> None:
    assert deployed.doctor() == 2
    deployed.run(start="print('of somebody else')", options=False)
    assert deployed.doctor() == 2

    assert capsys.readouterr().err.count("has no Frazil job run to copy the settings from") == 2


def test_a_job_run_without_a_log(deployed: Deployed, capsys: Said) -> None:
    deployed.run(start="print()", logs=False)

    assert deployed.doctor() == 2

    assert "does not log to CloudWatch" in capsys.readouterr().err


def test_a_job_run_that_cannot_start_says_why(
    deployed: Deployed, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.doctor.inside.LOG_SECONDS", 1.0)
    deployed.run(start="print()")
    deployed.cloud.client("s3").delete_object(Bucket=deployed.bucket, Key="start.py")

    assert deployed.doctor() == 1

    said = capsys.readouterr().err
    assert "ended as FAILED" in said
    assert "none of its output has arrived" in said


def test_a_job_that_has_no_such_command_says_where_to_look(
    deployed: Deployed, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.doctor.inside.LOG_SECONDS", 1.0)
    deployed.run("doctor", "--json", start="import sys; print('usage'); sys.exit(2)")

    assert deployed.doctor() == 1

    said = capsys.readouterr().err
    assert "its output contains no report" in said
    assert f"in the log group {deployed.group}" in said
