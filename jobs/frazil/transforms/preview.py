"""What the next batch of a transformation would do, and what would prevent it: no row is read, nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.adapters.iceberg.types import to_partition_spec, to_schema, to_sort_order
from frazil.materialize.layout import Z_ORDER
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, SpecError, TransformHaltedError
from frazil.model.snapshot import TableView
from frazil.model.spelling import plural
from frazil.model.transforms import TransformSpec
from frazil.outputs.standing import OutputStanding, output_standing
from frazil.transforms.fit import changes_for
from frazil.transforms.queries import Query
from frazil.transforms.query import lineage
from frazil.transforms.run import Transformation
from frazil.transforms.send import outputs_by
from frazil.transforms.sources import kind_of
from frazil.transforms.tables import TableRows
from frazil.transforms.unread import Unread, check_kept, current_state, unread
from frazil.transforms.widened import check_values_kept


@dataclass(frozen=True, slots=True)
class Preview:
    """The query of a transformation, and what its next batch reads."""

    spec: TransformSpec
    query: Query
    news: Unread
    rows: int
    halted: FrazilError | None = None
    outputs: tuple[OutputStanding, ...] = ()


def preview(made: Transformation) -> Preview:
    """Analyze the query against the tables as they are.

    Raises Misuse if one of these does not exist, and SpecError for what the query or the table cannot do.
    """
    spec, source = made.spec, made.followed()
    whole = unread(source, spec, None)
    tables, _ = made.tables(source, whole)
    query = made.queries().check(spec, [replace(each, files=()) for each in tables])
    _check_layout(spec, query.columns)
    target = made.lake.load(spec.identifier)
    outputs = outputs_by(spec, query.rows)
    sent = tuple(OutputStanding(o.name, o.topic) if target is None else output_standing(target, o) for o in outputs)
    try:
        news = whole if target is None else _continued(made, tables, target, query)
    except TransformHaltedError as halted:
        return Preview(spec, query, whole, 0, halted, sent)
    rows = tables[0].rows if news.is_everything else made.tables(source, news)[0][0].rows
    return Preview(spec, query, news, rows, outputs=sent)


def _continued(made: Transformation, tables: Sequence[TableRows], target: TableView, query: Query) -> Unread:
    state = current_state(target, made.spec, definition=made.definition())
    check_kept(target, made.spec, state.rows, query.rows)
    check_values_kept(made.spec, query.plan, tables, state)
    changes_for(target, made.spec, query)
    source = tables[0].view
    return unread(source, made.spec, state.position, changes=kind_of(made.spec, source).changes)


def _check_layout(spec: TransformSpec, columns: tuple[Column, ...]) -> None:
    """Raise SpecError if the table cannot be partitioned, sorted or put in a z-order as the spec says."""
    schema = to_schema(columns)
    try:
        to_partition_spec(schema, spec.partition_by)
        to_sort_order(schema, spec.sort_by)
        to_sort_order(schema, spec.maintain.z_order, key=Z_ORDER)
    except SpecError as misfit:
        raise SpecError(f"{spec.source_file}: {misfit.what}", hint=misfit.hint) from misfit


def lines(found: Preview) -> Iterator[str]:
    """Yield the preview as text."""
    spec, query = found.spec, found.query
    yield f"transform {spec.name}: {spec.identifier} <- {', '.join(spec.tables)} ({spec.source_file})"
    yield f"  next batch: {_next(found)}"
    yield "  columns:"
    width = max(len(column.name) for column in query.columns)
    origins = {each.column: each.sources for each in lineage(query.plan)}
    for column in query.columns:
        yield f"    {column.name:<{width}}  {column.type}  {_origin(origins.get(column.name))}"
    for table, names in sorted(query.needed.items()):
        yield f"  reads of {table}: {', '.join(sorted(names)) or 'one column, to count rows'}"
    yield "  plan:"
    for line in query.text.splitlines():
        yield f"    {line}"
    for output in found.outputs:
        yield f"  {output}"


def _origin(sources: tuple[str, ...] | None) -> str:
    if sources is None:
        return "kept for an average"
    return f"<- {', '.join(sources) or 'no column'}"


def _next(found: Preview) -> str:
    if found.halted is not None:
        return f"none, {found.halted.what}"
    rows = plural(found.rows, "row")
    if found.news.is_everything:
        return f"all {rows} of {found.spec.source}"
    if not found.news.changed_by:
        return "nothing new"
    if found.news.changed_by != found.news.added_by:
        return f"what {plural(len(found.news.changed_by), 'epoch')} changed in {found.spec.source}"
    return f"{rows} that {plural(len(found.news.added_by), 'epoch')} added to {found.spec.source}"


def query_to_be(made: Transformation, columns: Mapping[str, tuple[Column, ...]]) -> Query:
    """Analyze the query where tables do not exist yet, against the columns that these will have.

    Raises SpecError for what the query or the table cannot do.
    """
    views = [made.lake.load(each) or _empty(each, columns[each]) for each in made.spec.tables]
    query = made.queries().check(made.spec, [TableRows(view, ()) for view in views])
    _check_layout(made.spec, query.columns)
    return query


def _empty(identifier: str, columns: tuple[Column, ...]) -> TableView:
    """Return a table that does not exist yet."""
    return TableView(
        identifier=identifier,
        location="",
        head=None,
        branches={},
        tags={},
        snapshots={},
        properties={},
        columns=columns,
        format_version=2,
        schema_json="",
        partition_spec_json="",
        partition_fields=(),
        current=None,
    )


def missing(made: Transformation) -> tuple[str, ...]:
    """Return the tables that the query reads and that do not exist."""
    return tuple(each for each in made.spec.tables if made.lake.load(each) is None)
