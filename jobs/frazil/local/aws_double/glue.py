"""Glue: a table is changed by compare-and-set, one change at a time.

Iceberg commits by UpdateTable with the VersionId that it read. Glue refuses a stale one; moto ignores it, so that of
two racing writers one loses its commit without a word. Here every change of a table holds a lock and is checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse

Answer = Callable[[GlueResponse], object]
CHANGES = ("create_table", "update_table", "delete_table", "batch_delete_table")
_changing = threading.Lock()


def concurrent_modification(table: str, *, expected: str, found: str) -> JsonRESTError:
    """What Glue answers to an UpdateTable whose VersionId is not the current one."""
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


def teach() -> None:
    """Replace moto's handlers of tables by ones that take turns and look at versions."""
    GlueResponse.update_table = refusing_stale_versions(GlueResponse.update_table)
    for name in CHANGES:
        setattr(GlueResponse, name, one_at_a_time(getattr(GlueResponse, name)))
