"""What a writer schema would change in a table, before any record has it. Nothing is changed or registered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from frazil.delta.expressible import inexpressible
from frazil.formats.open import record_names
from frazil.materialize.changed_spec.applied_spec import ever_kept
from frazil.materialize.create import initial_columns
from frazil.materialize.evolve import differences_of_newest
from frazil.materialize.preview.changes import preview_changes, schemas_of_next_batch
from frazil.materialize.schema.compare import applied
from frazil.materialize.schema.former_names import FormerNames
from frazil.materialize.schema.requirements import needed, required_by
from frazil.materialize.schema.routed import schema_of_route, takes
from frazil.materialize.schema.succession import Accepted
from frazil.materialize.sources import LatestSchemas, latest_schemas
from frazil.materialize.state import standing
from frazil.model.changes import AddColumn, Change, DropColumn, RenameColumn, WidenType
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, IncompatibleSchemaError, SubjectMissingError
from frazil.model.plan import WriterSchemas
from frazil.model.schemas import RegisteredSchema, SchemaFinding, unsafe_change
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry

HINT = "change the schema before a producer uses it: docs/operate.md, An incompatible schema"


@dataclass(frozen=True, slots=True)
class ReaderView:
    """What some of the table's readers see once a record has the schema."""

    readers: tuple[str, ...]
    sees: str


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """The result. `pending` are changes that the registered schemas cause first, and `obstacles` what stops the table
    without the schema. If there are `findings`, the schema is refused and changes nothing.
    """

    table: str
    exists: bool
    pending: tuple[Change, ...]
    obstacles: tuple[FrazilError, ...]
    if_refused: str = "the table would pause at the first record with this schema"
    changes: tuple[Change, ...] = ()
    findings: tuple[SchemaFinding, ...] = ()
    notes: tuple[SchemaFinding, ...] = ()
    readers: tuple[ReaderView, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "table": self.table,
            "exists": self.exists,
            "refused": bool(self.findings),
            "if_refused": self.if_refused if self.findings else None,
            "changes": list(map(_change_to_json, self.changes)),
            "findings": list(map(asdict, self.findings)),
            "notes": list(map(asdict, self.notes)),
            "readers": [{"readers": list(each.readers), "sees": each.sees} for each in self.readers],
            "without_this_schema": {
                "changes": list(map(_change_to_json, self.pending)),
                "obstacles": [{"error": type(each).__name__, "what": each.what} for each in self.obstacles],
            },
        }

    def refusal(self, called: str) -> IncompatibleSchemaError | None:
        """Return the error if the schema, which messages call so, is refused."""
        if not self.findings:
            return None
        what = unsafe_change(self.table, called, self.findings)
        return IncompatibleSchemaError(what, hint=HINT, findings=self.findings)


def _change_to_json(change: Change) -> dict[str, str | None]:
    match change:
        case AddColumn(path, column_type, doc, mask, beside):
            more = {name: text for name, text in (("mask", mask), ("beside", beside)) if text}
            return {"change": "add", "path": path, "type": str(column_type), "doc": doc, **more}
        case WidenType(path, from_type, to_type):
            return {"change": "widen", "path": path, "from_type": str(from_type), "type": str(to_type)}
        case RenameColumn(path, new_name, mask):
            return {"change": "rename", "path": path, "new_name": new_name, **({"mask": mask} if mask else {})}
        case DropColumn(path):
            return {"change": "drop", "path": path}


@dataclass(frozen=True, slots=True)
class _Base:
    """The table as the registered schemas make it. `names` is the spec with all metadata columns that it ever had."""

    names: TableSpec
    columns: tuple[Column, ...]
    former_names: FormerNames
    partition_names: frozenset[str] = frozenset()
    schemas: WriterSchemas = field(default_factory=lambda: WriterSchemas({}, {}))
    pending: tuple[Change, ...] = ()
    obstacles: tuple[FrazilError, ...] = ()


def plan_schema(
    lake: Lake, registry: SchemaRegistry, spec: TableSpec, schema: RegisteredSchema, *, of_key: bool
) -> SchemaPlan:
    """Compare a schema with the table as it is once the registered schemas have been absorbed.

    Raises what `load` and the registry raise, and TableError if the table's state cannot be read.
    """
    view = lake.load(spec.identifier)
    base = _new_table(registry, spec) if view is None else _table(registry, spec, view)
    plan = SchemaPlan(spec.identifier, view is not None, base.pending, base.obstacles)
    if spec.on_incompatible_schema == "dead_letter":
        plan = replace(plan, if_refused="all records with this schema would become dead letters")
    if not of_key and not takes(spec, schema):
        return replace(plan, notes=(SchemaFinding("", _not_taken(spec, schema)),))
    beside = base.schemas.keys if of_key else base.schemas.values
    try:
        wanted = required_by(spec, schema, Accepted.of(beside.values(), beside.keys()), of_key=of_key)
    except IncompatibleSchemaError as no_columns:
        return replace(plan, findings=no_columns.findings)
    evolution = needed(base.names, wanted, base.columns, base.former_names, base.partition_names)
    after = applied(base.columns, evolution.changes)
    findings = evolution.findings + _new_in_delta(spec, base.columns, after)
    if findings:
        return replace(plan, findings=findings)
    candidate = LatestSchemas((), ()) if of_key else LatestSchemas((schema,), ())
    notes = wanted.notes + differences_of_newest(spec, after, evolution.former_names, candidate)
    readers = tuple(_reader_views(spec, evolution.changes, exists=view is not None))
    return replace(plan, changes=evolution.changes, notes=notes, readers=readers)


def _not_taken(spec: TableSpec, schema: RegisteredSchema) -> str:
    found = ", ".join(sorted(record_names(schema))) or "a schema without a name"
    return f"the table's route takes records of {schema_of_route(spec)}, and the schema is {found}"


def _new_table(registry: SchemaRegistry, spec: TableSpec) -> _Base:
    """A table that is yet to be made from the newest schemas; without record columns if nothing is registered yet."""
    try:
        latest = latest_schemas(registry, spec)
    except SubjectMissingError:
        latest = LatestSchemas((), ())
    return _Base(spec, *initial_columns(spec, latest), schemas=latest.by_id())


def _table(registry: SchemaRegistry, spec: TableSpec, view: TableView) -> _Base:
    state = standing(view, pipeline=spec.pipeline).state
    schemas = schemas_of_next_batch(registry, spec, view)
    preview = preview_changes(spec, view, schemas, state)
    return _Base(
        names=ever_kept(spec, view.properties),
        columns=preview.columns,
        former_names=preview.evolution.former_names,
        partition_names=view.partition_names,
        schemas=schemas,
        pending=preview.evolution.changes,
        obstacles=preview.refusals,
    )


def _new_in_delta(spec: TableSpec, before: tuple[Column, ...], after: tuple[Column, ...]) -> tuple[SchemaFinding, ...]:
    """Return the columns that the Delta log beside the table, if it has one, could not represent any more."""
    if "delta" not in spec.formats:
        return ()
    known = {each.path for each in inexpressible(before)}
    return tuple(SchemaFinding(each.path, each.problem) for each in inexpressible(after) if each.path not in known)


def _reader_views(spec: TableSpec, changes: Sequence[Change], *, exists: bool) -> Iterator[ReaderView]:
    if spec.readers:
        yield ReaderView(spec.readers, "; ".join(_seen(changes)) or "no change")
    if "delta" in spec.formats:
        waits = exists and any(not isinstance(change, AddColumn) for change in changes)
        later = "no new rows until the files that the table has now are compacted, then "
        yield ReaderView(("delta",), (later if waits else "") + ("; ".join(_seen(changes)) or "no change"))


def _seen(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        match change:
            case AddColumn(path, column_type):
                yield f"{path} as {column_type}, null in existing rows"
            case WidenType(path, _, to_type):
                yield f"{path} as {to_type} in all rows"
            case RenameColumn(path, new_name):
                yield f"{path} only under the name {new_name}"
            case DropColumn(path):
                yield f"{path} no more"


def lines(plan: SchemaPlan) -> Iterator[str]:
    """A plan for people. The refusal is left out: the command prints it at the end."""
    yield plan.table + ("" if plan.exists else " (does not exist yet)")
    for obstacle in plan.obstacles:
        yield f"  without this schema: halt: {type(obstacle).__name__}: {obstacle.what.splitlines()[0]}"
    for change in plan.pending:
        yield f"  without this schema: {change}"
    for change in plan.changes:
        yield f"  {change}"
    if not plan.changes and not plan.findings:
        yield "  no change of the table"
    for note in plan.notes:
        yield f"  note: {note}"
    for view in plan.readers:
        yield f"  {', '.join(view.readers)}: {view.sees}"
    if plan.findings:
        yield f"  refused: {plan.if_refused}, and its readers see no change"
