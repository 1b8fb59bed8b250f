"""Glue: UpdateTable is a compare-and-set, under a lock, and schemas can be listed.

Iceberg commits with UpdateTable and the VersionId that it read. Glue rejects a stale VersionId. moto ignores it, so one
of two concurrent writers silently loses its commit. Here every change of a table takes a lock and checks the version.

The schema registry of moto has no ListSchemas and no ListSchemaVersions: they are added, with one page of results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse

Answer = Callable[[GlueResponse], object]
CHANGES = ("create_table", "update_table", "delete_table", "batch_delete_table")
_changing = threading.Lock()


def concurrent_modification(table: str, *, expected: str, found: str) -> JsonRESTError:
    """Return Glue's error for an UpdateTable whose VersionId is not current."""
    return JsonRESTError(
        "ConcurrentModificationException",
        f"Update of table {table} failed due to concurrent modifications: VersionId {found}, current {expected}.",
    )


def one_at_a_time(change: Answer) -> Answer:
    def changed(response: GlueResponse) -> object:
        with _changing:
            return change(response)

    return changed


def refusing_stale_versions(update: Answer) -> Answer:
    def updated(response: GlueResponse) -> object:
        read_version = response.parameters.get("VersionId")
        if read_version is not None:
            _refuse_if_stale(response, str(read_version))
        return update(response)

    return updated


def _refuse_if_stale(response: GlueResponse, read_version: str) -> None:
    name = response.parameters["TableInput"]["Name"]
    table = response.glue_backend.get_table(response.parameters["DatabaseName"], name)
    current = str(table._current_version)  # moto has no public name for it
    if current != read_version:
        raise concurrent_modification(name, expected=current, found=read_version)


def list_schemas(response: GlueResponse) -> ActionResult:
    name = response.parameters["RegistryId"]["RegistryName"]
    _known(response, name)
    schemas = response.glue_backend.registries[name].schemas.values()
    return ActionResult({"Schemas": [each.as_dict() for each in schemas]})


def list_schema_versions(response: GlueResponse) -> ActionResult:
    schema = response.parameters["SchemaId"]
    registry, name = schema["RegistryName"], schema["SchemaName"]
    _known(response, registry, name)
    versions = response.glue_backend.registries[registry].schemas[name].schema_versions.values()
    return ActionResult({"Schemas": [each.as_dict() for each in versions]})


def _known(response: GlueResponse, registry: str, schema: str | None = None) -> None:
    found = response.glue_backend.registries.get(registry)
    if found is None or (schema is not None and schema not in found.schemas):
        what = (
            f"Schema is not found. RegistryName: {registry}, SchemaName: {schema}" if schema else "Registry not found"
        )
        raise JsonRESTError("EntityNotFoundException", what)


def teach() -> None:
    """Replace moto's table operations with ones that take a lock and check versions, and add the lists of schemas."""
    GlueResponse.list_schemas = list_schemas
    GlueResponse.list_schema_versions = list_schema_versions
    GlueResponse.update_table = refusing_stale_versions(GlueResponse.update_table)
    for name in CHANGES:
        setattr(GlueResponse, name, one_at_a_time(getattr(GlueResponse, name)))
