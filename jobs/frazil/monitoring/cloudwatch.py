"""Metrics in log lines of CloudWatch's embedded metric format (EMF), which takes no permission and no library.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from frazil.model import cloudwatch_names as names
from frazil.model.receipt import Receipt
from frazil.status import TableStatus

Unit = Literal["Seconds", "Count"]
Values = Mapping[str, tuple[float | None, Unit]]

LONGEST_DIMENSION = 1_024


@dataclass(frozen=True, slots=True)
class CloudWatchLines:
    """Makes the lines of one job run. `run` says which: `streaming` or `scheduled`.

    Each metric of each table is billed, so other figures are in the lines only, for queries of the log.
    """

    namespace: str
    run: str

    def of_batch(self, receipt: Receipt, *, now: datetime) -> str:
        """Return the line of a published batch."""
        through = receipt.complete_through
        accounted = receipt.counts if receipt.group is None else receipt.group
        values: Values = {
            names.ROWS_ADDED: (receipt.counts.rows, "Count"),
            names.DEAD_LETTERS: (accounted.dead_letters, "Count"),
            names.FRESHNESS_SECONDS: (None if through is None else _seconds(now, through), "Seconds"),
        }
        seconds = round(sum(receipt.seconds.values()), 3)
        about = {"Batch": receipt.batch_id, "Epoch": receipt.epoch, "BatchSeconds": seconds}
        return self._line(receipt.table, values, now, about)

    def of_tables(self, found: Sequence[TableStatus], *, now: datetime) -> Iterator[str]:
        """Yield a line for each table that exists, without values that are unknown."""
        for each in found:
            values: Values = {
                names.LAG_RECORDS: (each.lag, "Count"),
                names.LAG_SECONDS: (each.lag_seconds, "Seconds"),
                names.SMALL_FILES: (None if each.files is None else each.files.small, "Count"),
                names.DELETE_FILES: (None if each.files is None else each.files.deletes, "Count"),
            }
            if any(value is not None for value, _ in values.values()):
                yield self._line(each.table, values, now, {"State": each.state, "Snapshots": each.snapshots})

    def _line(self, table: str, values: Values, now: datetime, properties: Mapping[str, object]) -> str:
        known = {name: value for name, (value, _) in values.items() if value is not None}
        metrics = [{"Name": name, "Unit": values[name][1]} for name in known]
        lag = [{"Name": names.LAG_SECONDS, "Unit": "Seconds"}]
        of_run = {"Namespace": self.namespace, "Dimensions": [[names.BY_RUN]], "Metrics": lag}
        described = {
            "Timestamp": int(now.timestamp() * 1000),
            "CloudWatchMetrics": [
                {"Namespace": self.namespace, "Dimensions": [[names.BY_TABLE]], "Metrics": metrics},
                *([of_run] if names.LAG_SECONDS in known else []),
            ],
        }
        dimensions = {names.BY_TABLE: table[:LONGEST_DIMENSION], names.BY_RUN: self.run}
        return json.dumps({"_aws": described, **properties, **dimensions, **known})


def _seconds(now: datetime, then: datetime) -> float:
    return round(max((now - then).total_seconds(), 0.0), 3)
