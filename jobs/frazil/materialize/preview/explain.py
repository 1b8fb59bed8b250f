"""A preview of one batch: the changes to the schema, then the plan. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from frazil.materialize.changed_spec.applied_spec import naming_topics, ordered_as
from frazil.materialize.create import initial_state, notes_of
from frazil.materialize.evolve import differences_of_newest
from frazil.materialize.group.obstacles import in_group, other_tables
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.batch import Facts, preview_batch
from frazil.materialize.preview.changes import PreviewedChanges, readable_state, schemas_of_next_batch
from frazil.materialize.run import TableRun
from frazil.materialize.schema.record_subjects import preview_columns
from frazil.materialize.sources import LatestSchemas, added_topics, describe_topics, latest_schemas
from frazil.materialize.state import Standing
from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.outputs import OutputSpec
from frazil.model.plan import BatchPlan, Halt, NothingToDo, OffsetRange, Plan, TopicFacts, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import SchemaFinding
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec_change import SpecChange
from frazil.model.spelling import plural
from frazil.model.summary import store
from frazil.outputs.standing import OutputStanding, output_standing


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the next batch does to one table. `new_columns` are those of a new table, as far as they are known.

    The notes are of every table, and the rest is of tables that exist.

    The plan is a Halt wherever `materialize` would not go on. The notes say what the columns hold less exactly than the
    writer schemas say it, which fields have none, and how the newest schema differs from the table.

    `ledger` is the first table of the group, for another table of it: the batch of both is the one that is planned
    for the ledger. Such a table has no plan, unless it is a Halt. `outputs` are those of the spec.
    """

    table: str
    plan: Plan | None
    new_columns: tuple[Column, ...] = ()
    spec_changes: tuple[SpecChange, ...] = ()
    changes: tuple[Change, ...] = ()
    findings: tuple[SchemaFinding, ...] = ()
    excluded: tuple[IncompatibleSchemaError, ...] = ()
    notes: tuple[SchemaFinding, ...] = ()
    ledger: str | None = None
    outputs: tuple[OutputStanding, ...] = ()


def explain(run: TableRun) -> Explanation:
    """Explain the next batch. Raises FrazilError if the table cannot be created or read."""
    clients, spec = run.clients, run.spec
    view = in_group(spec, clients.lake.load)
    dead_letters = clients.lake.load(spec.dead_letters_identifier)
    topics, schemas = describe_topics(clients.topics, spec), schemas_of_next_batch(clients.registry, spec, view)
    state = readable_state(spec, view)
    added = () if state is None else added_topics(clients.topics, spec, state, topics)
    if view is not None and state is not None:
        run.spec = spec = ordered_as(naming_topics(spec, state), view.properties)
    others = other_tables(spec, clients.lake.load)
    facts = Facts(spec, view, dead_letters, topics, schemas, added, others)
    preview = preview_batch(facts, batch_id=clients.new_id())
    refusal = preview.obstacle_up_to("create")
    if refusal is not None:
        raise refusal
    obstacle = preview.obstacle_up_to("plan")
    planned = preview.plan or (None if spec.ledger else _first_plan(run, topics, schemas))
    plan = planned if obstacle is None else Halt(spec.identifier, obstacle)
    outputs = tuple(_output(view if state is not None else None, each) for each in spec.outputs)
    explained = Explanation(spec.identifier, plan, ledger=spec.ledger, outputs=outputs)
    if view is None:
        return _with_columns(explained, run, preview.new_columns)
    return explained if preview.changes is None else _with_changes(explained, run, preview.changes, schemas)


def _output(view: TableView | None, output: OutputSpec) -> OutputStanding:
    return OutputStanding(output.name, output.topic) if view is None else output_standing(view, output)


def _first_plan(run: TableRun, topics: Sequence[TopicFacts], schemas: WriterSchemas) -> Plan:
    """The plan of a table that is yet to be made."""
    here = _not_made_yet(run, initial_state(run.clients.topics, run.spec, writer=run.writer))
    return plan_batch(run.spec, here, topics, schemas=schemas, batch_id=run.clients.new_id())


def _with_columns(explained: Explanation, run: TableRun, columns: tuple[Column, ...]) -> Explanation:
    latest = latest_schemas(run.clients.registry, run.spec)
    expected = preview_columns(run.clients.registry, run.spec, latest, columns)
    return replace(explained, new_columns=expected.columns, notes=(*notes_of(run.spec, latest), *expected.notes))


def _with_changes(
    explained: Explanation, run: TableRun, changes: PreviewedChanges, schemas: WriterSchemas
) -> Explanation:
    return replace(
        explained,
        spec_changes=changes.spec_changes,
        changes=changes.evolution.changes,
        findings=changes.evolution.findings,
        excluded=changes.excluded,
        notes=_notes(run, changes, schemas),
    )


def _notes(run: TableRun, changes: PreviewedChanges, schemas: WriterSchemas) -> tuple[SchemaFinding, ...]:
    if changes.refusals:
        return ()
    notes = notes_of(run.spec, LatestSchemas.of(schemas))
    newest = latest_schemas(run.clients.registry, run.spec).values
    latest = LatestSchemas(tuple(schema for schema in newest if schema.id in schemas.values), ())
    former_names = changes.evolution.former_names
    return notes + differences_of_newest(run.spec, changes.columns, former_names, latest)


def _not_made_yet(run: TableRun, state: TableState) -> Standing:
    """Return the standing of a table that is yet to be created."""
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
        sort_fields=run.spec.sort_by,
        current=None,
    )
    return Standing(view, state, snapshot, (), rolled_back=False)


def lines(explanation: Explanation) -> Iterator[str]:
    """An explanation for people. An error that halts the table is only named: the command prints it at the end."""
    yield explanation.table
    for column in explanation.new_columns:
        yield f"  new table: {column.name}: {column.described}"
    for difference in explanation.spec_changes:
        yield f"  spec: {difference}"
    for change in explanation.changes:
        yield f"  {change}"
    for finding in dict.fromkeys(explanation.findings):  # several schemas may have the same one
        yield f"  refused: {finding}"
    for refused in explanation.excluded:
        yield f"  dead letters: {refused.what.removeprefix(f'{explanation.table}: ')}"
    for note in explanation.notes:
        yield f"  note: {note}"
    yield from _next(explanation)
    for output in explanation.outputs:
        yield f"  {output}"


def _next(explanation: Explanation) -> Iterator[str]:
    match explanation.plan:
        case Halt(_, error):
            yield f"  halt: {type(error).__name__}"
        case None:
            yield f"  read together with {explanation.ledger}"
        case NothingToDo(_, state):
            made = plural(state.accounted.rows, "record")
            yield f"  nothing to do: read to the end of every partition, rows made of {made}"
        case BatchPlan():
            yield from _plan_lines(explanation.plan, new=bool(explanation.new_columns))
        case never:
            assert_never(never)


def _plan_lines(plan: BatchPlan, *, new: bool) -> Iterator[str]:
    yield f"  epoch {plan.epoch}: {plural(plan.offsets, 'offset')} of {plural(len(plan.ranges), 'partition')}"
    for source in plan.state.sources:
        if source.topic in plan.begins:
            begins = ", ".join(f"{n} at {p.next}" for n, p in sorted(source.partitions.items()))
            yield f"    {source.topic} is added to the table; its partitions begin: {begins}"
    for each in sorted(plan.ranges, key=lambda r: (r.topic, r.partition)):
        yield f"    {each.topic}-{each.partition}: [{each.start}, {each.end}){_left(each)}"
    base = "the new table's first snapshot" if new else f"snapshot {plan.base_snapshot_id}"
    schemas = f"; writer schemas {sorted(plan.schemas.values)}" if plan.schemas.values else ""
    yield f"  on {base}{schemas}"


def _left(each: OffsetRange) -> str:
    left = each.partition_end - each.end
    return f", {left:,} left for the next batch" if left else ""
