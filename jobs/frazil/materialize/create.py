"""Tables that are missing, made from the registry's latest schemas, with the state to begin from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from frazil.formats.mapped import Mapped
from frazil.materialize.changed_spec.applied_spec import applied_by, spec_property
from frazil.materialize.clients import Step
from frazil.materialize.dead_letter_checks import check_dead_letters
from frazil.materialize.layout import (
    TABLE_PROPERTIES,
    delta_problems,
    identity_problems,
    impossible_columns,
    metadata_columns,
    name_clashes,
    newly_unreadable,
    order_problems,
    partition_problems,
    retention_problems,
    sort_problems,
    z_order_problems,
)
from frazil.materialize.schema.columns_of import (
    are_of_rows,
    given_columns,
    map_key,
    map_record,
    unmatched_policies,
)
from frazil.materialize.schema.compare import aliases_of, applied, compare, refusal
from frazil.materialize.schema.former_names import FormerNames, former_names_of, former_names_property
from frazil.materialize.schema.notices import left_out_property, notes_of_keys, notes_of_values
from frazil.materialize.schema.required import required_findings
from frazil.materialize.sources import LatestSchemas, at_first_offsets, describe_topics, latest_schemas
from frazil.materialize.state import CHECKPOINT_TAG, check_format, standing
from frazil.model.columns import Column
from frazil.model.errors import (
    CommitRejectedError,
    ForeignTableError,
    FrazilError,
    IncompatibleSchemaError,
    SpecError,
    StateLostError,
)
from frazil.model.masked import masked_property
from frazil.model.partitioning import partition_field
from frazil.model.plan import TopicFacts
from frazil.model.progress import ForeignChanges, TableState
from frazil.model.reader_rules import refused_columns, refused_partition_source
from frazil.model.schemas import RegisteredSchema, SchemaFinding, listed_findings
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import StartOffsets, TableSpec
from frazil.model.summary import store
from frazil.model.unions import UNIONS_PROPERTY, marked_like, unions_property
from frazil.ports import Lake, SchemaRegistry, Topics

NOT_MADE = (
    "register a compatible schema: the table is created from the newest one. Records with this schema pause"
    " the table when they are read, and can become dead letters then"
)
"""The way out where no table can be made: there is none yet that could be resumed."""
NO_CHANGE_EVENTS = SchemaFinding("", "not a change event of Debezium: it lacks the fields op and after")


def _as_the_spec_says() -> None:
    return None


def ensure_table(
    lake: Lake,
    topics: Topics,
    registry: SchemaRegistry,
    spec: TableSpec,
    *,
    new_writer: str,
    adopt: bool,
    begin: Callable[[], TableState | None] = _as_the_spec_says,
) -> TableView:
    """The spec's table with a state in its ancestry, made if it is not there.

    `begin` is asked for the state of a new table; None is that of the spec's `start`.

    Raises ForeignTableError where the table exists without one, unless it is to be adopted, and FormatVersionError.
    """
    view = lake.load(spec.identifier)
    if view is None:
        state = begin()
        return _create(lake, spec, new_table(lake, topics, registry, spec, writer=new_writer), state)
    try:
        standing(view, pipeline=spec.pipeline)
    except ForeignTableError:
        if not adopt:
            raise
        latest, state = latest_schemas(registry, spec), begin() or initial_state(topics, spec, writer=new_writer)
        return _adopt(lake, spec, view, latest, state)
    check_format(view)
    return view


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that can be created, because no problem was found."""

    columns: tuple[Column, ...]
    former_names: FormerNames
    state: TableState
    notes: tuple[SchemaFinding, ...] = ()


PROBLEMS_OF_COLUMNS = (
    partition_problems,
    sort_problems,
    z_order_problems,
    retention_problems,
    delta_problems,
)
"""What is asked about the columns of a new table."""


def new_table(lake: Lake, topics: Topics, registry: SchemaRegistry, spec: TableSpec, *, writer: str) -> NewTable:
    """Decide what to make. Raises the first problem that there is: nothing is made where anything is wrong."""
    latest = latest_schemas(registry, spec)
    columns, former_names = made = initial_columns(spec, latest)
    facts, dead_letters = describe_topics(topics, spec), lake.load(spec.dead_letters_identifier)
    for _, problem in problems_of_new_table(spec, made, facts, dead_letters):
        raise problem
    return NewTable(columns, former_names, initial_state(topics, spec, writer=writer), notes_of(spec, latest))


def problems_of_new_table(
    spec: TableSpec,
    made: tuple[tuple[Column, ...], FormerNames] | None,
    topics: Sequence[TopicFacts],
    dead_letters: TableView | None,
) -> Iterator[tuple[Step, FrazilError]]:
    """Yield why the table cannot be made, with the step that refuses it, in the order of the steps.

    `made` is what `initial_columns` returns, or None if it is not known.
    """
    if made is not None:
        columns, former_names = made
        for find in PROBLEMS_OF_COLUMNS:
            yield from (("create", problem) for problem in find(spec, columns))
        for problem in (*identity_problems(spec, columns, former_names), *order_problems(spec, columns, former_names)):
            yield "create", problem
    for problem in start_problems(spec, topics):
        yield "create", problem
    try:
        check_dead_letters(dead_letters, spec, None)
    except FrazilError as refusal_of_dead_letters:
        yield "create_dead_letters", refusal_of_dead_letters


def notes_of(spec: TableSpec, latest: LatestSchemas) -> tuple[SchemaFinding, ...]:
    """Return notes on the types that the table stores less exactly than these schemas."""
    values = (note for schema in latest.values for note in notes_of_values(spec, schema))
    keys = (note for schema in latest.keys for note in notes_of_keys(spec, schema))
    return tuple(dict.fromkeys((*values, *keys)))


def _create(lake: Lake, spec: TableSpec, new: NewTable, state: TableState | None) -> TableView:
    properties = {
        **TABLE_PROPERTIES,
        "write.target-file-size-bytes": str(spec.maintain.target_file_bytes),
        **former_names_property(new.former_names),
        **unions_property(new.columns),
        **masked_property(new.columns),
        **spec_property(applied_by(spec)),
        **left_out_property({}, new.notes, new.columns),
    }
    stored = store(state or new.state)
    try:
        return lake.create(
            spec.identifier,
            new.columns,
            partition_by=spec.partition_by,
            sort_by=spec.sort_by,
            properties=properties,
            summary=stored.summary,
            document=stored.document,
            tag=CHECKPOINT_TAG,
        )
    except CommitRejectedError:
        made = lake.load(spec.identifier)
        if made is None:
            raise StateLostError(
                f"another process created and dropped the table {spec.identifier} during this run",
                hint="run `frazil materialize` again",
            ) from None
        return made


def _adopt(lake: Lake, spec: TableSpec, view: TableView, latest: LatestSchemas, state: TableState) -> TableView:
    """Adopt an existing table: write an initial state to it. Its rows count as foreign and stay unchanged."""
    findings = adoption_findings(spec, view, latest)
    if findings:
        raise IncompatibleSchemaError(
            f"{spec.identifier}: the table cannot be adopted, {listed_findings(findings)}",
            hint="change the table's columns, or materialize into another `table`; nothing was changed",
        )
    for problem in delta_problems(spec, view.columns):
        raise problem
    if spec.follows_keys:
        raise SpecError(
            f"{spec.identifier}: a table with write: {spec.write} cannot be adopted, because its rows have no identity",
            hint="materialize into another `table`",
        )
    check_dead_letters(lake.load(spec.dead_letters_identifier), spec, None)
    unions = unions_property(_with_unions(view, initial_columns(spec, latest)[0]))
    if unions:
        lake.set_properties(spec.identifier, put=unions)
    head = view.head_snapshot()
    stored = store(state.with_foreign(_already_there(head) if head else ForeignChanges()))
    lake.begin(view, stored.summary, document=stored.document, tag=CHECKPOINT_TAG)
    adopted = lake.load(spec.identifier)
    assert adopted is not None  # noqa: S101 - it was committed to a moment ago
    return adopted


def _already_there(head: Snapshot) -> ForeignChanges:
    """Return the rows of an adopted table, deleted ones included, as another writer's: none has a source."""
    return ForeignChanges(1, head.live_rows, names=(head.name,), unsourced_added=head.figure("total-records"))


def adoption_findings(spec: TableSpec, view: TableView, latest: LatestSchemas) -> tuple[SchemaFinding, ...]:
    """Return why Frazil cannot adopt a table that another tool created."""
    columns, _ = initial_columns(spec, latest)
    evolution = compare(columns, _with_unions(view, columns), former_names_of(view.properties))
    findings = evolution.findings + required_findings(spec, view.schema_json) + _of_readers(spec, view)
    if view.format_version == 2:
        return findings
    return (*findings, SchemaFinding("", f"the table has Iceberg format version {view.format_version}, expected 2"))


def _of_readers(spec: TableSpec, view: TableView) -> tuple[SchemaFinding, ...]:
    """Return what the declared readers cannot read of an existing table: its columns and its partition fields."""
    sources = (partition_field(text).column for text in view.partition_fields)
    found = ((column, refused_partition_source(spec.readers, column)) for column in sources)
    fields = tuple(SchemaFinding(column, problem) for column, problem in found if problem is not None)
    return refused_columns(spec.readers, view.columns) + fields


def _with_unions(view: TableView, wanted: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of an adopted table with unions marked, which only the wanted columns reveal."""
    return view.columns if UNIONS_PROPERTY in view.properties else marked_like(view.columns, wanted)


def initial_columns(spec: TableSpec, latest: LatestSchemas) -> tuple[tuple[Column, ...], FormerNames]:
    """The columns that hold what all latest schemas write, then those about the record; and their former names.

    Raises IncompatibleSchemaError with every finding of the first schema that does not fit, and SpecError for a policy
    of a column that no schema has.
    """
    try:
        found = _initial_columns(spec, latest)
        _check_policies(spec, latest)
    except IncompatibleSchemaError as refused:
        of_policies = f"if a finding is about a policy, correct it in {spec.source_file}; otherwise " * bool(
            spec.policies
        )
        raise IncompatibleSchemaError(
            refused.what,
            hint=f"{of_policies}{NOT_MADE}",
            schema_id=refused.schema_id,
            of_key=refused.of_key,
            findings=refused.findings,
        ) from refused
    return found


def _check_policies(spec: TableSpec, latest: LatestSchemas) -> None:
    unmatched = unmatched_policies(spec, latest.values, latest.keys)
    if unmatched:
        raise SpecError(
            f"{spec.identifier}: columns: no schema has {', '.join(unmatched)}, so the policy would mask nothing",
            hint=f"correct the path in {spec.source_file}: dots between names, [] for items, {{}} for values of a map;"
            " if an older or a later schema has it, add `may_be_missing: true` to its policy",
        )


def _initial_columns(spec: TableSpec, latest: LatestSchemas) -> tuple[tuple[Column, ...], FormerNames]:
    values = [(schema, map_record(spec, schema)) for schema in latest.values]
    record, former_names = _merged(spec, values) if values else (_given(spec), {})
    if spec.cdc != "none" and values and not record and any(are_of_rows(spec, each) for each in latest.values):
        raise refusal(spec.identifier, latest.values[0].id, (NO_CHANGE_EVENTS,))
    keys, _ = _merged(spec, [(schema, map_key(spec, schema)) for schema in latest.keys], of_key=True)
    metadata = metadata_columns(spec, keys[0] if keys else None)
    return record + metadata, {**former_names, **aliases_of(metadata)}


def _merged(
    spec: TableSpec, schemas: Sequence[tuple[RegisteredSchema, Mapped]], *, of_key: bool = False
) -> tuple[tuple[Column, ...], FormerNames]:
    """Merge the schemas in turn, as if each came to a table with the columns of the previous ones."""
    columns: tuple[Column, ...] = ()
    former_names: FormerNames = {}
    for schema, wanted in schemas:
        evolution = compare(wanted.columns, columns, former_names, "pause" if of_key else spec.on_incompatible_schema)
        after = applied(columns, evolution.changes)
        clashes = () if of_key else name_clashes(wanted.columns, spec)
        unable = clashes + impossible_columns(spec, after, evolution.changes) + newly_unreadable(columns, after, spec)
        findings = wanted.findings + evolution.findings + unable
        if findings:
            raise refusal(spec.identifier, schema.id, findings, of_key=of_key)
        columns, former_names = after, evolution.former_names
    return columns, former_names


def _given(spec: TableSpec) -> tuple[Column, ...]:
    columns = given_columns(spec)
    findings = name_clashes(columns, spec) + newly_unreadable((), columns, spec)
    if findings:
        raise refusal(spec.identifier, None, findings)
    return columns


def initial_state(topics: Topics, spec: TableSpec, *, writer: str) -> TableState:
    """Return the state of epoch 0: the first offset of each partition, as the spec's `start` says.

    Raises BrokerError if the broker does not answer, and TopicMissingError if a topic does not exist.
    """
    sources = tuple(at_first_offsets(topics, spec, facts) for facts in describe_topics(topics, spec))
    return TableState(pipeline=spec.pipeline.name, epoch=0, writer=writer, batch_id="", sources=sources)


def start_problems(spec: TableSpec, topics: Sequence[TopicFacts]) -> tuple[SpecError, ...]:
    """Return an error for each partition or offset in `start` that the topic does not have."""
    if not isinstance(spec.start, StartOffsets):
        return ()
    asked = ((facts, number, offset) for facts in topics for number, offset in sorted(spec.start.offsets.items()))
    found = (_start_problem(spec, facts, number, offset) for facts, number, offset in asked)
    return tuple(problem for problem in found if problem is not None)


def _start_problem(spec: TableSpec, facts: TopicFacts, number: int, offset: int) -> SpecError | None:
    partition = facts.partitions.get(number)
    if partition is not None and partition.earliest <= offset <= partition.end:
        return None
    there = (
        f"which has the partitions {', '.join(map(str, sorted(facts.partitions)))}"
        if partition is None
        else f"which has the offsets {partition.earliest} to {partition.end}"
    )
    return SpecError(
        f"{spec.identifier}: `start` names offset {offset} of {facts.topic}-{number}, {there}",
        hint=f"fix `start` in {spec.source_file}",
    )
