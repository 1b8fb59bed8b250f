"""The columns that a table must have for a writer schema or for its spec, and the changes that it needs for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from frazil.materialize.layout import (
    identity_findings,
    impossible_columns,
    metadata_columns,
    name_clashes,
    newly_unreadable,
    order_findings,
    partition_columns,
)
from frazil.materialize.schema.columns_of import map_given, map_key, map_record
from frazil.materialize.schema.compare import Evolution, aliases_of, applied, compare, refusal
from frazil.materialize.schema.former_names import FormerNames, ordered_by_present_name, present_path
from frazil.materialize.schema.notices import notes_of_keys, notes_of_values
from frazil.materialize.schema.strictness import StrictFinding
from frazil.materialize.schema.succession import (
    NONE_ACCEPTED,
    Accepted,
    OtherMessage,
    other_message,
    refused_if_strict,
    shared_columns,
)
from frazil.model.changes import AddColumn
from frazil.model.columns import Column, Struct
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.identity_columns import column_at
from frazil.model.schemas import RegisteredSchema, SchemaFinding, SchemaId
from frazil.model.spec import OnIncompatibleSchema, TableSpec
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.validity import NAMES as VALIDITY

LACKS_ORDER = "is missing, and orders the records of a key"


@dataclass(frozen=True, slots=True)
class RequiredColumns:
    """Columns that the table has to hold. `schema_id` is None for those that the spec asks for.

    The record's own columns and those about it are compared apart, so that no alias leads from one to the other.
    """

    columns: tuple[Column, ...]
    schema_id: SchemaId | None
    of_record: bool
    notes: tuple[SchemaFinding, ...] = ()
    held: bool = False
    """Whether the table had these columns before: another writer has changed them since, or the spec has changed."""
    other_message: OtherMessage | None = None
    if_strict: tuple[StrictFinding, ...] = ()
    shared: tuple[SchemaFinding, ...] = ()
    """The columns that other fields of accepted schemas have."""
    findings: tuple[SchemaFinding, ...] = ()
    """Why no table can hold them. The columns are those that could be mapped, to find what else is wrong."""
    of_several_topics: bool = False
    """Whether the table has rows of several topics, each of which names its own."""

    @property
    def of_key(self) -> bool:
        return self.schema_id is not None and not self.of_record

    def on_incompatible(self, spec: TableSpec) -> OnIncompatibleSchema:
        """Return what is done about a field of another type: keys, and columns of the spec, get no second column."""
        return spec.on_incompatible_schema if self.of_record and self.schema_id is not None else "pause"

    def refused(
        self, spec: TableSpec, findings: tuple[SchemaFinding, ...], former_names: FormerNames
    ) -> IncompatibleSchemaError:
        """Return why the table cannot hold these columns. The spec may name its columns by their `former_names`.

        Records of a schema that no table can hold are never rows, whatever else is wrong: dead letters lose none.
        """
        error = refusal(spec.identifier, self.schema_id, findings, of_key=self.of_key, held=self.held)
        if self.other_message is None:
            pauses = not self.findings and self._decide(spec, findings, former_names)
            return self._pausing(spec, error.what, findings) if pauses else error
        setting = f"`{'key_message' if self.of_key else 'message'}: {self.other_message.of_table}`"
        hint = f"set {setting} in {spec.source_file} to keep these rows, then run `frazil resume {spec.identifier}`"
        return IncompatibleSchemaError(
            error.what, hint=hint, schema_id=self.schema_id, of_key=self.of_key, findings=findings, always_pauses=True
        )

    def _decide(self, spec: TableSpec, findings: tuple[SchemaFinding, ...], former_names: FormerNames) -> bool:
        """Return whether one of these is about a deciding column, about what is in it, or about what it is in.

        A field that has such a column's name as an alias would be that column.
        """
        named = set(_deciding(spec))
        own = aliases_of(self.columns)
        would_be = (column_at(path, self.columns, own) for path in named)
        paths = named | {present_path(path, former_names) for path in named} | {each[0] for each in would_be if each}
        return any(
            f"{path}.".startswith(f"{found.path}.") or found.path.startswith(f"{path}.")
            for found in findings
            for path in paths
        )

    def _pausing(self, spec: TableSpec, what: str, findings: tuple[SchemaFinding, ...]) -> IncompatibleSchemaError:
        """Return the error of a schema whose records no setting makes dead letters: each could be a row."""
        hint = (
            f"{', '.join(_deciding(spec))}: which record is the row of its key, or its partition, depends on it:"
            f" register a schema with its former type{_with_alias(spec, findings)}, or materialize into another"
            f" `table`; then `frazil resume {spec.identifier}`"
        )
        return IncompatibleSchemaError(
            what, hint=hint, schema_id=self.schema_id, of_key=self.of_key, findings=findings, always_pauses=True
        )


def _deciding(spec: TableSpec) -> tuple[str, ...]:
    """Return the columns that say which record is the row of its identity, and in which partition it is.

    An append table has no identities: what its records say of partitions concerns no row but their own.
    """
    partitions = sorted(partition_columns(spec)) if spec.follows_keys else ()
    return tuple(dict.fromkeys((*spec.identity, *spec.order, *partitions)))


def _with_alias(spec: TableSpec, findings: tuple[SchemaFinding, ...]) -> str:
    """Return how a renamed field is found, if one may have been renamed.

    The table may not have met a version between that declares the rename.
    """
    missing = [each.path for each in findings if each.problem == LACKS_ORDER]
    if not missing or spec.value_type != "AVRO":
        return ""
    return (
        f" (if {', '.join(missing)} has a new name, that field needs the former one as an alias, also if an earlier"
        " version has it)"
    )


def of_spec(spec: TableSpec, *, has_several_topics: bool) -> Iterator[RequiredColumns]:
    """Yield the columns about the record, and those of values without registered schemas."""
    yield RequiredColumns(metadata_columns(spec, None), None, of_record=False, of_several_topics=has_several_topics)
    of_values = map_given(spec)
    if of_values.columns:
        yield RequiredColumns(of_values.columns, None, of_record=True, findings=of_values.findings)


def of_values(spec: TableSpec, schema: RegisteredSchema, accepted: Accepted = NONE_ACCEPTED) -> RequiredColumns:
    found = map_record(spec, schema)
    return RequiredColumns(
        found.columns,
        schema.id,
        of_record=True,
        findings=found.findings,
        notes=notes_of_values(spec, schema),
        held=schema.id in accepted.stored,
        other_message=other_message(spec, schema, accepted, of_key=False),
        if_strict=refused_if_strict(spec, schema, accepted, of_key=False),
        shared=shared_columns(spec, schema, accepted, of_key=False),
    )


def of_keys(spec: TableSpec, schema: RegisteredSchema, accepted: Accepted = NONE_ACCEPTED) -> RequiredColumns:
    found = map_key(spec, schema)
    return RequiredColumns(
        found.columns,
        schema.id,
        of_record=False,
        findings=found.findings,
        notes=notes_of_keys(spec, schema),
        held=schema.id in accepted.stored,
        other_message=other_message(spec, schema, accepted, of_key=True),
        if_strict=refused_if_strict(spec, schema, accepted, of_key=True),
        shared=shared_columns(spec, schema, accepted, of_key=True),
    )


def required_by(
    spec: TableSpec, schema: RegisteredSchema, accepted: Accepted = NONE_ACCEPTED, *, of_key: bool
) -> RequiredColumns:
    """Return the columns that records with this writer schema, as that of their values or of their keys, require.

    Raises IncompatibleSchemaError if there is nothing to judge (`map_record`).
    """
    return of_keys(spec, schema, accepted) if of_key else of_values(spec, schema, accepted)


def _identity_findings(spec: TableSpec, wanted: RequiredColumns, evolution: Evolution) -> Iterator[SchemaFinding]:
    """Yield the changes after which a table that follows keys would not find the rows that it has."""
    if not spec.follows_keys:
        return
    dropped = _never_new(spec, wanted)
    yield from identity_findings(spec, wanted.columns, evolution.former_names)
    for change in evolution.changes:
        if not isinstance(change, AddColumn):
            continue
        if any(change.path.startswith(f"{path}.") for path in spec.identity_paths):
            what = f"is new in the {'identity' if spec.identity else 'key'}, and would change the identity of every row"
            yield SchemaFinding(change.path, what)
        if any(f"{path}.".startswith(f"{change.path}.") for path in spec.identity):
            yield SchemaFinding(change.path, "is a part of the identity, and the rows before have no value in it")
        if change.path in dropped:
            yield SchemaFinding(
                change.path, f"was dropped by another tool: the rows before have no {dropped[change.path]} any more"
            )


def _never_new(spec: TableSpec, wanted: RequiredColumns) -> dict[str, str]:
    """Return what rows lack where such a column is new: a batch would not find them, or take them for others."""
    topic = ["topic"] * wanted.of_several_topics
    names = [spec.metadata.prefix + name for name in (*topic, "partition", "offset")]
    missing = dict.fromkeys((FIRST, SECOND), "identity") | dict.fromkeys(VALIDITY, "interval")
    order = {} if spec.orders_by_field else dict.fromkeys(spec.order, "order")
    return missing | dict.fromkeys(names, "source") | order


def _order_findings(
    spec: TableSpec, wanted: RequiredColumns, evolution: Evolution, have: tuple[Column, ...]
) -> Iterator[SchemaFinding]:
    """Yield why records have no order any more in a table whose values or keys order them, and that has `have`."""
    is_other_event = spec.cdc != "none" and not wanted.columns
    has_key = any(column.name == f"{spec.metadata.prefix}key" for column in wanted.columns)
    orders = spec.orders_by_value if wanted.of_record else spec.orders_by_key and has_key
    if not orders or is_other_event:
        return
    added = {change.path for change in evolution.changes if isinstance(change, AddColumn)}
    for path in spec.order:
        column = _of_writer(path, wanted.columns, evolution.former_names)
        if column is None:
            yield SchemaFinding(path, LACKS_ORDER)
        elif path == spec.order_by:
            yield from order_findings(spec, path, column)
        # with cdc, a new table waits for the columns of its records
        if any(f"{path}.".startswith(f"{each}.") for each in added) and (have or spec.cdc == "none"):
            yield SchemaFinding(path, "was dropped by another tool: the rows before have no order any more")


def _of_writer(path: str, columns: tuple[Column, ...], former_names: FormerNames) -> Column | None:
    """Return the column of a writer's schema that is the table's at a path, or None. It may have a former name."""
    here, found = "", None
    for name in path.split("."):
        here = f"{here}.{name}" if here else name
        by_name = {column.name: column for column in columns}
        found = next((by_name[each] for each in (name, *former_names.get(here, ())) if each in by_name), None)
        if found is None:
            return None
        columns = found.type.columns if isinstance(found.type, Struct) else ()
    return found


def needed(
    spec: TableSpec,
    wanted: RequiredColumns,
    columns: tuple[Column, ...],
    former_names: FormerNames,
    partition_names: frozenset[str],
) -> Evolution:
    """Return the changes that a table with these columns needs to hold the wanted ones, and every finding."""
    about = {finding.path for finding in name_clashes(columns, spec)}
    have = tuple(each for each in columns if (each.name in about) is not wanted.of_record)
    evolution = compare(wanted.columns, have, former_names, wanted.on_incompatible(spec))
    clashes = name_clashes(wanted.columns, spec) if wanted.of_record else ()
    changed = applied(have, evolution.changes)
    after = {column.name for column in changed}
    taken = tuple(
        SchemaFinding(n, "a partition field has this name, now or earlier") for n in sorted(after & partition_names)
    )
    found = () if wanted.other_message is None else (wanted.other_message.finding,)
    added = {change.path for change in evolution.changes if isinstance(change, AddColumn)}
    present = {path: names for path, names in evolution.former_names.items() if path not in added}
    ordered = ordered_by_present_name(spec, present)
    keyed = (*_identity_findings(spec, wanted, evolution), *_order_findings(ordered, wanted, evolution, have))
    impossible = impossible_columns(spec, changed, evolution.changes, present)
    unable = (*keyed, *impossible, *newly_unreadable(have, changed, spec))
    types = {each.path for each in evolution.findings}
    strict = (each.finding for each in wanted.if_strict if not each.of_type or each.path not in types)
    beside = (*wanted.shared, *strict, *clashes, *taken, *unable)
    return replace(evolution, findings=(*wanted.findings, *found, *evolution.findings, *beside))
