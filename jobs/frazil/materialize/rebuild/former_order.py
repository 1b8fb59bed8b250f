"""A rebuild of a table whose topic got more partitions reads the records in the order that the table has them in.

Offsets order the records that the former partitions had then, and timestamps all others (decision 0036). So the former
partitions are read first, up to the same offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.materialize.added_partitions import may_order_by_time, offsets_first
from frazil.materialize.changed_spec.applied_spec import (
    BY_OFFSET,
    SPEC_PROPERTY,
    TEXTS,
    applied_spec_of,
    spec_property,
)
from frazil.materialize.group.complete import Places
from frazil.materialize.state import Standing
from frazil.model.errors import RebuildError
from frazil.model.spec import TableSpec
from frazil.ports import Lake


def former_orders(specs: Sequence[TableSpec], here: Places) -> Mapping[str, Mapping[int, int]]:
    """Return the offsets up to which offsets are to order the records again, of the tables whose spec says no order.

    Raises RebuildError if the changed spec does not allow that order.
    """
    orders = {spec.identifier: _former_order(spec, here[spec.identifier]) for spec in specs}
    return {table: first for table, first in orders.items() if first}


def _former_order(spec: TableSpec, here: Standing) -> Mapping[int, int]:
    first = offsets_first(spec, here)
    if not first or spec.write not in ("upsert", "history") or spec.order_by is not None:
        return {}
    applied = applied_spec_of(here.view.properties, table=spec.identifier)
    assert applied is not None  # noqa: S101 - it has `first`
    if may_order_by_time(spec) and applied.keys["start"] == TEXTS["start"](spec):
        return first
    by_time = f"write `order_by: {spec.metadata.prefix}timestamp`, keep that column, and rebuild the table"
    raise RebuildError(
        f"{spec.identifier}: partitions were added to its topic, and timestamps order the records of a key since then:"
        f" the changed spec in {spec.source_file} does not say which record of a key is the newest",
        hint="write `cdc_order: source`, and rebuild the table" if spec.cdc != "none" else by_time,
    )


def record(
    lake: Lake, specs: Sequence[TableSpec], built: Places, orders: Mapping[str, Mapping[int, int]]
) -> Mapping[int, int]:
    """Let what is built have these orders, unless the added partitions are being read. Return what is read first.

    Raises CommitError.
    """
    ordered = [spec for spec in specs if spec.identifier in orders]
    if not any(_waits(built[spec.identifier], spec=spec) for spec in ordered):
        return {}
    for spec in ordered:
        _record(lake, spec, built[spec.identifier], orders[spec.identifier])
    return read_first(orders)


def read_first(orders: Mapping[str, Mapping[int, int]]) -> Mapping[int, int]:
    """Return the offsets up to which the former partitions are read before all others."""
    return {number: offset for first in orders.values() for number, offset in first.items()}


def _waits(built: Standing, *, spec: TableSpec) -> bool:
    """Return whether the partitions that were added are not read yet in what is built."""
    applied = applied_spec_of(built.view.properties, table=spec.identifier)
    return applied is not None and applied.keys["order_by"] == BY_OFFSET


def _record(lake: Lake, spec: TableSpec, built: Standing, first: Mapping[int, int]) -> None:
    applied = applied_spec_of(built.view.properties, table=spec.identifier)
    if applied is not None and applied.offsets_first != first:
        ordered = spec_property(replace(applied, offsets_first=first))
        lake.set_property_at(built.view, SPEC_PROPERTY, ordered[SPEC_PROPERTY])
