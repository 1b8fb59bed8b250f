"""The front of the local REST catalog: who gets a token, which tokens pass, and what reaches the server behind."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from urllib.parse import urlencode

import pytest

from frazil.local.rest_catalog.front import TOKEN_PATH, Answer, Front, Request
from frazil.local.rest_catalog.tokens import Tokens

GRANT = {"grant_type": "client_credentials", "client_id": "reader", "client_secret": "s3cret"}


@dataclass(slots=True)
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Recording(Front):
    """Keeps what it would forward."""

    forwarded: list[str] = field(default_factory=list)

    def forward(self, request: Request) -> Answer:
        self.forwarded.append(f"{request.method} {request.target}")
        return Answer(200, b"{}")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def front(clock: Clock) -> Recording:
    return Recording(Tokens("reader", "s3cret", seconds=60, clock=clock), 0)


def asked(front: Front, form: dict[str, str], **headers: str) -> tuple[int, dict[str, object]]:
    answer = front.answer(Request("POST", TOKEN_PATH, headers, urlencode(form).encode()))
    return answer.status, json.loads(answer.body)


def with_token(front: Front, token: object) -> int:
    return front.answer(Request("GET", "/v1/config?warehouse=w", {"authorization": f"Bearer {token}"})).status


def test_a_client_gets_a_token_that_passes_until_it_expires(front: Recording, clock: Clock) -> None:
    status, told = asked(front, GRANT)

    assert (status, told["token_type"], told["expires_in"]) == (200, "bearer", 60)
    clock.now += 59
    assert with_token(front, told["access_token"]) == 200
    clock.now += 1
    assert with_token(front, told["access_token"]) == 401
    assert front.forwarded == ["GET /v1/config?warehouse=w"]


def test_a_client_may_use_basic_authentication(front: Recording) -> None:
    basic = base64.b64encode(b"reader:s3cret").decode()

    assert asked(front, {"grant_type": "client_credentials"}, Authorization=f"Basic {basic}")[0] == 200


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        (GRANT | {"client_secret": "guess"}, 401, "invalid_client"),
        (GRANT | {"client_id": "writer"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        (GRANT | {"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({}, 400, "unsupported_grant_type"),
    ],
)
def test_others_get_no_token(front: Recording, form: dict[str, str], status: int, error: str) -> None:
    found, told = asked(front, form)

    assert (found, told["error"]) == (status, error)


@pytest.mark.parametrize("token", ["", "guess", "99999999999.0", "99999999999.0-00", "x-y", "1-é"])
def test_made_up_tokens_do_not_pass(front: Recording, token: str) -> None:
    assert with_token(front, token) == 401
    assert front.forwarded == []


@pytest.mark.parametrize("other", [Tokens("reader", "rotated"), Tokens("writer", "s3cret")])
def test_tokens_of_another_client_or_of_a_replaced_secret_do_not_pass(front: Recording, other: Tokens) -> None:
    assert with_token(front, other.issue()) == 401


def test_no_secret_is_shown(front: Recording) -> None:
    request = Request("POST", TOKEN_PATH, {"Authorization": "Bearer t0ken"}, urlencode(GRANT).encode())

    assert "s3cret" not in f"{front!r} {request!r}"
    assert "t0ken" not in repr(request)
