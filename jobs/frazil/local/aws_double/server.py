"""moto's server with the corrections of this package and the call record."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import FrameType
from urllib.parse import parse_qsl

from moto import backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

from frazil.local.aws_double import (
    athena,
    cloudfront,
    cloudwatch,
    ec2,
    glue,
    lambda_functions,
    s3,
    scheduler,
    secrets_manager,
    sns,
    step_functions,
)
from frazil.local.aws_double.call_record import Application, CallRecord, Environ, StartResponse, recorded
from frazil.local.aws_double.emr_serverless import api as emr_serverless
from frazil.local.aws_double.emr_serverless.files import forget_unpacked
from frazil.local.aws_double.place import DoubleFolder

OWN_PATH = "/_double/"
DEFAULT_REGION = "us-east-1"
UNUSED_DAYS = 2


class WholeAnswers(MotoRequestHandler):  # type: ignore[misc]  # moto has no types
    """Sends the headers of an answer together with its body.

    After headers alone, which say that the connection ends, Go's client sometimes closes it before the body is there.
    The SDK then repeats the call: in Terraform, of a thousand calls, one was carried out twice.
    """

    wbufsize = 1 << 16

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: the SDK in Arrow otherwise waits for a second before it sends each object."""
        asked = super().handle_expect_100()
        self.wfile.flush()
        del self.headers["Expect"]  # werkzeug would ask again
        return bool(asked)


def serve(place: DoubleFolder, port: int) -> None:
    """Serve until SIGTERM. Job runs and functions end with this process, even if it is killed (`leash.py`)."""
    os.environ |= {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true", "MOTO_PORT": str(port)}
    place.begin_anew()
    forget_unpacked(place.unpacked, unused_days=UNUSED_DAYS)
    teach(place)
    _list_modules_once()
    record = CallRecord(place.calls)
    record.open()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # the call record already has a line per request
    signal.signal(signal.SIGTERM, _leave)
    application = _with_own_path(recorded(DomainDispatcherApplication(create_backend_app), record), place)
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=WholeAnswers)


def teach(place: DoubleFolder) -> None:
    for service in (athena, cloudfront, cloudwatch, ec2, glue, s3, secrets_manager, step_functions):
        service.teach()
    for working in (emr_serverless, lambda_functions, sns):
        working.teach(place)


def _list_modules_once() -> None:
    """Cache moto's listing of its folder, which otherwise takes a sixth of the time of every request."""
    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _with_own_path(application: Application, place: DoubleFolder) -> Application:
    """Add the path that AWS does not have: `POST /_double/schedules/GROUP/NAME/fire?region=us-east-1&at=TIME`.

    Requests to a host of CloudFront are answered by its distribution.
    """

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        host = cloudfront.host_of(environ)
        if host is not None:
            status, content = cloudfront.serve(host, path, str(environ.get("QUERY_STRING", "")))
            start_response(f"{status.value} {status.phrase}", [("Content-Type", "binary/octet-stream")])
            return [content]
        if not path.startswith(OWN_PATH):
            return application(environ, start_response)
        given = dict(parse_qsl(str(environ.get("QUERY_STRING", ""))))
        status, answer = _own_answer(place, path.removeprefix(OWN_PATH).split("/"), given)
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps(answer, default=str).encode()]

    return answer


def _own_answer(
    place: DoubleFolder, words: list[str], given: Mapping[str, str]
) -> tuple[HTTPStatus, dict[str, object]]:
    region = given.get("region", DEFAULT_REGION)
    match words:
        case ["schedules", group, name, "fire"]:
            try:
                return HTTPStatus.OK, scheduler.fire(place, region=region, group=group, name=name, at=given.get("at"))
            except Exception as exc:  # noqa: BLE001 - the response reports any error of the target
                return HTTPStatus.BAD_GATEWAY, {"error": type(exc).__name__, "message": str(exc)}
        case _:
            return HTTPStatus.NOT_FOUND, {"error": "NotFound", "message": f"the double knows no {'/'.join(words)}"}
