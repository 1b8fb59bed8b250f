"""Tokens for a REST catalog: asked for once, renewed in time, and never shown."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from frazil.adapters.iceberg.rest_access import ClientCredentials, GivenToken, NoToken, access_of
from frazil.local.rest_catalog.front import TOKEN_PATH, Answer, Front, Request
from frazil.local.rest_catalog.tokens import Tokens
from frazil.model.errors import CatalogError
from frazil.model.secret import Secret
from frazil.model.settings import RestSettings
from tests.fakes.served_front import served_front


@dataclass(slots=True)
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Counting(Front):
    """Counts the requests for tokens; `instead` is answered instead of a token."""

    asked: list[Request] = field(default_factory=list)
    instead: Answer | None = None

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return self.instead or Front.answer(self, request)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def front(clock: Clock) -> Counting:
    return Counting(Tokens("frazil", "s3cret", seconds=600, clock=clock), 0)


@pytest.fixture
def address(front: Counting) -> Iterator[str]:
    with served_front(front) as address:
        yield address


def client(address: str, clock: Clock, secret: str = "s3cret") -> ClientCredentials:
    return ClientCredentials(f"{address}{TOKEN_PATH}", "frazil", secret, "catalog", clock=clock)


def test_a_token_is_kept_and_renewed_a_minute_before_it_expires(front: Counting, address: str, clock: Clock) -> None:
    access = client(address, clock)
    first = access.auth_header()

    clock.now += 539
    assert access.auth_header() == first
    clock.now += 1
    renewed = access.auth_header()

    assert renewed != first
    assert len(front.asked) == 2
    clock.now += 599
    assert front.tokens.accepts(str(renewed).removeprefix("Bearer "))


def test_a_token_that_was_refused_is_asked_for_again(front: Counting, address: str, clock: Clock) -> None:
    access = client(address, clock)
    access.auth_header()

    access.renew()
    access.auth_header()

    assert len(front.asked) == 2


def test_threads_share_one_token(front: Counting, address: str, clock: Clock) -> None:
    access = client(address, clock)

    with ThreadPoolExecutor(8) as pool:
        headers = set(pool.map(lambda _: access.auth_header(), range(16)))

    assert (len(headers), len(front.asked)) == (1, 1)


def test_a_token_without_an_end_is_used_until_it_is_refused(front: Counting, address: str, clock: Clock) -> None:
    front.instead = Answer(200, b'{"access_token": "t0ken", "token_type": "bearer"}')
    access = client(address, clock)

    access.auth_header()
    clock.now += 10**9

    assert access.auth_header() == "Bearer t0ken"
    assert len(front.asked) == 1


def test_id_secret_and_scope_are_in_the_form_and_in_no_header(front: Counting, address: str, clock: Clock) -> None:
    client(address, clock).auth_header()

    (request,) = front.asked
    sent = {name: request.form(name) for name in ("grant_type", "client_id", "client_secret", "scope")}
    assert sent == {
        "grant_type": "client_credentials",
        "client_id": "frazil",
        "client_secret": "s3cret",
        "scope": "catalog",
    }
    assert "authorization" not in {name.lower() for name in request.headers}


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (None, "found status 401 (invalid_client: the client id or its secret is wrong)"),
        (Answer(200, b'{"token": "x"}'), "found status 200"),
        (Answer(200, b"<html>"), "found status 200"),
        (Answer(302, b""), "found status 302"),
        (Answer(503, b"[]"), "found status 503"),
    ],
)
def test_a_refusal_says_what_the_server_said_and_no_secret(
    front: Counting, address: str, clock: Clock, instead: Answer | None, said: str
) -> None:
    front.instead = instead

    with pytest.raises(CatalogError) as refused:
        client(address, clock, secret="gu3ss").auth_header()

    assert f"{address}{TOKEN_PATH} issued no token" in refused.value.what
    assert said in refused.value.what
    assert "gu3ss" not in str(refused.value)


def test_a_server_that_is_not_there_is_named(clock: Clock) -> None:
    with pytest.raises(CatalogError, match=r"127.0.0.1.* issued no token: ConnectionError") as refused:
        client("http://127.0.0.1:1", clock).auth_header()

    assert "s3cret" not in str(refused.value)


def test_settings_choose_the_way() -> None:
    oauth = {"client_id": Secret("a"), "client_secret": Secret("s3cret"), "scope": "catalog"}
    ways = [
        access_of(RestSettings("https://c", oauth)),
        access_of(RestSettings("https://c", {**oauth, "oauth2_server_uri": "https://idp/token"})),
        access_of(RestSettings("https://c", {"token": Secret("t0ken")})),
        access_of(RestSettings("https://c", {"signing_name": "glue", "signing_region": "eu-west-1"})),
    ]

    addresses = [way.address for way in ways if isinstance(way, ClientCredentials)]
    assert addresses == ["https://c/v1/oauth/tokens", "https://idp/token"]
    assert ways[2:] == [GivenToken("t0ken"), NoToken()]
    assert "s3cret" not in repr(ways)
    assert "t0ken" not in repr(ways)
