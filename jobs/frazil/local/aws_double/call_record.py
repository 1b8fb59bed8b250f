"""Record every API call as a line of JSON, for the permissions test to compare with the policies of the roles.

A line has the time, service (its signing name), operation (API name), principal (a role's ARN, or `user`), resource,
attempt (above 1 if the SDK repeats the call) and status. The resource holds only identifiers whose parameter names are
on a list, so that request bodies and secret values cannot get into the file.
"""

from __future__ import annotations

import functools
import io
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs

from moto.core.request import Request
from moto.core.routing import get_service_router
from werkzeug.exceptions import HTTPException

from frazil.local.aws_double.principals import Signature, principal, read_signature

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

MODELS = {"monitoring": "cloudwatch", "states": "stepfunctions", "email": "ses"}
"""botocore's name of each service whose signing name is different, by signing name."""
BODIES = ("application/x-amz-json", "application/x-www-form-urlencoded", "application/json")
LONGEST_BODY = 1_000_000
IDENTIFIERS = frozenset(
    (
        *("Bucket", "Key", "Prefix", "prefix", "VersionId", "CopySource"),
        *("CatalogId", "DatabaseName", "TableName", "Name"),
        *("SecretId", "VersionStage", "KeyId"),
        *("applicationId", "jobRunId", "executionRoleArn"),
        *("logGroupName", "logStreamName", "logGroupIdentifier", "Namespace", "AlarmName"),
        *("FunctionName", "Qualifier", "GroupName", "TopicArn", "QueueUrl", "StreamName"),
        *("RoleArn", "RoleName", "PolicyArn", "UserName"),
        *("WorkGroup", "QueryExecutionId", "resourceArn", "ResourceArn"),
    )
)
NESTED = {"TableInput": "Name", "DatabaseInput": "Name"}
_ATTEMPT = re.compile(r"attempt=(\d{1,3})\b")
_DELETED_KEY = re.compile(r"<Key>([^<]*)</Key>")


@dataclass(slots=True)
class CallRecord:
    """Appends to one file. Each line is written whole and flushed before the next."""

    path: Path
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _file: IO[str] | None = None

    def open(self) -> None:
        """Start an empty file; keep the record of the previous process as `.1`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        self._file = self.path.open("w", encoding="utf-8")

    def append(self, call: Mapping[str, object]) -> None:
        line = json.dumps(call) + "\n"
        with self._writing:
            if self._file is not None:
                self._file.write(line)
                self._file.flush()


def recorded(application: Application, record: CallRecord) -> Application:
    """Return the application wrapped so that it records every signed request and the status of its response.

    A call is described before it is carried out: an error after it would be answered by 500, and the SDK would repeat
    a call that had its effect.
    """

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        signature = _signature(environ)
        if signature is None:
            return application(environ, start_response)
        call = describe(environ, signature, _keep_body(environ, signature.service))
        status = ["500"]

        def start(line: str, *rest: Any) -> Any:
            status[0] = line
            return start_response(line, *rest)

        try:
            return application(environ, start)
        finally:
            record.append(call | {"status": int(status[0].split()[0])})

    return answer


def describe(environ: Environ, signature: Signature, body: bytes) -> dict[str, object]:
    """Return the fields of a line except the status."""
    attempt = _ATTEMPT.search(environ.get("HTTP_AMZ_SDK_REQUEST", ""))
    operation, labels = _operation(environ | {"wsgi.input": io.BytesIO(body)}, signature.service)
    given = labels | _query(environ) | _parameters(environ, body)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "service": signature.service,
        "operation": operation,
        "principal": principal(signature.access_key),
        "resource": {name: given[name] for name in sorted(IDENTIFIERS & given.keys())},
        "attempt": int(attempt[1]) if attempt else 1,
    }


def _signature(environ: Environ) -> Signature | None:
    header = environ.get("HTTP_AUTHORIZATION") or ""
    if header:
        return read_signature(header)
    credential = parse_qs(environ.get("QUERY_STRING", "")).get("X-Amz-Credential")
    return read_signature(f"Credential={credential[0]}") if credential else None


def _keep_body(environ: Environ, service: str) -> bytes:
    """Return the body if it may hold an identifier: if it is small and not the content of an S3 object."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    deletes = service == "s3" and environ["REQUEST_METHOD"] == "POST" and "delete" in environ.get("QUERY_STRING", "")
    if not deletes and (service == "s3" or not environ.get("CONTENT_TYPE", "").startswith(BODIES)):
        return b""
    if not 0 < length <= LONGEST_BODY:
        return b""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _operation(environ: Environ, service: str) -> tuple[str, dict[str, object]]:
    """Return the API operation and its path parameters, or the method and path of an unknown operation."""
    try:
        operation, labels = _router(service).match(Request(environ))
    except (HTTPException, NotImplementedError, ValueError):
        return f"{environ['REQUEST_METHOD']} {environ.get('PATH_INFO', '')}", {}
    return str(operation.name), dict(labels)


@functools.cache
def _router(service: str) -> Any:
    return get_service_router(MODELS.get(service, service))


def _query(environ: Environ) -> dict[str, object]:
    return {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()} | (
        {"CopySource": environ["HTTP_X_AMZ_COPY_SOURCE"]} if "HTTP_X_AMZ_COPY_SOURCE" in environ else {}
    )


def _parameters(environ: Environ, body: bytes) -> dict[str, object]:
    text = body.decode("utf-8", "replace")
    if text.startswith("{"):
        return _json_parameters(text)
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        return {name: values[0] for name, values in parse_qs(text).items()}
    return {"Key": keys} if (keys := _DELETED_KEY.findall(text)) else {}


def _json_parameters(text: str) -> dict[str, object]:
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    inner = {name: given[name].get(key) for name, key in NESTED.items() if isinstance(given.get(name), dict)}
    name = next((value for value in inner.values() if value), None)
    return {key: value for key, value in given.items() if not isinstance(value, dict)} | (
        {"Name": name} if name else {}
    )
