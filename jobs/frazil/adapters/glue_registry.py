"""AWS Glue's schema registry (`ports.SchemaRegistry`).

Its subjects are the names of schemas, its ids those of schema versions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from frazil.model.errors import RegistryError, version_missing
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaDefinition, SchemaId, VersionNumber
from frazil.model.settings import GlueSource, RegistrySettings

UNKNOWN_FOR_SECONDS = 60.0
"""How long an id that the registry does not know is remembered as unknown."""

PATIENCE = {"connect_timeout": 5, "read_timeout": 8, "retries": {"total_max_attempts": 2}}
"""boto3 would wait for minutes. More attempts are the caller's: `materialize` tries a whole step again."""

READABLE = ("AVAILABLE", "DELETING")
"""States of a version that records may have been written with."""

_NOT_FOUND = "EntityNotFoundException"
_DENIED = ("AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException")


class GlueRegistry:
    """A registry of AWS Glue. Known ids are kept as long as the process lives."""

    def __init__(
        self, source: GlueSource, settings: RegistrySettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._url = settings.url
        self._clock = clock
        self._known: dict[SchemaId, RegisteredSchema] = {}
        self._unknown_since: dict[SchemaId, float] = {}
        self._opened: Any = None
        self._opening = threading.Lock()

    @property
    def _client(self) -> Any:
        """The client, opened by the first request: its import is slow, and most tasks ask nothing."""
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
        from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

        with self._opening:
            if self._opened is None:
                self._opened = boto3.client(
                    "glue", region_name=self._source.region, endpoint_url=self._url, config=Config(**PATIENCE)
                )
            return self._opened

    def close(self) -> None:
        """Let go of its connections."""
        if self._opened is not None:
            self._opened.close()

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        if schema_id in self._known:
            return self._known[schema_id]
        if isinstance(schema_id, int) or self.remembers_missing(schema_id):
            return None
        what = f"look up the schema version {schema_id}"
        found = self._version(what, within=self._source.registry_name, SchemaVersionId=str(schema_id))
        if found is None:
            self._unknown_since[schema_id] = self._clock()
        return found

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return self._clock() - self._unknown_since.get(schema_id, float("-inf")) < UNKNOWN_FOR_SECONDS

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest version that may be used: a version that failed its compatibility check may not.

        Raises RegistryError if there is no such registry: AWS Glue says of its schemas only that they are missing.
        """
        what, schema = f"look up the schema {subject}", self._named(subject)
        found = self._ask(what, "get_schema_version", SchemaId=schema, SchemaVersionNumber={"LatestVersion": True})
        if found is None:
            self._check_existence()
            return None
        if found["Status"] == "AVAILABLE":
            return self._remember(found)
        versions = self._listed(what, "list_schema_versions", SchemaId=schema)
        usable = [each["VersionNumber"] for each in versions if each["Status"] == "AVAILABLE"]
        return self.version(subject, max(usable)) if usable else None

    def _check_existence(self) -> None:
        registry = {"RegistryName": self._source.registry_name}
        if self._ask("list its schemas", "list_schemas", RegistryId=registry, MaxResults=1) is None:
            raise RegistryError(
                f"{self} does not exist",
                hint="correct `registry_name` or `region` of `schema_registry` in frazil.yaml, or create the registry",
            )

    def version(self, subject: str, number: int) -> RegisteredSchema:
        what, schema = f"look up version {number} of the schema {subject}", self._named(subject)
        found = self._version(what, SchemaId=schema, SchemaVersionNumber={"VersionNumber": number})
        if found is None:
            versions = self._listed(what, "list_schema_versions", SchemaId=schema)
            raise version_missing(subject, number, (each["VersionNumber"] for each in versions))
        return found

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        if definition.references:
            raise RegistryError(
                "schemas in AWS Glue have no references, and this one refers to"
                f" {', '.join(each.subject for each in definition.references)}",
                hint="give a schema that contains all its types",
            )
        return RegisteredSchema(UNREGISTERED, definition.format, definition.text)

    def subjects_under(self, prefix: str) -> Collection[str]:
        registry = {"RegistryName": self._source.registry_name}
        found = self._listed(f"list the schemas {prefix}*", "list_schemas", RegistryId=registry)
        return [each["SchemaName"] for each in found if each["SchemaName"].startswith(prefix)]

    def _named(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self._source.registry_name, "SchemaName": subject}

    def _version(self, what: str, *, within: str | None = None, **which: Any) -> RegisteredSchema | None:
        """Return a version, or None if there is none. Raises RegistryError for one whose check is not finished.

        AWS Glue finds an id in all registries of the account: `within` is the only one whose versions count.
        """
        found = self._ask(what, "get_schema_version", **which)
        if found is not None and within is not None and _registry_of(found["SchemaArn"]) != within:
            return None
        if found is not None and found["Status"] == "PENDING":
            raise RegistryError(
                f"{self} could not {what}: its compatibility is still being checked",
                hint="wait: AWS Glue finishes the check within seconds",
            )
        return self._remember(found) if found is not None and found["Status"] in READABLE else None

    def _remember(self, found: Mapping[str, Any]) -> RegisteredSchema:
        schema_id = UUID(found["SchemaVersionId"])
        version = VersionNumber(found["SchemaArn"], found["VersionNumber"])
        text, form = found["SchemaDefinition"], found["DataFormat"]
        self._known[schema_id] = RegisteredSchema(schema_id, form, text, version=version)
        return self._known[schema_id]

    def _listed(self, what: str, operation: str, **given: Any) -> Iterator[Mapping[str, Any]]:
        """Yield what all pages of an answer list."""
        more: dict[str, str] = {}
        while True:
            page = self._ask(what, operation, **given, **more) or {}
            yield from page.get("Schemas", ())
            if not page.get("NextToken"):
                return
            more = {"NextToken": page["NextToken"]}

    def _ask(self, what: str, operation: str, **given: Any) -> Mapping[str, Any] | None:
        """Return the answer, or None if AWS Glue reports «not found». Other failures are a RegistryError."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(**given)
        except ClientError as refused:
            code = refused.response["Error"]["Code"]
            if code == _NOT_FOUND:
                return None
            raise self._failed(what, refused, is_denied=code in _DENIED) from refused
        except BotoCoreError as problem:
            raise self._failed(what, problem, is_denied="credentials" in str(problem)) from problem
        return answer

    def _failed(self, what: str, problem: Exception, *, is_denied: bool) -> RegistryError:
        allow = "allow this role glue:GetSchemaVersion on * and to list the schemas; check its credentials"
        wait = "check `schema_registry` in frazil.yaml and that AWS Glue can be reached; no record is lost"
        return RegistryError(f"{self} could not {what}: {problem}", hint=allow if is_denied else wait)

    def __str__(self) -> str:
        return f"the schema registry {self._source.registry_name} of AWS Glue in {self._source.region}"


def _registry_of(schema_arn: str) -> str:
    """Return the registry's name in `arn:aws:glue:REGION:ACCOUNT:schema/REGISTRY/SCHEMA`."""
    return schema_arn.split("/")[1]
