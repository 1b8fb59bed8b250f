"""Check the configuration and its secrets. A missing secret does not prevent checks that do not need it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frazil.doctor.asking import Asking
from frazil.doctor.finding import Finding, failed, not_asked
from frazil.model.errors import FrazilError, ServiceError
from frazil.model.secret import DeferredSecret, Secret, SettingValue, revealed
from frazil.model.settings import Settings
from frazil.model.spelling import plural
from frazil.specs.load import load_settings
from frazil.specs.placeholders import WHERE_SECRETS_ARE, LocalAddress, SecretSource, no_local_services

REFERENCE = re.compile(r"\$\{secret:([^}#]+)#([^}]+)\}")
NOT_FOUND = "frazil-doctor-found-no-such-secret"
"""Replaces a secret that cannot be read, so that the rest of the configuration can be parsed."""


@dataclass(slots=True)
class WatchedSecrets:
    """Reads each secret once, records the result, and returns a replacement for a missing secret.

    `keys` are the JSON keys that the configuration uses, by secret.
    """

    source: SecretSource
    keys: Mapping[str, frozenset[str]]
    asking: Asking
    findings: list[Finding] = field(default_factory=list)
    values: set[str] = field(default_factory=set, repr=False)
    _known: dict[str, str] = field(default_factory=dict, repr=False)
    _is_silent: bool = False

    @property
    def any_asked(self) -> bool:
        return bool(self._known)

    def read(self, name: str) -> str:
        if name not in self._known:
            finding, text = self._look_up(name)
            self.findings.append(finding)
            self._known[name] = self._completed(name, text)
        return self._known[name]

    def _look_up(self, name: str) -> tuple[Finding, str | None]:
        what = f"secret {name}"
        if self._is_silent:
            return not_asked("configuration", what, "AWS Secrets Manager did not answer before"), None
        try:
            text = self.asking.within(lambda: self.source.read(name))
        except ServiceError as problem:
            finding = failed("configuration", what, _forbidden(problem, name))
            self._is_silent = finding.is_silence
            return finding, None
        except FrazilError as problem:
            return failed("configuration", what, problem), None
        return self._judged(what, name, text), text

    def _judged(self, what: str, name: str, text: str | None) -> Finding:
        if text is None:
            found = "the secret does not exist, or has no value yet"
            return Finding("configuration", what, "failed", found, WHERE_SECRETS_ARE)
        missing = sorted(self.keys.get(name, frozenset()) - _members(text).keys())
        if missing:
            found = f"it has no key {', '.join(missing)}; its keys: {', '.join(sorted(_members(text))) or 'none'}"
            return Finding("configuration", what, "failed", found, "store JSON with that key, or fix the reference")
        return Finding("configuration", what, "ok", "readable")

    def _completed(self, name: str, text: str | None) -> str:
        wanted = self.keys.get(name, frozenset())
        if text is None:
            return json.dumps(dict.fromkeys(wanted, NOT_FOUND)) if wanted else NOT_FOUND
        members = _members(text)
        self.values |= {text, *map(str, members.values())}
        if wanted <= members.keys():
            return text
        return json.dumps({**dict.fromkeys(wanted, NOT_FOUND), **members})


def _forbidden(problem: ServiceError, name: str) -> ServiceError:
    if "AccessDenied" not in problem.what:
        return problem
    hint = f"grant secretsmanager:GetSecretValue on {name} and kms:Decrypt on its key to the AWS identity shown above"
    return ServiceError(problem.what, hint=hint)


def _members(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded configuration. `settings` is None if it is invalid; `secrets` are values that no output may show."""

    findings: tuple[Finding, ...]
    settings: Settings | None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    asked_secrets: bool = False
    watched: WatchedSecrets | None = field(default=None, repr=False)

    def why_unreadable(self, secret: DeferredSecret) -> str | None:
        """Return why a deferred secret cannot be read, or None if it can."""
        findings = [] if self.watched is None else self.watched.findings
        before = len(findings)
        try:
            text = secret.read().reveal()
        except FrazilError as problem:
            return problem.what
        problems = (finding.found for finding in findings[before:] if finding.verdict != "ok")
        return next(problems, "its secret cannot be read (see above)" if NOT_FOUND in text else None)


def load(
    path: Path,
    env: Mapping[str, str],
    source: SecretSource,
    asking: Asking,
    *,
    local: LocalAddress = no_local_services,
) -> Loaded:
    watched = WatchedSecrets(source, keys_in(path), asking)
    try:
        settings = load_settings(path, env, watched, local=local)
    except FrazilError as problem:
        finding = failed("configuration", str(path), problem)
        return Loaded((finding, *watched.findings), None, frozenset(watched.values))
    finding = Finding("configuration", str(path), "ok", _described(settings))
    secrets = frozenset({*watched.values, *_secrets_of(settings)})
    return Loaded((finding, *watched.findings), settings, secrets, watched.any_asked, watched)


def keys_in(path: Path) -> Mapping[str, frozenset[str]]:
    """Return the JSON keys, by secret, that the file and the folders next to it refer to."""
    found: dict[str, frozenset[str]] = {}
    for file in (path, *path.parent.glob("*/*.y*ml")):
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        for name, key in REFERENCE.findall(text):
            found[name] = found.get(name, frozenset()) | {key}
    return found


def lacks_a_secret(settings: Mapping[str, SettingValue]) -> bool:
    return any(NOT_FOUND in value for value in revealed(settings).values())


def _described(settings: Settings) -> str:
    count = len(settings.tables)
    return f"{plural(count, 'table')}, catalog {settings.catalog.type}, database {settings.database}"


def _secrets_of(settings: Settings) -> Iterator[str]:
    registry = {} if settings.registry is None else settings.registry.properties
    for section in (settings.kafka, registry, settings.catalog.all_properties):
        for value in section.values():
            if isinstance(value, Secret):
                yield value.reveal()
                yield value.reveal().partition(":")[2]
