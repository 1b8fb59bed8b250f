"""The registry of the schemas of output topics, through Confluent's client (`outputs.ports.OutputSchemas`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from frazil.adapters.registry import PATIENCE
from frazil.model.errors import OutputSchemaError, RegistryError, SettingError
from frazil.model.secret import revealed
from frazil.model.settings import RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


class RegistrySchemas:
    """Registers Avro schemas. What it registered once, it does not ask for again."""

    def __init__(self, settings: RegistrySettings | None) -> None:
        self._settings = settings
        self._ids: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        if (subject, schema) not in self._ids:
            self._ids[subject, schema] = self._registered(subject, schema)
        return self._ids[subject, schema]

    def check(self, subject: str, schema: str) -> None:
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 - slow, and few tables have outputs

        with self._asking(subject, schema, "compare"), closing(self._client()) as client:
            if not client.test_compatibility(subject, Schema(schema, "AVRO")):
                raise _refused(subject, schema, "it is not compatible with the latest version")

    def _registered(self, subject: str, schema: str) -> int:
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415

        with self._asking(subject, schema, "register"), closing(self._client()) as client:
            return int(client.register_schema(subject, Schema(schema, "AVRO")))

    @contextmanager
    def _asking(self, subject: str, schema: str, act: str) -> Iterator[None]:
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415

        try:
            yield
        except SchemaRegistryError as refused:
            if refused.http_status_code in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
                raise _refused(subject, schema, str(refused.error_message)) from refused
            if act == "compare" and refused.http_status_code == HTTPStatus.NOT_FOUND:
                return  # the subject does not exist yet
            raise self._failed(subject, act, refused) from refused
        except (SettingError, OutputSchemaError):
            raise
        except Exception as problem:
            raise self._failed(subject, act, problem) from problem

    def _failed(self, subject: str, act: str, problem: Exception) -> RegistryError:
        forbidden = getattr(problem, "http_status_code", 0) in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        url = "" if self._settings is None else self._settings.url
        return RegistryError(
            f"the schema registry at {url} could not {act} a schema of the subject {subject}: {problem}",
            hint=f"let the `schema_registry` account write the subject {subject}, for example with DeveloperWrite"
            if forbidden
            else "check `schema_registry` in frazil.yaml and that the registry is up; nothing was sent",
        )

    def _client(self) -> SchemaRegistryClient:
        if self._settings is None or self._settings.glue is not None:
            raise SettingError(
                "an output topic needs a schema registry with Confluent's API, and none is configured",
                hint="name the registry in frazil.yaml: `schema_registry: {url: …}`",
            )
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415

        return SchemaRegistryClient({**PATIENCE, "url": self._settings.url, **revealed(self._settings.properties)})


def _refused(subject: str, schema: str, why: str) -> OutputSchemaError:
    return OutputSchemaError(
        f"the schema registry refuses the schema of the subject {subject}: {why}; it is {schema}",
        hint="nothing was sent with this schema: set the subject's compatibility to BACKWARD or NONE, or send to a"
        " topic with a subject of its own",
    )
