"""A double of Confluent Cloud on loopback, in memory: API keys as its OpenAPI description has them, and their effect.

`python -m devcloud.confluent_double PORT` serves it until it is terminated, for the Cloud API key in
CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET, and prints what FRAZIL_CONFLUENT_URL is to be. `answer` is all
of it without a network.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from devcloud.http_double import Answer, Asked, Server
from shared.confluent_api import ADDRESS, KeyPair, key_from_environment

__all__ = ["Answer", "Asked", "ConfluentDouble", "Server", "failure", "missing"]

KEYS = "/iam/v2/api-keys"
LISTS = ("/org/v2/environments", "/cmk/v2/clusters", "/iam/v2/service-accounts")
"""What Terraform makes in the real one; here only what a test has put there."""
DEFAULT_PAGE, LARGEST_PAGE = 10, 100
FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Kept:
    """A key. `refused_for` counts down how often what it opens does not know it yet; the clock is a count of keys."""

    id: str
    made_at: datetime
    secret: str
    spec: dict[str, Any]
    refused_for: int

    def told(self) -> dict[str, Any]:
        return {
            "api_version": "iam/v2",
            "kind": "ApiKey",
            "id": self.id,
            "metadata": {"self": f"{ADDRESS}{KEYS}/{self.id}", "created_at": self.made_at.isoformat()},
            "spec": self.spec,
        }

    def fits(self, owner: str | None, resource: str | None) -> bool:
        return owner in (None, self.spec["owner"]["id"]) and resource in (None, self.spec["resource"]["id"])


class ConfluentDouble:
    """`refused_for`: how often a new key is refused before it works; `quota`: how many keys there may be.

    `next_answers` are given instead of what would be, first come first served: an outage, a rate limit.
    """

    def __init__(self, who: KeyPair, *, refused_for: int = 0, quota: int = 10_000) -> None:
        self.next_answers: list[Answer] = []
        self.there: dict[str, list[dict[str, Any]]] = {path: [] for path in LISTS}
        self._who = (who.key, who.secret.reveal())
        self._refused_for, self._quota = refused_for, quota
        self._kept: dict[str, _Kept] = {}
        self._numbers = itertools.count(1)
        self._lock = Lock()

    @property
    def key_names(self) -> list[str]:
        """The display names of all keys, in the order of their creation."""
        return [kept.spec["display_name"] for kept in self._kept.values()]

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            if self.next_answers:
                return self.next_answers.pop(0)
            if asked.path == KEYS or asked.path.startswith(f"{KEYS}/"):
                return self._of_keys(asked)
            if asked.path in self.there:
                return self._of_lists(asked)
            return self._of_what_keys_open(asked)

    def _of_lists(self, asked: Asked) -> Answer:
        if asked.who != self._who:
            return failure(HTTPStatus.UNAUTHORIZED, "Valid authentication credentials must be provided")
        environment = asked.parameter("environment")
        kept = self.there[asked.path]
        found = [each for each in kept if environment in (None, each.get("spec", {}).get("environment", {}).get("id"))]
        return Answer(HTTPStatus.OK, {"metadata": {}, "data": found})

    def _of_keys(self, asked: Asked) -> Answer:
        if asked.who != self._who:
            return failure(HTTPStatus.UNAUTHORIZED, "Valid authentication credentials must be provided")
        key_id = asked.path.removeprefix(KEYS).removeprefix("/")
        match asked.method, bool(key_id):
            case "POST", False:
                return self._make(asked)
            case "GET", False:
                return self._list(asked)
            case "GET", True:
                return Answer(HTTPStatus.OK, self._kept[key_id].told()) if key_id in self._kept else missing()
            case "DELETE", True:
                return Answer(HTTPStatus.NO_CONTENT) if self._kept.pop(key_id, None) else missing()
        return failure(HTTPStatus.METHOD_NOT_ALLOWED, f"{asked.method} is not allowed here")

    def _make(self, asked: Asked) -> Answer:
        try:
            spec = json.loads(asked.content)["spec"]
            owner, opens = spec["owner"]["id"], spec.get("resource") or {"id": "CLOUD"}
            resource = ".".join(filter(None, (opens.get("environment"), opens["id"])))
        except (ValueError, KeyError, TypeError):
            return failure(HTTPStatus.BAD_REQUEST, "spec.owner.id is required")
        if not re.match(r"(sa|u)-.", owner):
            return failure(HTTPStatus.BAD_REQUEST, f"the owner '{owner}' does not exist")
        if len(self._kept) >= self._quota:
            return failure(HTTPStatus.PAYMENT_REQUIRED, f"the quota of {self._quota} API keys is used up")
        number = next(self._numbers)
        made = _Kept(
            id=f"DOUBLE{number:010}",
            made_at=FIRST_MOMENT + timedelta(minutes=number),
            secret=secrets.token_urlsafe(48),
            spec={
                "display_name": spec.get("display_name", ""),
                "description": spec.get("description", ""),
                "owner": _reference(owner),
                "resource": _reference(resource),
            },
            refused_for=self._refused_for,
        )
        self._kept[made.id] = made
        told = made.told()
        return Answer(HTTPStatus.ACCEPTED, {**told, "spec": {**made.spec, "secret": made.secret}})

    def _list(self, asked: Asked) -> Answer:
        owner, resource = asked.parameter("spec.owner"), asked.parameter("spec.resource")
        found = [kept.told() for kept in self._kept.values() if kept.fits(owner, resource)]
        size = min(int(asked.parameter("page_size") or DEFAULT_PAGE), LARGEST_PAGE)
        start = int(asked.parameter("page_token") or 0)
        metadata: dict[str, Any] = {"first": f"{ADDRESS}{KEYS}", "total_size": len(found)}
        if start + size < len(found):
            metadata["next"] = f"{ADDRESS}{KEYS}?{urlencode({'page_token': start + size, 'page_size': size})}"
        page = {"api_version": "iam/v2", "kind": "ApiKeyList", "metadata": metadata, "data": found[start:][:size]}
        return Answer(HTTPStatus.OK, page)

    def _of_what_keys_open(self, asked: Asked) -> Answer:
        """Clusters, registries, Tableflow and Flink, as far as they show whether a key works."""
        key, secret = asked.who
        kept = self._kept.get(key)
        wanted = _resource_of(asked.path)
        if wanted is None:
            return missing()
        if kept is None or kept.secret != secret or not wanted.fullmatch(kept.spec["resource"]["id"]):
            return failure(HTTPStatus.UNAUTHORIZED, "the API key is not known here")
        if kept.refused_for > 0:
            kept.refused_for -= 1
            return failure(HTTPStatus.UNAUTHORIZED, "the API key is not known here yet")
        return Answer(HTTPStatus.OK, [] if asked.path.endswith("/subjects") else {"data": []})


def failure(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error in the format of Confluent's API."""
    error = {"id": secrets.token_hex(16), "status": str(int(status)), "title": status.phrase, "detail": detail}
    return Answer(status, {"errors": [error]}, headers or {})


def missing() -> Answer:
    return failure(HTTPStatus.NOT_FOUND, "there is nothing here")


def _resource_of(path: str) -> re.Pattern[str] | None:
    """Return the pattern of the resource id that a key must have to read this path, or None."""
    topics = re.fullmatch(r"/kafka/v3/clusters/([^/]+)/topics", path)
    statements = re.fullmatch(r"/sql/v1/organizations/[^/]+/environments/([^/]+)/statements", path)
    if statements:
        return re.compile(rf"{re.escape(statements[1])}\.aws\..+", re.IGNORECASE)
    wanted = topics[1] if topics else {"subjects": "lsrc-.+", "regions": "tableflow"}.get(path.rsplit("/", 1)[-1])
    return None if wanted is None else re.compile(wanted, re.IGNORECASE)


def _reference(object_id: str) -> dict[str, str]:
    return {"id": object_id, "related": f"{ADDRESS}/{object_id}", "resource_name": f"crn://confluent.cloud/{object_id}"}


def main(arguments: list[str]) -> None:
    with Server(ConfluentDouble(key_from_environment(os.environ)), int(arguments[0])) as server:
        print(server.address, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
