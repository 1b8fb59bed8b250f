"""Tables from which values are erased, in the process of the test."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from changelogs import Changelog
from policed_tables import HASH_KEY
from rebuilt_tables import of_mode
from values_of_tables import NOW, spec
from whole_batches import World

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.forget.perform import Erased, Erasure
from frazil.materialize.state import standing
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, TableSpec

NUMBERS = spec(bad_record_limit=BadRecordLimit.off(), erasure_key=HASH_KEY)
"""A table of Avro records, with dead letters."""


def erasure(world: World, wanted: TableSpec, view: TableView, text: str, column: str) -> Erasure:
    sought = sought_in(view, column, text)
    return Erasure(world.lake, wanted, sought, "tester", lambda: NOW, lambda: uuid.uuid4().hex)


def erase(log: Any, text: str, column: str = "kafka_key") -> Erased:
    """Erase a value from the table of a changelog, or of a change stream."""
    return erasure(log.world, log.spec, log.view, text, column).perform()


def with_key(log: Changelog, mode: str) -> Changelog:
    of_mode(mode, log)
    log.spec = replace(log.spec, erasure_key=HASH_KEY)
    return log


def skipped(log: Changelog) -> dict[str, int]:
    return dict(standing(log.view, pipeline=log.spec.pipeline).state.skipped_by_reason)


def keys(log: Changelog) -> list[str]:
    batches = log.world.lake.read(log.view, columns=["kafka_key"], equal={})
    return sorted(key for batch in batches for key in batch.column(0).to_pylist() if key is not None)


def numbers_of(world: World) -> TableView:
    view = world.lake.load(NUMBERS.identifier)
    assert view is not None
    return view
