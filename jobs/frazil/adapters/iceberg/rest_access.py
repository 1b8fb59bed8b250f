"""How requests to a REST catalog authenticate: with a token that is asked for and renewed, with a given one, or not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import requests

from frazil.model.errors import CatalogError
from frazil.model.secret import revealed
from frazil.model.settings import RestSettings

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)
RENEWED_BEFORE_SECONDS = 60.0
"""A token is renewed so long before it expires, or when a quarter of its time is left if that is later."""
SHOWN_CHARACTERS = 300
TOKEN_PATH = "/v1/oauth/tokens"  # noqa: S105 - a path


class Access(Protocol):
    """What PyIceberg's session asks for each request. `renew` discards a token that a server refused."""

    def auth_header(self) -> str | None: ...

    def renew(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NoToken:
    """For servers without authentication, and for requests that are signed."""

    def auth_header(self) -> str | None:
        return None

    def renew(self) -> None:
        """Do nothing: there is no token."""


@dataclass(frozen=True, slots=True)
class GivenToken:
    token: str = field(repr=False)

    def auth_header(self) -> str | None:
        return f"Bearer {self.token}"

    def renew(self) -> None:
        """Do nothing: only another setting renews the token."""


@dataclass(slots=True)
class ClientCredentials:
    """Tokens of OAuth2's client credentials (RFC 6749, section 4.4). Safe to use from several threads.

    Id and secret are sent in the form, as Iceberg's clients send them.
    """

    address: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str
    clock: Callable[[], float] = time.monotonic
    _token: str = field(default="", repr=False)
    _renew_at: float = field(default=0.0, repr=False)
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def auth_header(self) -> str | None:
        """Return the header with a token that is valid for a while. Raises CatalogError if there is none to be had."""
        with self._asking:
            if not self._token or self.clock() >= self._renew_at:
                self._ask()
            return f"Bearer {self._token}"

    def renew(self) -> None:
        with self._asking:
            self._token = ""

    def _ask(self) -> None:
        form = {"grant_type": "client_credentials", "scope": self.scope}
        secrets = {"client_id": self.client_id, "client_secret": self.client_secret}
        self._token = ""
        asked_at = self.clock()
        try:
            answer = requests.post(
                self.address, data=form | secrets, timeout=TIMEOUT, allow_redirects=False, auth=_no_login_of_netrc
            )
        except requests.RequestException as problem:
            raise CatalogError(
                f"{self.address} issued no token: {type(problem).__name__}: {problem}",
                hint="check catalog.uri and catalog.oauth2_server_uri in frazil.yaml, and the network",
            ) from problem
        told = _members(answer.text)
        token = told.get("access_token")
        if answer.status_code != requests.codes.ok or not isinstance(token, str) or not token:
            raise CatalogError(
                f"{self.address} issued no token: expected status 200 with an access_token,"
                f" found status {answer.status_code}{_reason(told)}",
                hint="check catalog.client_id, catalog.client_secret and catalog.scope in frazil.yaml",
            )
        self._token, self._renew_at = token, asked_at + _use_seconds(told.get("expires_in"))


def access_of(rest: RestSettings) -> Access:
    """Return how requests authenticate by these settings."""
    given = revealed(rest.properties)
    if "client_id" in given:
        address = given.get("oauth2_server_uri") or rest.uri + TOKEN_PATH
        return ClientCredentials(address, given["client_id"], given["client_secret"], given["scope"])
    return GivenToken(given["token"]) if "token" in given else NoToken()


def _use_seconds(expires_in: object) -> float:
    """Return how long a token is used; one that does not say when it expires is used until it is refused."""
    if not isinstance(expires_in, int | float) or expires_in <= 0:
        return float("inf")
    return max(expires_in - RENEWED_BEFORE_SECONDS, expires_in * 0.75)


def _members(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(told: Mapping[str, object]) -> str:
    """Return what the server says, without anything else that its answer may contain."""
    said = [str(told[name]) for name in ("error", "error_description") if told.get(name)]
    return f" ({': '.join(said)[:SHOWN_CHARACTERS]})" if said else ""


def _no_login_of_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave the request as it is; without this, requests adds the login that a ~/.netrc has for the host."""
    return request
