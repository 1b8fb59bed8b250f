"""Lambda: run a function in a process of its own with the credentials of its role, without a container.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
from moto.awslambda.models import LambdaFunction, get_backend

from frazil.local.aws_double import children, clients, lambda_runtime
from frazil.local.aws_double.log_streams import CopiedLog
from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import NotAssumableError, Session, assume

SERVICE = "lambda.amazonaws.com"
DEFAULT_TIMEOUT_SECONDS = 3
REMEMBERED = ("DeadLetterConfig", "LoggingConfig")
_PACKAGES = str(Path(boto3.__file__).parent.parent)

Answer = tuple[str, bool, str]
"""The result of an invocation in moto: the response as JSON, whether it is an error, and the output."""


@dataclass(frozen=True, slots=True)
class Invocation:
    function: Any
    request_id: str
    folder: Path
    session: Session
    log_group: str
    log_stream: str

    @property
    def code(self) -> Path:
        return self.folder / "code"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def answer(self) -> Path:
        return self.folder / "answer.json"


def invoke(place: DoubleFolder, function: Any, event: object) -> Answer:
    """Run the function once, and copy its output to its log group."""
    request_id = str(uuid.uuid4())
    try:
        session = assume(function.role, service=SERVICE, session_name=function.function_name)
    except NotAssumableError as exc:
        return _failed("AccessDeniedException", str(exc), request_id)
    with tempfile.TemporaryDirectory(dir=place.functions) as folder:
        run = Invocation(function, request_id, Path(folder), session, *_log_of(function, request_id))
        _unpack(place, run, event)
        status = _run(place, run)
        _copy_log(place, run)
        return _answer(run, status)


def _log_of(function: Any, request_id: str) -> tuple[str, str]:
    given = _remembered(function).get("LoggingConfig") or {}
    group = given.get("LogGroup") or f"/aws/lambda/{function.function_name}"
    return group, f"{datetime.now(UTC):%Y/%m/%d}/[{function.version}]{request_id.replace('-', '')}"


def _unpack(place: DoubleFolder, run: Invocation, event: object) -> None:
    run.code.symlink_to(_unpacked(place, run), target_is_directory=True)
    backend = get_backend(run.function.account_id, run.function.region)
    for number, layer in enumerate(run.function.layers):
        content = backend.layers_versions_by_arn(layer["Arn"]).code_bytes
        zipfile.ZipFile(io.BytesIO(content)).extractall(run.folder / "layers" / str(number))
    (run.folder / "event.json").write_text(json.dumps(event), encoding="utf-8")


def _unpacked(place: DoubleFolder, run: Invocation) -> Path:
    """Return the folder of the code. It is unpacked once, so that modules are not compiled at every invocation."""
    content = run.function.code_bytes
    target = place.unpacked / f"function-{hashlib.sha256(content).hexdigest()[:32]}"
    if not target.exists():
        half = target.with_name(f"{target.name}.{run.request_id}")
        zipfile.ZipFile(io.BytesIO(content)).extractall(half)
        try:
            half.rename(target)
        except OSError:  # a concurrent invocation has unpacked it
            shutil.rmtree(half)
    os.utime(target)
    return target


def _run(place: DoubleFolder, run: Invocation) -> int | None:
    """Run the process. Return its exit status, or None if it reached the function's timeout."""
    runtime = [sys.executable, "-E", "-S", lambda_runtime.__file__]
    child = children.run(
        [*runtime, str(run.folder / "event.json"), str(run.answer), _PACKAGES],
        environment=_environment(place, run),
        folder=run.code,
        stdout=run.log,
        stderr=run.log,
    )
    status = child.wait(run.function.timeout or DEFAULT_TIMEOUT_SECONDS)
    if status is None:
        child.end(grace_seconds=0)
    return status


def _environment(place: DoubleFolder, run: Invocation) -> dict[str, str]:
    function = run.function
    layers = sorted((run.folder / "layers").glob("*/python"))
    return {
        "PATH": os.defpath,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(run.folder),
        **clients.environment(place, session=run.session, region=function.region),
        **{name: str(value) for name, value in function.environment_vars.items()},
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
        "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
        "AWS_LAMBDA_LOG_GROUP_NAME": run.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": run.log_stream,
        "LAMBDA_TASK_ROOT": str(run.code),
        "_HANDLER": function.handler,
        "_INVOKED_FUNCTION_ARN": function.function_arn,
        "_REQUEST_ID": run.request_id,
        "_TIMEOUT_SECONDS": str(function.timeout or DEFAULT_TIMEOUT_SECONDS),
        "_LAYERS": os.pathsep.join(map(str, layers)),
    }


def _copy_log(place: DoubleFolder, run: Invocation) -> None:
    logs = clients.client(place, "logs", session=run.session, region=run.function.region)
    CopiedLog(logs, run.log_group, run.log_stream, run.log).finish()


def _answer(run: Invocation, status: int | None) -> Answer:
    printed = run.log.read_text(encoding="utf-8", errors="replace")
    if status is None:
        seconds = run.function.timeout or DEFAULT_TIMEOUT_SECONDS
        return _failed("Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds", run.request_id, printed)
    if not run.answer.exists():
        found = f"Runtime exited with error: exit status {status}"
        return _failed("Runtime.ExitError", found, run.request_id, printed)
    told = json.loads(run.answer.read_text(encoding="utf-8"))
    return json.dumps(told.get("error", told.get("answer"))), "error" in told, printed


def _failed(kind: str, message: str, request_id: str, printed: str = "") -> Answer:
    told = {"errorType": kind, "errorMessage": f"RequestId: {request_id} Error: {message}"}
    return json.dumps(told), True, printed


def _calling_failures_unhandled(invoke_function: Callable[..., str | bytes]) -> Callable[..., str | bytes]:
    """Report an exception of the function as `Unhandled`, as Lambda does; only an old runtime used `Handled`."""

    def invoked(function: Any, body: str, request_headers: Any, response_headers: Any) -> str | bytes:
        if request_headers.get("x-amz-invocation-type") == "DryRun":
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
        told: dict[str, Any] = tell(function, on_create)
        group = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{function.function_name}"}
        return told | {"LoggingConfig": group} | _remembered(function)

    LambdaFunction.__init__ = __init__
    LambdaFunction.update_configuration = update_configuration
    LambdaFunction.get_configuration = get_configuration


def teach(place: DoubleFolder) -> None:
    def _invoke_lambda(function: Any, event: object = None) -> Answer:
        return invoke(place, function, event)

    LambdaFunction._invoke_lambda = _invoke_lambda
    LambdaFunction.invoke = _calling_failures_unhandled(LambdaFunction.invoke)
    _teach_configuration()
