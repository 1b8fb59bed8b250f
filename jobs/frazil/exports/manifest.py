"""The manifest of an export: its snapshot, its period, and the size and checksum of each of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from frazil.exports.parts import Part
from frazil.exports.positions import Positions
from frazil.model.errors import ExportError
from frazil.model.exports import ExportSpec, Period
from frazil.model.moments import rfc3339

VERSION = 1
Contents = Literal["all rows", "late rows", "all rows again", "new rows"]
"""All rows of the period; those that came after the files before; all, in the place of the files before; all rows that
were added since the last run."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One finished set of files. `number` is 0 for the first one of a period, and counts its corrections.

    `positions` are where the table had read to in the snapshot; None if it is none of Frazil's.
    """

    export: str
    table: str
    table_uuid: str
    label: str
    number: int
    contents: Contents
    snapshot_id: int
    tag: str
    rows: int
    parts: tuple[Part, ...]
    columns: tuple[tuple[str, str], ...]
    spec: Mapping[str, str]
    created_at: datetime
    period: Period | None = None
    window_column: str = ""
    time_zone: str = "UTC"
    complete_through: datetime | None = None
    positions: Positions | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "export": self.export,
            "table": self.table,
            "table_uuid": self.table_uuid,
            "window": self._window(),
            "number": self.number,
            "contents": self.contents,
            "snapshot_id": self.snapshot_id,
            "tag": self.tag,
            "complete_through": None if self.complete_through is None else rfc3339(self.complete_through),
            "rows": self.rows,
            "guarded_cells": sum(part.guarded for part in self.parts),
            "parts": [asdict(part) for part in self.parts],
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
            "spec": dict(self.spec),
            "positions": None if self.positions is None else self.positions.to_json(),
            "created_at": rfc3339(self.created_at),
        }

    def _window(self) -> dict[str, str]:
        if self.period is None:
            return {"label": self.label}
        start, end = (each.isoformat() for each in (self.period.start, self.period.end))
        return {
            "label": self.label,
            "column": self.window_column,
            "from": start,
            "to": end,
            "time_zone": self.time_zone,
        }

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> Manifest:
        window, positions, through = value["window"], value["positions"], value["complete_through"]
        period = None
        if "from" in window:
            start, end = (datetime.fromisoformat(window[name]) for name in ("from", "to"))
            period = Period(window["label"], start, end)
        return Manifest(
            export=value["export"],
            table=value["table"],
            table_uuid=value["table_uuid"],
            label=window["label"],
            number=value["number"],
            contents=value["contents"],
            snapshot_id=value["snapshot_id"],
            tag=value["tag"],
            rows=value["rows"],
            parts=tuple(Part(**part) for part in value["parts"]),
            columns=tuple((column["name"], column["type"]) for column in value["columns"]),
            spec=value["spec"],
            created_at=datetime.fromisoformat(value["created_at"]),
            period=period,
            window_column=window.get("column", ""),
            time_zone=window.get("time_zone", "UTC"),
            complete_through=None if through is None else datetime.fromisoformat(through),
            positions=None if positions is None else Positions.of_json(positions),
        )


def written(manifest: Manifest) -> bytes:
    return (json.dumps(manifest.to_json(), indent=2, ensure_ascii=False) + "\n").encode()


def read_manifest(content: bytes, address: str) -> Manifest:
    """Return the manifest in a file. Raises ExportError if the file is none of this release."""
    try:
        value = json.loads(content)
        if value["version"] != VERSION:
            raise ValueError(f"its version is {value['version']}, expected {VERSION}")
        return Manifest.of_json(value)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ExportError(
            f"{address} is no manifest of an export: {type(problem).__name__}: {problem}",
            hint="restore it from a copy; or remove it and all later manifests in its folder, and run the export again,"
            " which writes their rows anew",
        ) from problem


def check_spec(spec: ExportSpec, finished: Sequence[Manifest], address: str) -> None:
    """Raise ExportError if what is finished was made with other keys that decide its rows and files."""
    if not finished:
        return
    before, now = finished[-1].spec, spec.content()
    changed = [f"{k}: {before.get(k)} -> {now.get(k)}" for k in (*before, *now) if before.get(k) != now.get(k)]
    if changed:
        raise ExportError(
            f"the export {spec.name} of {finished[-1].label} was finished with another spec:"
            f" {', '.join(dict.fromkeys(changed))}",
            hint=f"restore {spec.source_file}, or give the export another name or `to`; to write it again, remove the"
            f" manifests in {address} first",
        )
