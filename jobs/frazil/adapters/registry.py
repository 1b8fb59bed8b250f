"""The schema registry, through Confluent's client (`ports.SchemaRegistry`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from http import HTTPStatus
from json import JSONDecodeError
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar, cast
from uuid import UUID

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.adapters.glue_registry import GlueRegistry
from frazil.model.errors import LocalServicesError, RegistryError, SettingError, version_missing
from frazil.model.schemas import UNREGISTERED, Reference, RegisteredSchema, SchemaDefinition, SchemaId
from frazil.model.secret import revealed
from frazil.model.settings import NOT_RUNNING_HOST, RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema as RegisteredVersion
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

UNKNOWN_FOR_SECONDS = 60.0
"""How long an id that the registry does not know is remembered as unknown."""

PATIENCE = {"timeout": 8, "max.retries": 1, "retries.wait.ms": 500}
"""The client would wait without limit. More attempts are the caller's: `materialize` tries a whole step again."""

_HINTS = {
    401: "fix basic.auth.user.info of `schema_registry`: the registry needs its own API key, not the brokers'",
    403: "let the `schema_registry` account read the topics' subjects, for example with DeveloperRead",
}
"""Hints by the HTTP status of a registry that is up but refuses the request."""

_IS_IT_UP = "check `schema_registry` in frazil.yaml and that the registry is up; no record is lost"
_IS_IT_THE_REGISTRY = "correct `schema_registry.url` in frazil.yaml: another server answers there, or its path is wrong"

_HAS_IT_GUIDS = (
    "`wire_format: confluent_headers` needs a registry of Confluent's that looks up schemas by GUID; of others,"
    " including the one of `frazil local up`, producers can only send ids: use `wire_format: confluent`."
    " If the registry is one of Confluent's, check the path in `schema_registry.url`"
)

Answer = TypeVar("Answer")


def open_registry(settings: RegistrySettings | None) -> Registry:
    """Return the registry that the settings name, beside the schemas that records have in them."""
    if settings is None:
        return WithEmbedded(NoRegistry())
    return WithEmbedded(ConfluentRegistry(settings) if settings.glue is None else GlueRegistry(settings.glue, settings))


class NoRegistry:
    """The registry of a configuration without one. No table needs it: each method raises SettingError."""

    def close(self) -> None: ...

    def by_id(self, schema_id: SchemaId) -> NoReturn:
        self._fail(f"look up the schema id {schema_id}")

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        del schema_id
        return False

    def latest(self, subject: str) -> NoReturn:
        self._fail(f"look up the subject {subject}")

    def version(self, subject: str, number: int) -> NoReturn:
        self._fail(f"look up version {number} of the subject {subject}")

    def resolve(self, definition: SchemaDefinition) -> NoReturn:
        del definition
        self._fail("look up what a schema refers to")

    def subjects_under(self, prefix: str) -> NoReturn:
        self._fail(f"list the subjects of {prefix}*")

    def _fail(self, what: str) -> NoReturn:
        raise SettingError(
            f"could not {what}: no schema registry is configured",
            hint="name the registry in frazil.yaml: `schema_registry: {url: …}`",
        )


class ConfluentRegistry:
    """A registry that speaks Confluent's API. Known ids are kept as long as the process lives."""

    def __init__(self, settings: RegistrySettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = settings.url
        self._clock = clock
        self._known: dict[SchemaId, RegisteredSchema] = {}
        self._unknown_since: dict[SchemaId, float] = {}
        self._settings = settings
        self._opened: SchemaRegistryClient | None = None
        self._opening = threading.Lock()

    @property
    def _client(self) -> SchemaRegistryClient:
        """The client, opened by the first request: its import takes 0.2 s, and most tasks ask nothing."""
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415

        with self._opening:
            if self._opened is None:
                settings = {**PATIENCE, "url": self._url, **revealed(self._settings.properties)}
                self._opened = SchemaRegistryClient(settings)
            return self._opened

    def close(self) -> None:
        """Let go of its connections; it answers nothing afterwards."""
        if self._opened is not None:
            self._opened.close()

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        if schema_id in self._known:
            return self._known[schema_id]
        if self.remembers_missing(schema_id):
            return None
        hint = _HAS_IT_GUIDS if isinstance(schema_id, UUID) else _IS_IT_THE_REGISTRY
        found = self._ask(f"look up the schema id {schema_id}", lambda: self._schema(schema_id), if_another=hint)
        if found is None:
            self._unknown_since[schema_id] = self._clock()
            return None
        return self._kept(self._registered(schema_id, found))

    def _schema(self, schema_id: SchemaId) -> Schema:
        if isinstance(schema_id, int):
            return self._client.get_schema(schema_id)
        return self._client.get_schema_by_guid(str(schema_id))

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return self._clock() - self._unknown_since.get(schema_id, float("-inf")) < UNKNOWN_FOR_SECONDS

    def latest(self, subject: str) -> RegisteredSchema | None:
        found = self._ask(f"look up the subject {subject}", lambda: self._latest_version(subject))
        if found is None:
            return None
        return self._remember(found)

    def version(self, subject: str, number: int) -> RegisteredSchema:
        what = f"look up version {number} of the subject {subject}"
        found = self._ask(what, lambda: self._client.get_version(subject, number))
        if found is None:
            raise version_missing(subject, number, self._ask(what, lambda: self._client.get_versions(subject)) or ())
        return self._remember(found)

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415 - as slow as the client

        references = [SchemaReference(each.name, each.subject, each.version) for each in definition.references]
        schema = self._registered(UNREGISTERED, Schema(definition.text, definition.format, references))
        if schema.missing:
            raise RegistryError(
                f"the schema registry at {self._url} has no {schema.missing[0]}, which the schema references",
                hint="register the referenced schema first",
            )
        return schema

    def subjects_under(self, prefix: str) -> Collection[str]:
        found = self._ask(f"list the subjects of {prefix}*", lambda: self._client.get_subjects(prefix)) or ()
        return [subject for subject in found if subject.startswith(prefix)]

    def _latest_version(self, subject: str) -> RegisteredVersion:
        """Ask anew: the client would give the same answer for as long as the process lives."""
        self._client.clear_latest_caches()  # type: ignore[no-untyped-call]
        return self._client.get_latest_version(subject)

    def _remember(self, found: RegisteredVersion) -> RegisteredSchema:
        schema_id = found.schema_id
        assert schema_id is not None  # noqa: S101 - the client fills it in from the answer
        if schema_id not in self._known:
            guid = None if found.guid is None else UUID(found.guid)
            return self._kept(replace(self._registered(schema_id, found.schema), guid=guid))
        return self._known[schema_id]

    def _kept(self, schema: RegisteredSchema) -> RegisteredSchema:
        """Keep a schema that can never change: what it refers to may be registered again."""
        if not schema.missing:
            self._known[schema.id] = schema
        return schema

    def _registered(self, schema_id: SchemaId, schema: Schema) -> RegisteredSchema:
        found, missing = dict[str, Reference](), list[str]()
        self._collect(schema.references or [], found, set(), missing)
        return RegisteredSchema(
            id=schema_id,
            format=cast("Literal['AVRO', 'PROTOBUF', 'JSON']", schema.schema_type or "AVRO"),
            text=schema.schema_str or "",
            references=tuple(found.values()),
            missing=tuple(missing),
        )

    def _collect(
        self, references: list[SchemaReference], known: dict[str, Reference], met: set[str], missing: list[str]
    ) -> None:
        """Add the schemas that a schema refers to, dependencies first, and those of them that are not there.

        If several have one name, such as two versions of a file, the one that is met first is meant everywhere: so the
        registry and Confluent's clients resolve them. They also use those that were deleted softly.
        """
        for reference in references:
            name, subject, version = str(reference.name), str(reference.subject), int(reference.version or 0)
            if name in met:
                continue
            met.add(name)
            found = self._ask(
                f"look up version {version} of the subject {subject}",
                lambda subject=subject, version=version: self._client.get_version(subject, version, deleted=True),  # type: ignore[misc]
            )
            if found is None:
                missing.append(f"version {version} of {subject}")
                continue
            self._collect(found.schema.references or [], known, met, missing)
            known[name] = Reference(name, found.schema.schema_str or "")

    def _ask(self, what: str, request: Callable[[], Answer], *, if_another: str = _IS_IT_THE_REGISTRY) -> Answer | None:
        """Return the answer, or None if the registry reports «not found». Other failures are a RegistryError.

        `if_another` is the hint if no registry gives such an answer.
        """
        if NOT_RUNNING_HOST in self._url:
            raise LocalServicesError(
                f"could not {what}: the local schema registry that frazil.yaml refers to is not running",
                hint="run `frazil local up`, or name your own registry in `schema_registry`",
            )
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415 - as slow as the client

        try:
            return request()
        except SchemaRegistryError as refused:
            if refused.http_status_code == 404 and refused.error_code in (40401, 40402, 40403):
                return None
            raise self._failed(what, refused, if_another) from refused
        except Exception as problem:
            raise self._failed(what, problem, if_another) from problem

    def _failed(self, what: str, problem: Exception, if_another: str) -> RegistryError:
        return RegistryError(
            f"the schema registry at {self._url} could not {what}: {_answered(problem) or problem}",
            hint=_hint(problem, if_another),
        )


Registry = WithEmbedded
"""A registry that an adapter opened."""


def _hint(problem: Exception, if_another: str) -> str:
    status = getattr(problem, "http_status_code", 0)
    is_another_server = _answered(problem) and status < HTTPStatus.INTERNAL_SERVER_ERROR
    return _HINTS.get(status, if_another if is_another_server else _IS_IT_UP)


def _answered(problem: Exception) -> str:
    """Return what is said of an answer that no registry gives, such as a page in HTML; an empty text for others."""
    status = getattr(problem, "http_status_code", None)
    if isinstance(problem, JSONDecodeError):
        said = "no JSON"
    elif status is not None and getattr(problem, "error_code", None) in (None, -1):
        said = f"HTTP status {status}"
    else:
        return ""
    return f"the answer was not one of a schema registry ({said})"
