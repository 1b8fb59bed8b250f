"""Announce a table's new snapshot to readers that do not read Iceberg: Delta readers and Snowflake."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from frazil.materialize.clients import Clients
from frazil.materialize.readers.delta import LogProgress, announce_delta, drop_delta_tags
from frazil.materialize.readers.snowflake import Telling
from frazil.materialize.warn_once import WarnOnce
from frazil.model.delta import Announced, LogFailed, LogWritten, Withheld
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Announcing:
    """Announces one table's snapshots to readers. A failure never fails a batch: its rows are already visible."""

    spec: TableSpec
    warnings: WarnOnce
    delta_log: LogProgress = field(default_factory=LogProgress)
    telling: Telling = field(default_factory=Telling)

    def announce(self, clients: Clients, view: TableView) -> Announced | None:
        """Update the Delta log, then announce its newest version to Snowflake. Returns as `write_delta_log`."""
        announced = self.write_delta_log(clients, view)
        self._tell_snowflake(clients)
        return announced

    def write_delta_log(self, clients: Clients, view: TableView) -> Announced | None:
        """Return None if the table has no readers of Delta, or its log was checked a moment ago."""
        now = clients.now()
        if "delta" not in self.spec.formats:
            drop_delta_tags(clients.lake, view)
            return None
        if not self.delta_log.is_due(view, now=now):
            return None
        announced = announce_delta(clients.lake, clients.delta_logs, view)
        self.delta_log.record(view, announced, now=now)
        table = self.spec.identifier
        match announced:
            case LogFailed(problem, hint):
                LOG.warning("delta_log_failed", extra={"table": table, "problem": problem, "hint": hint})
            case LogWritten(version, snapshot_id):
                LOG.info("delta_log_written", extra={"table": table, "version": version, "snapshot": snapshot_id})
            case Withheld(_, reason):
                self.warnings.warn("delta_log_withheld", reason)
        return announced

    def _tell_snowflake(self, clients: Clients) -> None:
        """Announce the newest version of the Delta log to Snowflake, unless this process has done so."""
        snowflake = clients.snowflake if "snowflake" in self.spec.readers else None
        if snowflake is not None and self.delta_log.version is not None:
            self.telling.tell(snowflake, self.spec, self.delta_log.version, now=clients.now())
