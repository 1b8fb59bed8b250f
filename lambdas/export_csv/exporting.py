"""Runs an export, as `frazil export` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from frazil.adapters.allocators import give_back_freed_memory
from frazil.adapters.iceberg import glue_catalog  # noqa: F401 - PyIceberg imports it by its name, which packing cannot see
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.perform import Export, Exported
from frazil.exports.periods import last_period, period_between
from frazil.model.errors import ServiceError
from frazil.model.exports import ExportSpec, Period
from frazil.model.settings import CatalogSettings


class OutOfTimeError(ServiceError):
    """The time of one invocation was not enough; the files that are finished are kept."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What is finished of an export, and its folder."""

    exported: Exported
    folder: ExportFolder

    @property
    def summary(self) -> dict[str, Any]:
        """The additions of this run, for the log."""
        written = self.exported.written
        if written is None:
            return {"address": self.folder.address, "files": 0, "rows": 0, "finished": len(self.exported.finished)}
        return {
            "address": self.folder.address,
            "window": written.label,
            "edition": written.number,
            "contents": written.contents,
            "snapshot_id": str(written.snapshot_id),
            "files": len(written.parts),
            "rows": written.rows,
        }


def period_of(spec: ExportSpec, event: Mapping[str, Any], now: datetime) -> Period | None:
    """Return the period that an event asks for, None for an incremental export. Raises Misuse for times that are none.

    `at` is when the schedule was due: a retry after midnight exports the same period.
    """
    if spec.window is None:
        return None
    if "from" in event or "to" in event:
        return period_between(spec.window, str(event.get("from", "")), str(event.get("to", "")))
    return last_period(spec.window, datetime.fromisoformat(event["at"]) if "at" in event else now)


def run(spec: ExportSpec, catalog: CatalogSettings, period: Period | None, *, may_continue: Callable[[], bool]) -> Ran:
    """Export the period. Raises OutOfTimeError if `may_continue` said no: the same run continues after it."""
    give_back_freed_memory()
    lake = IcebergLake(catalog)
    exported = Export(
        spec,
        lake,
        open_folder=lambda address: ExportFolder(lake.storage, address),
        now=lambda: datetime.now(UTC),
        may_continue=may_continue,
    ).run(period)
    if not exported.complete:
        raise OutOfTimeError(
            f"the export {spec.name} is not finished: its time was not enough, and the files so far are in"
            f" {exported.address}",
            hint="Lambda invokes it again, twice, and each time it continues after the last file; after that, invoke it"
            " again with the same event (docs/operate.md)",
        )
    return Ran(exported, ExportFolder(lake.storage, exported.address))
