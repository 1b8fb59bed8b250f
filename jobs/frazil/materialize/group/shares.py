"""A batch of a group, divided into what each of its tables gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from frazil.materialize.account import Ingested
from frazil.materialize.group.complete import Places
from frazil.materialize.group.ledger import LedgerEntry, placed
from frazil.materialize.schema.routed import takes
from frazil.materialize.state import Standing
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.schemas import RegisteredSchema, SchemaId, in_order
from frazil.model.spec import TableSpec


@dataclass(frozen=True, slots=True)
class TableShare:
    """The plan and the results of one table, and what it adds to the group's state if it is the ledger."""

    plan: BatchPlan
    got: Ingested
    entry: LedgerEntry | None = None


def share_of(
    spec: TableSpec,
    own: Standing,
    plan: BatchPlan,
    got: Ingested,
    *,
    schemas: WriterSchemas,
    untaken: Iterable[SchemaId],
) -> TableShare:
    """Return the share of one table: all of the batch, unless it is a table of a group.

    `schemas` are those that the table has columns for. `untaken` are known schemas that no table of the group takes.
    """
    if spec.group is None:
        return TableShare(plan, got)
    place = spec.group.routes.index(spec.group.route_of(spec.table))
    mine = replace(plan, schemas=schemas)
    if place == 0:
        return TableShare(mine, got.of_route(place), LedgerEntry(got, spec.group.routes, in_order(untaken)))
    head = own.view.head
    assert head is not None  # noqa: S101 - a standing has a snapshot that carries it
    state = placed(own.state, plan.state)
    mine = replace(mine, table=spec.identifier, base_snapshot_id=head, state=state, table_uuid=own.view.uuid)
    return TableShare(mine, replace(got.of_route(place), truncated_nanos=0, undeclared_fields=0))


def together(known: Iterable[WriterSchemas]) -> WriterSchemas:
    """Return the schemas that any of the tables has columns for."""
    values: dict[SchemaId, RegisteredSchema] = {}
    keys: dict[SchemaId, RegisteredSchema] = {}
    for each in known:
        values.update(each.values)
        keys.update(each.keys)
    return WriterSchemas(values, keys)


def known_to_all(tables: Sequence[tuple[TableSpec, WriterSchemas]]) -> WriterSchemas:
    """Return the schemas that each table has columns for whose route takes their records, and each table those of keys.

    A range ends before any other one, so that all of these tables get columns for it.
    """
    known = together(own for _, own in tables)
    values = {
        schema_id: schema
        for schema_id, schema in known.values.items()
        if all(schema_id in own.values or not takes(spec, schema) for spec, own in tables)
    }
    keys = {
        schema_id: each for schema_id, each in known.keys.items() if all(schema_id in own.keys for _, own in tables)
    }
    return WriterSchemas(values, keys)


def at_one_batch(here: Places) -> bool:
    return len({each.state.itself for each in here.values()}) == 1
