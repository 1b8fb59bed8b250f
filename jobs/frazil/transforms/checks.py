"""What would prevent the next batch of a transformation, or its output topics (`frazil check`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping

from frazil.model.columns import Column
from frazil.model.errors import FrazilError
from frazil.model.transforms import TransformTable
from frazil.outputs.checks import check_schemas, check_topic
from frazil.outputs.records import shape_of
from frazil.transforms.preview import missing, preview, query_to_be
from frazil.transforms.queries import Query
from frazil.transforms.run import Transformation
from frazil.transforms.send import outputs_by


def problems(
    made: Transformation, to_be: MutableMapping[str, tuple[Column, ...]] | None = None
) -> Iterator[FrazilError]:
    """Yield what would prevent the next batch, or its records. Nothing is sent or registered.

    `to_be` has the columns of each table that the query reads and that does not exist yet. Those of the table that the
    transformation makes are added, for others that follow it.
    """
    to_be = {} if to_be is None else to_be
    halted: FrazilError | None = None
    try:
        if missing(made):
            query = query_to_be(made, to_be)
        else:
            found = preview(made)
            query, halted = found.query, found.halted
    except FrazilError as problem:
        yield problem
        return
    if halted is not None:
        yield halted
    to_be[made.spec.identifier] = query.columns
    yield from _of_outputs(made, query)


def note_on_names(name: str, columns: Iterable[Column]) -> str | None:
    """Return a note if columns of the query's result have no names of their own: Spark then uses their expressions."""
    unnamed = ", ".join(column.name for column in columns if "(" in column.name)
    return f"the query of {name} has no name for {unnamed}: add one with AS, which needs no quotes" if unnamed else None


def _of_outputs(made: Transformation, query: Query) -> Iterator[FrazilError]:
    if made.sending is None or not made.spec.outputs:
        return
    clients, table = made.sending.clients(), TransformTable(made.spec, query.rows)
    for output in outputs_by(made.spec, query.rows):
        yield from _raised(lambda output=output: check_topic(clients.topics, table, output))  # type: ignore[misc]
        yield from _raised(
            lambda output=output: check_schemas(  # type: ignore[misc]
                clients.schemas, table, output, shape_of(table, output, query.columns)
            )
        )


def _raised(act: Callable[[], None]) -> Iterator[FrazilError]:
    try:
        act()
    except FrazilError as problem:
        yield problem
