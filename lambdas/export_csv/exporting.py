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
from frazil.exports.perform import Export, Exported, always
from frazil.exports.periods import last_period, period_between
from frazil.model.errors import Misuse, ServiceError
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
    given = [key for key in ("from", "to") if key in event]
    if spec.window is None:
        if given:
            raise Misuse(f"{spec.name} is incremental: it has no window", hint=f"leave out {' and '.join(given)}")
        return None
    if len(given) == 1:
        raise Misuse(f"the event has {given[0]} alone", hint="give from and to, or neither for the last whole window")
    if given:
        return period_between(spec.window, str(event["from"]), str(event["to"]))
    return last_period(spec.window, _moment(event["at"]) if "at" in event else now)


def _moment(text: object) -> datetime:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise Misuse(f'"at": "{text}" is no time', hint='write "2026-01-19T06:00:00Z", or leave it out') from error


def run(
    spec: ExportSpec,
    catalog: CatalogSettings,
    period: Period | None,
    *,
    may_continue: Callable[[], bool],
    may_read: Callable[[], bool] = always,
) -> Ran:
    """Export the period. Raises OutOfTimeError if `may_continue` or `may_read` said no (exports/perform.py)."""
    give_back_freed_memory()
    lake = IcebergLake(catalog)
    exported = Export(
        spec,
        lake,
        open_folder=lambda address: ExportFolder(lake.storage, address),
        now=lambda: datetime.now(UTC),
        may_continue=may_continue,
        may_read=may_read,
    ).run(period)
    if not exported.complete:
        raise OutOfTimeError(
            f"the export {spec.name} is not finished: its time ran out; files that this run"
            f" finished: {exported.new_files}, in {exported.address}",
            hint="another run would come no further: set a smaller `part_rows`, or a shorter `every`; or run"
            " `frazil export` on a machine, where no time ends it (docs/operate.md)"
            if not exported.new_files
            else "Lambda invokes it again, twice, and each time it continues after the last file; after that, invoke it"
            " again with the same event (docs/operate.md)",
        )
    return Ran(exported, ExportFolder(lake.storage, exported.address))
