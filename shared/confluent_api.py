"""Confluent Cloud's API, for what Terraform must not do: it would write API keys into its state.

A request is repeated only for causes that pass by themselves, and `POST` only where it was certainly not carried out:
a key that was made although the answer got lost is an orphan, which the caller finds by its name.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from frazil.model.errors import FrazilError, ServiceError, SettingError
from frazil.model.loopback import is_loopback
from frazil.model.secret import Secret
from shared.doubles import CONFLUENT_URL

ADDRESS = "https://api.confluent.cloud"

KEY_VARIABLE, SECRET_VARIABLE = "CONFLUENT_CLOUD_API_KEY", "CONFLUENT_CLOUD_API_SECRET"

ATTEMPTS = 5
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 30.0
PAGE_SIZE = 100
MOST_PAGES = 1_000

_PASSING = {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE,
            HTTPStatus.GATEWAY_TIMEOUT}  # fmt: skip
_REFUSED_KEY = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}

Method = Literal["GET", "POST", "DELETE"]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An API key with its secret: who asks."""

    key: str
    secret: Secret


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as Confluent Cloud lists it: without its secret, which is shown only once. `made_at` sorts by time."""

    id: str
    owner: str
    resource: str
    name: str
    made_at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Named:
    """An object of an organization, with its display name."""

    kind: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to be made: `resource` is the id of what it opens, `name` what people see.

    `environment`: where the resource is a region of Flink, whose keys are for one environment; otherwise empty.
    """

    name: str
    description: str
    owner: str
    resource: str
    environment: str = ""

    @property
    def opens(self) -> dict[str, str]:
        """The resource as Confluent's API takes it."""
        if not self.environment:
            return {"id": self.resource}
        return {"id": self.resource, "environment": self.environment, "kind": "Region", "api_version": "fcpm/v2"}


def key_from_environment(environment: Mapping[str, str]) -> KeyPair:
    """The Cloud API key that makes keys for others. Raises SettingError where one of the two is missing."""
    missing = [name for name in (KEY_VARIABLE, SECRET_VARIABLE) if not environment.get(name)]
    if missing:
        raise SettingError(
            f"no Cloud API key of Confluent Cloud was given: {' and '.join(missing)} not set",
            hint=f"export {KEY_VARIABLE} and {SECRET_VARIABLE}; `confluent api-key create --resource cloud` makes one",
        )
    return KeyPair(environment[KEY_VARIABLE], Secret(environment[SECRET_VARIABLE]))


def address_from_environment(environment: Mapping[str, str]) -> str:
    """Confluent Cloud, or its double. Raises SettingError for a double that is not on this machine."""
    address = environment.get(CONFLUENT_URL, ADDRESS).rstrip("/")
    if address != ADDRESS and not is_loopback(address):
        raise SettingError(
            f"{CONFLUENT_URL} is for a double on loopback, found {address}", hint=f"run `unset {CONFLUENT_URL}`"
        )
    return address


class ConfluentCloud:
    """API keys of one organization. An `address` other than the real one replaces all hosts of Confluent Cloud."""

    def __init__(
        self,
        who: KeyPair,
        *,
        address: str = ADDRESS,
        session: requests.Session | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._who = who
        self._address = address
        self._session = requests.Session() if session is None else session
        self._session.headers["User-Agent"] = "frazil"
        self._session.trust_env = self._address == ADDRESS
        self._sleep = sleep

    def knows_who_asks(self) -> bool:
        """Return whether the Cloud API key is valid, with or without permissions."""
        answer = self._ask("GET", f"{ADDRESS}/iam/v2/api-keys", params={"page_size": "1"}, also=_REFUSED_KEY)
        return answer.status_code != HTTPStatus.UNAUTHORIZED

    def make_key(self, wanted: NewKey) -> KeyPair:
        """Create a key. Raises SettingError if the Cloud API key is refused, ServiceError for other failures."""
        spec = {
            "display_name": wanted.name,
            "description": wanted.description,
            "owner": {"id": wanted.owner},
            "resource": wanted.opens,
        }
        made = self._ask("POST", f"{ADDRESS}/iam/v2/api-keys", body={"spec": spec}).json()
        return KeyPair(str(made["id"]), Secret(str(made["spec"]["secret"])))

    def keys_of(self, owner: str) -> list[ApiKey]:
        """Return all keys of a service account."""
        return [
            _api_key(each) for page in self._pages("iam/v2/api-keys", {"spec.owner": owner}) for each in page["data"]
        ]

    def things_named(self, start: str) -> list[Named]:
        """Environments, their clusters, service accounts and API keys whose names begin so; not the key that asks."""
        environments = list(self._named("environment", "org/v2/environments"))
        found = [
            *environments,
            *(cluster for each in environments for cluster in self._clusters_of(each, start)),
            *self._named("service account", "iam/v2/service-accounts"),
            *self._named("API key", "iam/v2/api-keys"),
        ]
        return [each for each in found if each.name.startswith(start) and each.id != self._who.key]

    def _clusters_of(self, environment: Named, start: str) -> Iterator[Named]:
        if environment.name.startswith(start):
            yield from self._named("Kafka cluster", "cmk/v2/clusters", environment=environment.id)

    def _named(self, kind: str, path: str, **filters: str) -> Iterator[Named]:
        for page in self._pages(path, filters):
            for each in page["data"]:
                name = each.get("display_name") or each.get("spec", {}).get("display_name") or ""
                yield Named(kind, str(each["id"]), str(name))

    def find_key(self, key_id: str) -> ApiKey | None:
        answer = self._ask("GET", f"{ADDRESS}/iam/v2/api-keys/{key_id}", also={HTTPStatus.NOT_FOUND})
        return _api_key(answer.json()) if answer.ok else None

    def delete_key(self, key_id: str) -> None:
        """Delete a key; do nothing if it no longer exists."""
        self._ask("DELETE", f"{ADDRESS}/iam/v2/api-keys/{key_id}", also={HTTPStatus.NOT_FOUND})

    def is_known(self, pair: KeyPair, url: str) -> bool:
        """Return whether the service at `url` knows this key; a new key takes some minutes.

        That the key's account may not do what is asked there shows that the key is known.
        """
        return self._ask("GET", url, who=pair, also=_REFUSED_KEY).status_code != HTTPStatus.UNAUTHORIZED

    def _pages(self, path: str, filters: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        asked: dict[str, str] = {**filters, "page_size": str(PAGE_SIZE)}
        for _ in range(MOST_PAGES):
            page = self._ask("GET", f"{ADDRESS}/{path}", params=asked).json()
            yield page
            token = parse_qs(urlsplit(page["metadata"].get("next") or "").query).get("page_token")
            if not token:
                return
            asked["page_token"] = token[0]
        raise ServiceError(f"Confluent Cloud's list {path} has over {MOST_PAGES} pages", hint="delete unused ones")

    def _ask(
        self,
        method: Method,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        who: KeyPair | None = None,
        also: Set[int] = frozenset(),
    ) -> requests.Response:
        """The answer; `also` are statuses that are no failure here."""
        request = _Request(method, self._located(url), params, body, who or self._who, also)
        again = Retrying(
            retry=retry_if_exception_type(_AgainError),
            stop=stop_after_attempt(ATTEMPTS),
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return again(self._once, request)
        except _AgainError as last:
            raise last.error from last.__cause__

    def _once(self, request: _Request) -> requests.Response:
        try:
            response = self._session.request(
                request.method,
                request.url,
                params=request.params,
                json=request.body,
                auth=(request.who.key, request.who.secret.reveal()),
                timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
            )
        except requests.ConnectTimeout as problem:
            raise _AgainError(request.unanswered(problem)) from problem
        except requests.RequestException as problem:
            raise request.again_or_not(request.unanswered(problem)) from problem
        if response.ok or response.status_code in request.also:
            return response
        raise request.failed(response)

    def _located(self, url: str) -> str:
        return url if self._address == ADDRESS else self._address + urlsplit(url).path


class _AgainError(Exception):
    """What passes by itself; `error` is raised where it does not, `after_seconds` is how long the service says."""

    def __init__(self, error: FrazilError, after_seconds: float | None = None) -> None:
        super().__init__(error.what)
        self.error = error
        self.after_seconds = after_seconds


@dataclass(frozen=True, slots=True)
class _Request:
    method: Method
    url: str
    params: Mapping[str, str] | None
    body: Mapping[str, Any] | None
    who: KeyPair
    also: Set[int]

    @property
    def what(self) -> str:
        return f"{self.method} {self.url}"

    def failed(self, response: requests.Response) -> Exception:
        status, said = response.status_code, _said(response)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            error = ServiceError(f"Confluent Cloud is asked too often: {said}", hint="wait a minute and run it again")
            return _AgainError(error, _seconds(response.headers.get("Retry-After")))
        if status in _REFUSED_KEY:
            return self._refused(said)
        error = ServiceError(f"Confluent Cloud refused {self.what}: {said}", hint=_HINTS.get(status, _ANY_HINT))
        return self.again_or_not(error) if status in _PASSING else error

    def unanswered(self, problem: Exception) -> ServiceError:
        hint = "check the network, and run it again: it continues, and removes a key that was only partly made"
        return ServiceError(f"Confluent Cloud did not answer {self.what}: {problem}", hint=hint)

    def again_or_not(self, error: ServiceError) -> Exception:
        """Return the error as retryable, except for POST, which may have created something."""
        return error if self.method == "POST" else _AgainError(error)

    def _refused(self, said: str) -> SettingError:
        hint = f"give a Cloud API key ({KEY_VARIABLE}, {SECRET_VARIABLE}) whose owner may manage the environment"
        return SettingError(f"Confluent Cloud does not let {self.who.key} {self.what}: {said}", hint=hint)


_ANY_HINT = "run it again; where that does not help, look at status.confluent.cloud"
_HINTS: Mapping[int, str] = {
    HTTPStatus.PAYMENT_REQUIRED: "delete unused keys, or ask Confluent for a higher limit of API keys",
    HTTPStatus.BAD_REQUEST: "run `scripts/deploy.sh outputs`: do these ids exist in Confluent Cloud?",
    HTTPStatus.NOT_FOUND: "run `scripts/deploy.sh create` again, which makes what is missing",
}


def _said(response: requests.Response) -> str:
    """Return the service's error message in one line."""
    try:
        errors = response.json()["errors"]
        told = "; ".join(str(each.get("detail") or each["title"]) for each in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        told = response.reason or "nothing more"
    return f"{response.status_code}, {' '.join(told.split())[:300]}"


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None


def _pause(state: RetryCallState) -> float:
    """Return the seconds to wait: as the service says, else doubled each time, with jitter."""
    failed = state.outcome.exception() if state.outcome else None
    told = failed.after_seconds if isinstance(failed, _AgainError) else None
    doubled = FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1)
    spread = random.uniform(0, FIRST_PAUSE_SECONDS)  # noqa: S311 - no secret is made of it
    return min(told if told is not None else doubled + spread, LONGEST_PAUSE_SECONDS)


def _api_key(listed: Mapping[str, Any]) -> ApiKey:
    spec = listed["spec"]
    resource = spec.get("resource") or {}
    made_at = str(listed.get("metadata", {}).get("created_at", ""))
    return ApiKey(str(listed["id"]), spec["owner"]["id"], resource.get("id", ""), spec.get("display_name", ""), made_at)
