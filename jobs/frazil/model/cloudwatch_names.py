"""The metrics of tables, as CloudWatch knows them: by table, and by the job run that fills the tables."""

from __future__ import annotations

BY_TABLE, BY_RUN = "Table", "Run"
LAG_SECONDS, LAG_RECORDS, FRESHNESS_SECONDS = "LagSeconds", "LagRecords", "FreshnessSeconds"
ROWS_ADDED, DEAD_LETTERS = "RowsAdded", "DeadLetters"
SMALL_FILES, DELETE_FILES = "SmallFiles", "DeleteFiles"

STREAMING = "streaming"
"""The run whose tables an alarm watches: a scheduled run begins with tables that lag."""

NAMESPACE_VARIABLE, RUN_VARIABLE = "FRAZIL_METRICS_NAMESPACE", "FRAZIL_METRICS_RUN"
"""Environment variables of a driver. With the first, it writes metrics into its log."""


def namespace_of(environment: str) -> str:
    return f"Frazil/{environment}"
