"""Rebuilds of tables in tests, as the command makes them."""

from __future__ import annotations

import time
from typing import Any, cast

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target
from frazil.materialize.run import TableRun


def rebuild_of(run: TableRun, target: Target | None = None) -> Rebuild:
    """Return the rebuild of the tables of a run, or their rewind, by the run's process."""
    tables = (run.spec.dead_letters_identifier, *(each.identifier for each in run.tables))
    built = RebuildLake(cast(IcebergLake, run.clients.lake), tables)
    quietly: dict[str, Any] = {"wait": time.sleep, "clock": time.monotonic, "report": lambda progress: None}
    return Rebuild(run.spec, run.clients, built, run.writer, target=target, others=run.others, **quietly)
