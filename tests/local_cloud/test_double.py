"""What the double of AWS adds to moto's server beside EMR Serverless and Lambda."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from cloud import Cloud, zipped
from waiting import eventually

from frazil.local.supervisor import ANY_FREE_PORTS, down, status, up


def test_a_bucket_that_denies_what_does_not_come_by_tls_takes_objects(cloud: Cloud) -> None:
    bucket, s3 = cloud.bucket(), cloud.client("s3")
    tls_only = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [tls_only]}))

    s3.put_object(Bucket=bucket, Key="a", Body=b"1")

    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"


def test_of_many_who_write_a_new_object_at_once_one_succeeds(cloud: Cloud) -> None:
    bucket, s3 = cloud.bucket(), cloud.client("s3")

    def write(key: str) -> bool:
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=b"1", IfNoneMatch="*")
        except s3.exceptions.ClientError as refused:
            assert refused.response["Error"]["Code"] == "PreconditionFailed"
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = [(key, pool.submit(write, key)) for key in map(str, range(40)) for _ in range(8)]
        written = Counter(key for key, each in done if each.result())

    assert written == dict.fromkeys(map(str, range(40)), 1)


def test_a_secret_read_without_a_stage_is_the_current_one(cloud: Cloud) -> None:
    secrets, name = cloud.client("secretsmanager"), f"secret-{uuid.uuid4().hex[:8]}"
    old = secrets.create_secret(Name=name, SecretString="old")["VersionId"]
    new = secrets.put_secret_value(SecretId=name, SecretString="new", VersionStages=["AWSPENDING"])["VersionId"]

    assert secrets.get_secret_value(SecretId=name)["SecretString"] == "old"

    secrets.update_secret_version_stage(
        SecretId=name, VersionStage="AWSCURRENT", MoveToVersionId=new, RemoveFromVersionId=old
    )
    assert secrets.get_secret_value(SecretId=name)["SecretString"] == "new"


def test_a_secret_without_a_version_is_not_found(cloud: Cloud) -> None:
    secrets, name = cloud.client("secretsmanager"), f"secret-{uuid.uuid4().hex[:8]}"
    secrets.create_secret(Name=name)

    try:
        secrets.get_secret_value(SecretId=name)
    except secrets.exceptions.ResourceNotFoundException as error:
        assert "AWSCURRENT" in str(error)
    else:
        raise AssertionError("an empty secret was read")


def test_a_schedule_that_is_fired_starts_a_job_run(cloud: Cloud) -> None:
    emr, scheduler, name = cloud.client("emr-serverless"), cloud.client("scheduler"), f"at-{uuid.uuid4().hex[:8]}"
    application = emr.create_application(releaseLabel="emr-spark-8.1.0", type="SPARK", clientToken="c")["applicationId"]
    bucket = cloud.bucket(**{"main.py": "pass"})
    request = {
        "ApplicationId": application,
        "ClientToken": "<aws.scheduler.execution-id>",
        "ExecutionRoleArn": cloud.role("emr-serverless.amazonaws.com"),
        "JobDriver": {"SparkSubmit": {"EntryPoint": f"s3://{bucket}/main.py"}},
        "Tags": {"CamelCase": "kept"},
    }
    role = cloud.role("scheduler.amazonaws.com")
    target = {
        "Arn": "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun",
        "RoleArn": role,
        "Input": json.dumps(request),
    }
    window = {"Mode": "OFF"}
    scheduler.create_schedule(Name=name, ScheduleExpression="rate(1 hour)", FlexibleTimeWindow=window, Target=target)

    fired = [fire(cloud, name) for _ in range(2)]

    runs = emr.list_job_runs(applicationId=application)["jobRuns"]
    assert {run["id"] for run in runs} == {answer["jobRunId"] for answer in fired}
    assert len(runs) == 2
    assert emr.get_job_run(applicationId=application, jobRunId=runs[0]["id"])["jobRun"]["tags"] == {"CamelCase": "kept"}
    assert [call["operation"] for call in cloud.calls(role)] == ["StartJobRun", "StartJobRun"]


def fire(cloud: Cloud, name: str) -> dict[str, Any]:
    request = urllib.request.Request(f"{cloud.endpoint_url}/_double/schedules/default/{name}/fire", method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def test_every_call_is_recorded_and_no_content(cloud: Cloud) -> None:
    bucket, name = cloud.bucket(), f"name{uuid.uuid4().hex[:8]}"
    role = cloud.role("lambda.amazonaws.com")
    session = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    mine = Cloud(cloud.endpoint_url, cloud.folder)
    client = _as(session, mine)
    client("s3").put_object(Bucket=bucket, Key="a/b c", Body=b"hidden-content")
    client("s3").list_objects_v2(Bucket=bucket, Prefix="a/")
    client("s3").delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a/b c"}]})
    client("secretsmanager").create_secret(Name=name, SecretString="hidden-value")
    client("glue").create_database(DatabaseInput={"Name": name, "Parameters": {"a": "hidden-parameter"}})
    client("glue").create_table(DatabaseName=name, TableInput={"Name": "t"})
    client("cloudwatch").put_metric_data(Namespace="frazil", MetricData=[{"MetricName": "rows", "Value": 1.0}])
    client("iam").get_role(RoleName=role.rpartition("/")[2])

    recorded = [(c["service"], c["operation"], c["resource"], c["status"]) for c in cloud.calls(role)]

    assert recorded == [
        ("s3", "PutObject", {"Bucket": bucket, "Key": "a/b c"}, 200),
        ("s3", "ListObjectsV2", {"Bucket": bucket, "prefix": "a/"}, 200),
        ("s3", "DeleteObjects", {"Bucket": bucket, "Key": ["a/b c"]}, 200),
        ("secretsmanager", "CreateSecret", {"Name": name}, 200),
        ("glue", "CreateDatabase", {"Name": name}, 200),
        ("glue", "CreateTable", {"DatabaseName": name, "Name": "t"}, 200),
        ("monitoring", "PutMetricData", {"Namespace": "frazil"}, 200),
        ("iam", "GetRole", {"RoleName": role.rpartition("/")[2]}, 200),
    ]
    assert "hidden" not in (cloud.folder / "calls.jsonl").read_text(encoding="utf-8")


def _as(session: dict[str, Any], cloud: Cloud) -> Any:
    import boto3  # noqa: PLC0415

    return lambda service: boto3.client(
        service,
        endpoint_url=cloud.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"],
        aws_session_token=session["SessionToken"],
    )


SLEEPING = """
import time
def handler(event, context):
    open(event, "w").write("begun")
    time.sleep(600)
"""


def test_what_runs_in_the_double_dies_with_it(tmp_path: Path) -> None:
    """Even where it is killed, and so cannot stop anything itself."""
    directory, begun = tmp_path / "local", tmp_path / "begun"
    try:
        cloud = Cloud(up(("aws",), directory, preferred_ports=ANY_FREE_PORTS).aws_endpoint_url, directory / "aws")
        role = cloud.role("lambda.amazonaws.com")
        cloud.client("lambda").create_function(
            FunctionName="sleeping",
            Runtime="python3.12",
            Handler="h.handler",
            Role=role,
            Code={"ZipFile": zipped(h=SLEEPING)},
            Timeout=600,
        )
        _invoke_and_leave(cloud, "sleeping", str(begun))
        eventually(begun.exists, bool)
        (double,) = [service.pid for service in status(directory).services if service.name == "aws"]
        assert double is not None
        running = psutil.Process(double).children(recursive=True)
        assert running

        os.kill(double, signal.SIGKILL)

        gone, alive = psutil.wait_procs(running, timeout=20)
        assert (len(gone), alive) == (len(running), [])
    finally:
        down(directory, wipe=True)


def _invoke_and_leave(cloud: Cloud, name: str, event: str) -> None:
    """Ask for the invocation and do not wait for its end."""
    import threading  # noqa: PLC0415

    def invoke() -> None:
        try:
            cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
        except Exception as error:
            assert "closed" in str(error) or "connect" in str(error).lower()

    threading.Thread(target=invoke, daemon=True).start()
