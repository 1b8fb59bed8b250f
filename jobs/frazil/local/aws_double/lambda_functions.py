"""Lambda: run a function in processes of its own with the credentials of its role, without a container.

moto runs functions in Docker and returns "error running docker" without it. It also drops the logging and dead-letter
configuration of a function, so every `terraform plan` would show a difference.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
from moto.awslambda.models import LambdaFunction, get_backend

from frazil.local.aws_double import children, clients, lambda_runtime
from frazil.local.aws_double.lambda_environments import (
    ANSWERS,
    EVENTS,
    ExecutionEnvironment,
    IdleEnvironments,
    make_pipes,
)
from frazil.local.aws_double.log_streams import CopiedLog
from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import NotAssumableError, Session, assume

SERVICE = "lambda.amazonaws.com"
DEFAULT_TIMEOUT_SECONDS = 3
MOST_RETRIES = 2
REMEMBERED = ("DeadLetterConfig", "LoggingConfig")
_PACKAGES = str(Path(boto3.__file__).parent.parent)
_idle = IdleEnvironments()

Answer = tuple[str, bool, str]
"""The result of an invocation in moto: the response as JSON, whether it is an error, and the output."""


def invoke(place: DoubleFolder, function: Any, event: object) -> Answer:
    """Run the function once, and copy its output to its log group."""
    request_id = str(uuid.uuid4())
    try:
        session = assume(function.role, service=SERVICE, session_name=function.function_name)
    except NotAssumableError as exc:
        return _failed("AccessDeniedException", str(exc), request_id)
    configuration = _configuration(place, function)
    environment = _idle.take(configuration) or _started(place, function, session)
    seconds = function.timeout or DEFAULT_TIMEOUT_SECONDS
    result = environment.ask({"event": event, "request_id": request_id, "seconds": seconds}, within_seconds=seconds)
    printed, status = environment.printed(), environment.status()
    if result is None:
        environment.end()
        return _without_result(status, seconds, request_id, printed)
    _idle.keep(configuration, environment)
    return json.dumps(result.get("error", result.get("answer"))), "error" in result, printed


def _configuration(place: DoubleFolder, function: Any) -> Hashable:
    """Return all that a running environment cannot change."""
    settings = {
        "variables": function.environment_vars,
        "layers": [layer["Arn"] for layer in function.layers],
        "remembered": _remembered(function),
    }
    return (
        place.endpoint_url,
        function.function_arn,
        str(function.version),
        function.code_sha_256,
        function.handler,
        function.role,
        function.run_time,
        function.memory_size,
        json.dumps(settings, sort_keys=True),
    )


def _started(place: DoubleFolder, function: Any, session: Session) -> ExecutionEnvironment:
    folder = Path(tempfile.mkdtemp(dir=place.functions))
    code, output = folder / "code", folder / "log"
    code.symlink_to(_unpacked(place, function), target_is_directory=True)
    _unpack_layers(function, folder / "layers")
    make_pipes(folder)
    group, stream = _log_of(function)
    runtime = [sys.executable, "-E", "-S", lambda_runtime.__file__]
    child = children.run(
        [*runtime, str(folder / EVENTS), str(folder / ANSWERS), _PACKAGES],
        environment={
            **_environment(place, function, folder, session),
            "AWS_LAMBDA_LOG_GROUP_NAME": group,
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        },
        folder=code,
        stdout=output,
        stderr=output,
    )
    logs = clients.client(place, "logs", session=session, region=function.region)
    return ExecutionEnvironment(folder, child, output, CopiedLog(logs, group, stream, output))


def _log_of(function: Any) -> tuple[str, str]:
    given = _remembered(function).get("LoggingConfig") or {}
    group = given.get("LogGroup") or f"/aws/lambda/{function.function_name}"
    return group, f"{datetime.now(UTC):%Y/%m/%d}/[{function.version}]{uuid.uuid4().hex}"


def _unpack_layers(function: Any, folder: Path) -> None:
    backend = get_backend(function.account_id, function.region)
    for number, layer in enumerate(function.layers):
        content = backend.layers_versions_by_arn(layer["Arn"]).code_bytes
        zipfile.ZipFile(io.BytesIO(content)).extractall(folder / str(number))


def _unpacked(place: DoubleFolder, function: Any) -> Path:
    """Return the folder of the code. It is unpacked once, so that modules are not compiled by every environment."""
    content = function.code_bytes
    target = place.unpacked / f"function-{hashlib.sha256(content).hexdigest()[:32]}"
    if not target.exists():
        half = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
        zipfile.ZipFile(io.BytesIO(content)).extractall(half)
        try:
            half.rename(target)
        except OSError:  # another environment has unpacked it meanwhile
            shutil.rmtree(half)
    os.utime(target)
    return target


def _environment(place: DoubleFolder, function: Any, folder: Path, session: Session) -> dict[str, str]:
    layers = sorted((folder / "layers").glob("*/python"))
    return {
        "PATH": os.defpath,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(folder),
        **clients.environment(place, session=session, region=function.region),
        **{name: str(value) for name, value in function.environment_vars.items()},
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
        "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
        "LAMBDA_TASK_ROOT": str(folder / "code"),
        "_HANDLER": function.handler,
        "_INVOKED_FUNCTION_ARN": function.function_arn,
        "_LAYERS": os.pathsep.join(map(str, layers)),
    }


def _without_result(status: int | None, seconds: float, request_id: str, printed: str) -> Answer:
    """Return the error of an invocation whose process ended with `status`, or is still running: None."""
    if status is None:
        return _failed("Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds", request_id, printed)
    return _failed("Runtime.ExitError", f"Runtime exited with error: exit status {status}", request_id, printed)


def _failed(kind: str, message: str, request_id: str, printed: str = "") -> Answer:
    answer = {"errorType": kind, "errorMessage": f"RequestId: {request_id} Error: {message}"}
    return json.dumps(answer), True, printed


def invoke_later(place: DoubleFolder, function: Any, event: object) -> None:
    """Run the function until it succeeds, and report the event if it never does.

    The report goes to the topic that is its destination for failures, and to its dead-letter queue.

    Lambda waits a minute or two before it tries again; the double does not, and answers only then.
    """
    config = function.event_invoke_config
    retries = config[0].response().get("MaximumRetryAttempts", MOST_RETRIES) if config else MOST_RETRIES
    for _ in range(retries + 1):
        result, errored, _ = invoke(place, function, event)
        if not errored:
            return
    session = assume(function.role, service=SERVICE, session_name=function.function_name)
    queue = (_remembered(function).get("DeadLetterConfig") or {}).get("TargetArn")
    if queue:
        sqs = clients.client(place, "sqs", session=session, region=function.region)
        why = {"StringValue": json.loads(result)["errorMessage"][:1024] or "none", "DataType": "String"}
        account, name = queue.split(":")[-2:]
        sqs.send_message(
            QueueUrl=f"{place.endpoint_url}/{account}/{name}",
            MessageBody=json.dumps(event),
            MessageAttributes={"ErrorMessage": why},
        )
    settings = config[0].response() if config else {}
    topic = settings.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    if topic:
        record = {
            "requestContext": {"condition": "RetriesExhausted", "approximateInvokeCount": retries + 1},
            "requestPayload": event,
            "responsePayload": json.loads(result),
        }
        sns = clients.client(place, "sns", session=session, region=function.region)
        sns.publish(TopicArn=topic, Message=json.dumps(record))


def _as_lambda_does(place: DoubleFolder, invoke_function: Callable[..., str | bytes]) -> Callable[..., str | bytes]:
    """Report an exception of the function as `Unhandled`; only an old runtime used `Handled`. Retry an `Event`."""

    def invoked(function: Any, body: str, request_headers: Any, response_headers: Any) -> str | bytes:
        kind = request_headers.get("x-amz-invocation-type")
        if kind == "DryRun":
            return ""
        if kind == "Event":
            invoke_later(place, function, json.loads(body or "{}"))
            return ""
        answer = invoke_function(function, body, request_headers, response_headers)
        if "x-amz-function-error" in response_headers:
            response_headers["x-amz-function-error"] = "Unhandled"
        return answer

    return invoked


def _remembered(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(function, "frazil_remembers", {})
    return found


def _remember(function: Any, given: Mapping[str, Any]) -> None:
    function.frazil_remembers = _remembered(function) | {name: given[name] for name in REMEMBERED if name in given}


def _teach_configuration() -> None:
    make, update, tell = LambdaFunction.__init__, LambdaFunction.update_configuration, LambdaFunction.get_configuration

    def __init__(function: Any, *rest: Any, spec: dict[str, Any], **options: Any) -> None:  # noqa: N807
        make(function, *rest, spec=spec, **options)
        _remember(function, spec)

    def update_configuration(function: Any, changes: dict[str, Any]) -> dict[str, Any]:
        _remember(function, changes)
        update(function, changes)
        return get_configuration(function)

    def get_configuration(function: Any, on_create: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = tell(function, on_create)
        group = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{function.function_name}"}
        return answer | {"LoggingConfig": group} | _remembered(function)

    LambdaFunction.__init__ = __init__
    LambdaFunction.update_configuration = update_configuration
    LambdaFunction.get_configuration = get_configuration


def teach(place: DoubleFolder) -> None:
    def _invoke_lambda(function: Any, event: object = None) -> Answer:
        return invoke(place, function, event)

    LambdaFunction._invoke_lambda = _invoke_lambda
    LambdaFunction.invoke = _as_lambda_does(place, LambdaFunction.invoke)
    _teach_configuration()
