"""The part of announce for Snowflake: an external table over a Delta log sees a new version after a refresh.

No failure here fails the batch, whose rows are published. A refresh costs a login and is harmless, so only the process
remembers the announced versions: a new process refreshes each table once, which covers what a dead one left undone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.model.errors import FrazilError
from frazil.model.snowflake import delta_table
from frazil.model.spec import TableSpec
from frazil.ports import Snowflake

LOG = logging.getLogger(__name__)

REST = timedelta(minutes=1)
"""The wait after a failure, which may have lasted as long as a login's time limit, so as not to delay each batch."""


@dataclass(slots=True)
class Telling:
    """The refreshes of one table in Snowflake: `announced_version` is the last announced version of its Delta log."""

    announced_version: int | None = None
    not_before: datetime | None = None

    def tell(self, snowflake: Snowflake, spec: TableSpec, version: int, *, now: datetime) -> None:
        """Announce a version of the Delta log to Snowflake. Failures are logged, not raised."""
        if version == self.announced_version or (self.not_before is not None and now < self.not_before):
            return
        table = delta_table(spec)
        try:
            snowflake.refresh(table)
        except FrazilError as problem:
            self.not_before = now + REST
            self._failed(spec, problem.what, problem.hint)
        except Exception as problem:
            LOG.exception("unforeseen", extra={"table": spec.identifier})
            self.not_before = now + REST
            self._failed(
                spec, f"{type(problem).__name__}: {problem}", "if it happens again, report it with the stack trace"
            )
        else:
            self.announced_version = version
            LOG.info("snowflake_refreshed", extra={"table": spec.identifier, "as": table, "version": version})

    def _failed(self, spec: TableSpec, problem: str, hint: str) -> None:
        """Log the failure; the external table keeps its previous version until the next batch announces again."""
        fields = {"table": spec.identifier, "as": delta_table(spec), "problem": problem, "hint": hint}
        LOG.warning("snowflake_not_refreshed", extra=fields)
