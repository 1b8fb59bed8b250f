"""`${env:NAME}`, `${secret:NAME}`, `${secret:NAME#json-key}` and `${local:NAME}` inside a value.

`$${` is an escaped `${`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
KINDS = ("env", "secret", "local")
LOCAL_NAMES = ("bootstrap_servers", "schema_registry_url", "aws_endpoint_url", "rest_catalog_url")
"""The names that `${local:…}` accepts: addresses of the services that `frazil local up` starts."""

WHERE_SECRETS_ARE = (
    "correct the name, or select its AWS account (AWS_PROFILE) and region (AWS_DEFAULT_REGION);"
    " `scripts/deploy.sh create` creates the secrets of an environment"
)
"""The hint for a secret that does not exist."""

LocalAddress = Callable[[str], str]
"""Takes one of `LOCAL_NAMES` and returns the address of that local service."""


class SecretSource(Protocol):
    """The source of `${secret:…}` values."""

    def read(self, name: str) -> str | None:
        """Return the secret's text, or None if it does not exist. Raises ServiceError if the source does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Expanded:
    """A value with its placeholders filled in; `source` is the text in the file, which is safe to show."""

    text: str
    source: str
    is_secret: bool = False

    @property
    def shown(self) -> str:
        return f'"{self.source}"'


class UnfilledError(Exception):
    """A placeholder cannot be filled in."""

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def no_local_services(name: str) -> str:
    """Reject `${local:…}` in files that cannot refer to local services. Raises UnfilledError."""
    hint = f"write the address itself; `${{local:{name}}}` works only in a machine's `frazil.yaml`"
    raise UnfilledError("local service addresses cannot be used here", hint=hint)


@dataclass(frozen=True, slots=True)
class PlaceholderSources:
    """The sources of the values of placeholders."""

    env: Mapping[str, str]
    secrets: SecretSource
    local: LocalAddress = no_local_services

    def expand(self, text: str) -> Expanded:
        """Fill in the placeholders of a text. Raises UnfilledError."""
        secret = False

        def fill(match: re.Match[str]) -> str:
            nonlocal secret
            if match.group(0) == "$${":
                return "${"
            value, is_secret = self._fill(match.group(1), closed=bool(match.group(2)))
            secret = secret or is_secret
            return value

        return Expanded(PLACEHOLDER.sub(fill, text), text, secret)

    def _fill(self, inner: str, *, closed: bool) -> tuple[str, bool]:
        kind, name = _placeholder(inner, closed=closed)
        fillers: dict[str, Callable[[str], str]] = {"env": self._variable, "secret": self._secret, "local": self.local}
        return fillers[kind](name), kind == "secret"

    def _variable(self, name: str) -> str:
        value = self.env.get(name, "")
        if not value:
            state = "is empty" if name in self.env else "is not set"
            raise UnfilledError(f"the environment variable {name} {state}", hint=f"run `export {name}=…` first")
        return value

    def _secret(self, reference: str) -> str:
        name, _, key = reference.partition("#")
        text = self.secrets.read(name)
        if text is None:
            raise UnfilledError(f"the secret {name} does not exist", hint=WHERE_SECRETS_ARE)
        return _member(text, name, key) if key else text


def check_placeholders(text: str) -> None:
    """Check the syntax of placeholders without looking up values. Raises UnfilledError."""
    for match in PLACEHOLDER.finditer(text):
        if match.group(0) != "$${":
            _placeholder(match.group(1), closed=bool(match.group(2)))


def secrets_in(text: str) -> Iterator[str]:
    """Yield the names of the secrets that a text refers to."""
    for match in PLACEHOLDER.finditer(text):
        kind, _, reference = (match.group(1) or "").partition(":")
        if kind == "secret" and reference:
            yield reference.partition("#")[0]


def _placeholder(inner: str, *, closed: bool) -> tuple[str, str]:
    kind, colon, name = inner.partition(":")
    if not closed or not colon or not name or kind not in KINDS:
        hint = "write ${env:NAME}, ${secret:NAME}, ${secret:NAME#json-key} or ${local:NAME}; $${ is a literal ${"
        raise UnfilledError("invalid placeholder after ${", hint=hint)
    if kind == "local" and name not in LOCAL_NAMES:
        hint = "write " + " or ".join(f"${{local:{each}}}" for each in LOCAL_NAMES)
        raise UnfilledError(f"unknown local service address {name}", hint=hint)
    return kind, name


def _member(text: str, name: str, key: str) -> str:
    """Return one key of a secret that holds JSON. No error message contains the secret's content."""
    try:
        members = json.loads(text)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        hint = f"write ${{secret:{name}}} for the whole text"
        raise UnfilledError(f"the secret {name} is not a JSON object, so it has no key {key}", hint=hint)
    if key not in members:
        raise UnfilledError(f"the secret {name} has no key {key}", hint=f"its keys: {', '.join(sorted(members))}")
    return str(members[key])
