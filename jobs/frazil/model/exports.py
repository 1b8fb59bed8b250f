"""The exports of tables, after `specs/` has parsed and validated them, and the periods that they cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

ExportFormat = Literal["csv", "parquet"]
Every = Literal["day", "week", "month"]
Timestamps = Literal["utc", "wall"]

EXPORT_TAG = "frazil_export_"
"""What the tags of snapshots begin with that an export has pinned."""


@dataclass(frozen=True, slots=True)
class ExportWindow:
    """Rows are chosen by the time in `column`. A day begins at midnight in `time_zone`, a week on Monday (ISO 8601)."""

    column: str
    every: Every
    time_zone: str


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """One export: which rows of a table go to which files.

    `window` is None for an export that is incremental: each run has the rows that were added since the last one.
    `columns` are all of the table if there are none; `where` is a condition in Iceberg's filter language. `to` is an
    absolute folder or an `s3://` address. `part_bytes` and `part_rows` are the greatest size of a file, about and
    exactly. `link_seconds` is how long a link in an announcement opens a file, None if there is to be no link.
    `tag_seconds` is the age up to which exported snapshots stay tagged, None for ever.
    """

    source_file: str
    name: str
    table: str
    to: str
    window: ExportWindow | None
    columns: tuple[str, ...] = ()
    where: str = ""
    format: ExportFormat = "csv"
    gzip: bool = False
    part_bytes: int = 256_000_000
    part_rows: int = 1_000_000
    formula_guard: bool = True
    timestamps: Timestamps = "utc"
    byte_order_mark: bool = False
    link_seconds: int | None = None
    tag_seconds: int | None = None

    @property
    def incremental(self) -> bool:
        return self.window is None

    @property
    def time_zone(self) -> str:
        return "UTC" if self.window is None else self.window.time_zone

    @property
    def ending(self) -> str:
        """The end of the name of each file with rows."""
        return ".parquet" if self.format == "parquet" else ".csv.gz" if self.gzip else ".csv"

    def content(self) -> Mapping[str, str]:
        """Return what decides the rows and bytes of the files, by the name of the key: a manifest keeps it."""
        window = self.window
        return {
            "table": self.table,
            "columns": ", ".join(self.columns) or "all",
            "where": self.where or "all rows",
            "window": "none: incremental" if window is None else f"{window.column} in {window.time_zone}",
            "format": self.format,
            "part_size": str(self.part_bytes),
            "part_rows": str(self.part_rows),
            **(self._content_of_csv() if self.format == "csv" else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for a function that runs the export without its file."""
        return asdict(self)

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> ExportSpec:
        window, columns = value["window"], tuple(value["columns"])
        return ExportSpec(**{**value, "window": window and ExportWindow(**window), "columns": columns})

    def _content_of_csv(self) -> Mapping[str, str]:
        return {
            "gzip": str(self.gzip).lower(),
            "formula_guard": str(self.formula_guard).lower(),
            "timestamps": self.timestamps,
            "byte_order_mark": str(self.byte_order_mark).lower(),
        }


@dataclass(frozen=True, slots=True)
class Period:
    """The time `[start, end)` that one export covers, and the name of its folder. Both have a time zone."""

    label: str
    start: datetime
    end: datetime
