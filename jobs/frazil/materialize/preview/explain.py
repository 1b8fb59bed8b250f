"""A preview of one batch: the changes to the schema, then the plan. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from frazil.materialize.create import new_table, notes_of
from frazil.materialize.dead_letters import check_dead_letters
from frazil.materialize.evolve import differences_of_newest, known_schemas
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, dead_letter_schemas_of
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.foresee import Foresight, foresee
from frazil.materialize.run import TableRun
from frazil.materialize.schema.record_subjects import foretell
from frazil.materialize.sources import LatestSchemas, describe_topics, latest_schemas
from frazil.materialize.state import Standing, check_format, standing
from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.errors import FrazilError
from frazil.model.plan import BatchPlan, Halt, NothingToDo, OffsetRange, Plan, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import SchemaFinding
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import SpecChange
from frazil.model.summary import store


@dataclass(frozen=True, slots=True)
class Explanation:
    """`new_columns` are those of a new table, as far as they are known; the plan and the notes are of every table, and
    the rest is of tables that exist.

    The plan is a Halt wherever `materialize` would not go on. The notes say what the columns hold less exactly than the
    writer schemas say it, which fields have none, and how the newest schema differs from the table.
    """

    table: str
    plan: Plan
    new_columns: tuple[Column, ...] = ()
    spec_changes: tuple[SpecChange, ...] = ()
    changes: tuple[Change, ...] = ()
    findings: tuple[SchemaFinding, ...] = ()
    notes: tuple[SchemaFinding, ...] = ()


def explain(run: TableRun) -> Explanation:
    """Raises FrazilError where the plan cannot even be made."""
    clients, spec = run.clients, run.spec
    view = clients.lake.load(spec.identifier)
    dead_letters = clients.lake.load(spec.dead_letters_identifier)
    topics = describe_topics(clients.topics, spec)
    if view is None:
        new = new_table(clients.lake, clients.topics, clients.registry, spec, writer=run.writer)
        here, schemas = _not_made_yet(run, new.state), known_schemas(clients.registry, spec, new.state)
        plan = plan_batch(spec, here, topics, schemas=schemas, batch_id=clients.new_id())
        plan = _unless_dead_letters_stop_it(plan, dead_letters, spec, None)
        foretold = foretell(clients.registry, spec, latest_schemas(clients.registry, spec), new.columns)
        notes = (*new.notes, *foretold.notes)
        return Explanation(spec.identifier, plan, new_columns=foretold.columns, notes=notes)
    here = standing(view, pipeline=spec.pipeline)
    check_format(view)
    refused = dead_letter_schemas_of(view.properties)
    schemas = known_schemas(clients.registry, spec, here.state, refused=refused)
    foresight = foresee(spec, view, schemas)
    plan = plan_batch(spec, here, topics, schemas=schemas, batch_id=clients.new_id())
    if foresight.refusals and PAUSED_PROPERTY not in view.properties:
        plan = Halt(spec.identifier, foresight.refusals[0])
    plan = _unless_dead_letters_stop_it(plan, dead_letters, spec, here)
    evolution = foresight.evolution
    return Explanation(
        spec.identifier,
        plan,
        spec_changes=foresight.spec_changes,
        changes=evolution.changes,
        findings=evolution.findings,
        notes=_notes(run, foresight, schemas),
    )


def _unless_dead_letters_stop_it(
    plan: Plan, dead_letters: TableView | None, spec: TableSpec, here: Standing | None
) -> Plan:
    try:
        check_dead_letters(dead_letters, spec, here)
    except FrazilError as obstacle:
        return Halt(spec.identifier, obstacle)
    return plan


def _notes(run: TableRun, foresight: Foresight, schemas: WriterSchemas) -> tuple[SchemaFinding, ...]:
    known = LatestSchemas(tuple(schemas.values.values()), tuple(schemas.keys.values()))
    notes = notes_of(run.spec, known)
    if foresight.refusals:
        return notes
    newest = latest_schemas(run.clients.registry, run.spec).values
    latest = LatestSchemas(tuple(schema for schema in newest if schema.id in schemas.values), ())
    former_names = foresight.evolution.former_names
    return notes + differences_of_newest(run.spec, foresight.columns, former_names, latest)


def _not_made_yet(run: TableRun, state: TableState) -> Standing:
    """Where a table that is yet to be made would stand."""
    snapshot = Snapshot(0, None, "append", store(state).summary, run.clients.now())
    view = TableView(
        identifier=run.spec.identifier,
        location="",
        head=snapshot.id,
        branches={},
        tags={},
        snapshots={snapshot.id: snapshot},
        properties={},
        columns=(),
        format_version=2,
        schema_json="",
        partition_spec_json="",
        partition_fields=run.spec.partition_by,
        current=None,
    )
    return Standing(view, state, snapshot, (), rolled_back=False)


def lines(explanation: Explanation) -> Iterator[str]:
    """An explanation for people."""
    yield explanation.table
    for column in explanation.new_columns:
        yield f"  new table: {column.name}: {column.type}"
    for difference in explanation.spec_changes:
        yield f"  spec: {difference}"
    for change in explanation.changes:
        yield f"  {change}"
    for finding in explanation.findings:
        yield f"  refused: {finding}"
    for note in explanation.notes:
        yield f"  note: {note}"
    match explanation.plan:
        case NothingToDo(_, state):
            yield f"  nothing to do: read to the end of every partition, {state.total().rows:,} rows so far"
        case Halt(_, error):
            yield f"  halt: {error.what}"
        case BatchPlan():
            yield from _plan_lines(explanation.plan, new=bool(explanation.new_columns))
        case never:
            assert_never(never)


def _plan_lines(plan: BatchPlan, *, new: bool) -> Iterator[str]:
    yield f"  epoch {plan.epoch}: {plan.offsets:,} offsets of {len(plan.ranges)} partition(s)"
    for each in sorted(plan.ranges, key=lambda r: (r.topic, r.partition)):
        yield f"    {each.topic}-{each.partition}: [{each.start}, {each.end}){_left(each)}"
    base = "the new table's first snapshot" if new else f"snapshot {plan.base_snapshot_id}"
    yield f"  on {base}; writer schemas {sorted(plan.schemas.values)}"


def _left(each: OffsetRange) -> str:
    left = each.partition_end - each.end
    return f", {left:,} left for the next batch" if left else ""
