"""The AWS double describes a call before it carries it out, and says whether the SDK repeated it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from frazil.local.aws_double import call_record
from frazil.local.aws_double.call_record import CallRecord, Environ, StartResponse, recorded

SIGNED = "AWS4-HMAC-SHA256 Credential=local/20261127/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=aa"


class Roles:
    """An application that creates a role in each request."""

    def __init__(self) -> None:
        self.created = 0

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.created += 1
        start_response("200 OK", [])
        return [b""]


def request(*, attempt: str | None) -> Environ:
    body = b"Action=CreateRole&Version=2010-05-08&RoleName=tableflow"
    sent = {"HTTP_AMZ_SDK_REQUEST": attempt} if attempt else {}
    return sent | {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "HTTP_AUTHORIZATION": SIGNED,
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "4566",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
    }


@pytest.mark.parametrize(("sent", "attempt"), [("attempt=2; max=2", 2), (None, 1), ("ttl=1", 1)])
def test_the_record_says_which_attempt_of_a_call_it_was(sent: str | None, attempt: int) -> None:
    calls: list[dict[str, object]] = []

    recorded(Roles(), cast(CallRecord, calls))(request(attempt=sent), lambda *_: None)

    (call,) = calls
    assert (call["operation"], call["resource"]) == ("CreateRole", {"RoleName": "tableflow"})
    assert (call["attempt"], call["status"]) == (attempt, 200)


def test_a_call_that_cannot_be_described_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> str:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(call_record, "principal", fail)
    roles = Roles()

    with pytest.raises(RuntimeError, match="changed size"):
        recorded(roles, CallRecord(tmp_path / "calls.jsonl"))(request(attempt=None), lambda *_: None)

    assert roles.created == 0
