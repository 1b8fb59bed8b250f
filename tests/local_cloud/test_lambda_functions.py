"""Lambda functions of the double run for real: their zip, their role, their time."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cloud import Cloud, names, zipped

SERVICE = "lambda.amazonaws.com"


@pytest.fixture
def role(cloud: Cloud) -> str:
    return cloud.role(SERVICE)


def make(cloud: Cloud, role: str, code: str, **settings: Any) -> str:
    name = f"function-{uuid.uuid4().hex[:8]}"
    cloud.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Handler="handler.handler",
        Role=role,
        Code={"ZipFile": zipped(handler=code)},
        **({"Timeout": 20} | settings),
    )
    return name


def invoke(cloud: Cloud, name: str, event: object = None) -> tuple[str | None, Any]:
    """The kind of failure, and the answer."""
    told = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
    return told.get("FunctionError"), json.loads(told["Payload"].read())


def test_a_function_answers_with_what_its_code_returns(cloud: Cloud, role: str) -> None:
    code = """
import os
def handler(event, context):
    spare = context.get_remaining_time_in_millis()
    said = os.environ["GREETING"]
    return {"got": event, "greeting": said, "spare": 0 < spare <= 20000, "name": context.function_name}
"""
    name = make(cloud, role, code, Environment={"Variables": {"GREETING": "hello"}})

    assert invoke(cloud, name, {"a": 1}) == (
        None,
        {"got": {"a": 1}, "greeting": "hello", "spare": True, "name": name},
    )


def test_an_exception_is_a_function_error(cloud: Cloud, role: str) -> None:
    name = make(cloud, role, "def handler(event, context):\n    raise ValueError('no such thing')\n")

    kind, told = invoke(cloud, name)

    assert (kind, told["errorType"], told["errorMessage"]) == ("Unhandled", "ValueError", "no such thing")


def test_a_function_that_takes_too_long_is_stopped(cloud: Cloud, role: str) -> None:
    name = make(cloud, role, "import time\ndef handler(event, context):\n    time.sleep(60)\n", Timeout=1)

    kind, told = invoke(cloud, name)

    assert kind == "Unhandled"
    assert "Task timed out after 1.00 seconds" in told["errorMessage"]


COUNTS = """
import os
import time
count = 0
def handler(event, context):
    global count
    count += 1
    print(event, count)
    time.sleep(event.get("sleep", 0))
    if event.get("exit"):
        os._exit(3)
    return [count, context.aws_request_id, os.environ.get("GREETING", "")]
"""


def test_an_environment_runs_the_next_invocation_until_the_function_changes(cloud: Cloud, role: str) -> None:
    name = make(cloud, role, COUNTS)

    (_, first), (_, second) = invoke(cloud, name, {}), invoke(cloud, name, {})
    cloud.client("lambda").update_function_configuration(
        FunctionName=name, Environment={"Variables": {"GREETING": "hi"}}
    )
    _, third = invoke(cloud, name, {})
    code = zipped(handler=COUNTS.replace("count = 0", "count = 10"))
    cloud.client("lambda").update_function_code(FunctionName=name, ZipFile=code)
    _, fourth = invoke(cloud, name, {})

    assert [each[0] for each in (first, second, third, fourth)] == [1, 2, 1, 11]
    assert len({each[1] for each in (first, second, third, fourth)}) == 4
    assert [each[2] for each in (second, third)] == ["", "hi"]
    events = cloud.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
    assert sorted(event["message"] for event in events) == ["{} 1", "{} 1", "{} 11", "{} 2"]


def test_an_environment_that_ended_or_took_too_long_is_not_used_again(cloud: Cloud, role: str) -> None:
    name = make(cloud, role, COUNTS, Timeout=2)

    counts = [invoke(cloud, name, {})[1][0]]
    kind, ended = invoke(cloud, name, {"exit": True})
    counts += [invoke(cloud, name, {})[1][0], invoke(cloud, name, {})[1][0]]
    _, late = invoke(cloud, name, {"sleep": 60})
    counts += [invoke(cloud, name, {})[1][0]]

    assert (kind, ended["errorType"]) == ("Unhandled", "Runtime.ExitError")
    assert "exit status 3" in ended["errorMessage"]
    assert late["errorType"] == "Sandbox.Timedout"
    assert counts == [1, 1, 2, 1]


def test_an_environment_runs_one_invocation_at_a_time(cloud: Cloud, role: str) -> None:
    name = make(cloud, role, COUNTS)

    with ThreadPoolExecutor(2) as pool:
        both = [answer[0] for _, answer in pool.map(lambda _: invoke(cloud, name, {"sleep": 2}), range(2))]

    assert both == [1, 1]


def test_a_function_has_boto3_and_the_credentials_of_its_role_and_no_other_package(cloud: Cloud, role: str) -> None:
    code = """
import importlib.util
import boto3
def handler(event, context):
    print("looking")
    boto3.client("glue").get_databases()
    return [name for name in ("boto3", "pyarrow", "frazil", "yaml") if importlib.util.find_spec(name)]
"""
    name = make(cloud, role, code)

    assert invoke(cloud, name) == (None, ["boto3"])

    called = cloud.calls(role)
    assert {"glue:GetDatabases", "logs:CreateLogStream", "logs:PutLogEvents"} <= names(called)
    events = cloud.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
    assert [event["message"] for event in events] == ["looking"]


def test_a_function_is_told_as_it_was_made(cloud: Cloud, role: str) -> None:
    dead_letters = {"TargetArn": "arn:aws:sqs:us-east-1:123456789012:dead"}
    logging = {"LogFormat": "Text", "LogGroup": "/frazil/functions"}
    name = make(cloud, role, "handler = print", DeadLetterConfig=dead_letters, LoggingConfig=logging)

    told = cloud.client("lambda").get_function(FunctionName=name)["Configuration"]

    assert (told["DeadLetterConfig"], told["LoggingConfig"]) == (dead_letters, logging)


def test_a_role_that_does_not_trust_lambda_fails_the_invocation(cloud: Cloud) -> None:
    name = make(cloud, cloud.role("emr-serverless.amazonaws.com"), "handler = print")

    kind, told = invoke(cloud, name)

    assert (kind, told["errorType"]) == ("Unhandled", "AccessDeniedException")
