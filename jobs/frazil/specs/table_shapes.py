"""What contradicts the shapes of a spec: tables that each get every record (docs/decisions/0044)."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.errors import SpecError
from frazil.model.spec import MetadataColumns
from frazil.specs import table_keys as keys
from frazil.specs.keyed import identity_of, orders_by_value
from frazil.specs.keys import Values
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import ROUTES
from frazil.specs.routes import name_problems
from frazil.specs.shape_keys import SHAPE_TABLE, SHAPES

_OF_EACH = (keys.WRITE, keys.IDENTITY, keys.ORDER_BY, keys.DELETE_MEMORY)
"""The keys of a spec that each shape has for itself."""


def shape_problems(values: Values, metadata: MetadataColumns, *, name: str) -> Iterator[Problem]:
    """Yield what is wrong with the shapes of a spec, whose `table` is `name`."""
    given = values.get(SHAPES)
    if given is None:
        return
    if values.get(ROUTES) is not None:
        what = "a record goes to one of the routes, or to all of the shapes"
        yield _problem(values.place_of(SHAPES), what, "write routes or shapes")
    for key in _OF_EACH:
        if values.is_given(key):
            what = f"with shapes, each table has its own {key.name}"
            yield _problem(values.place_of(key), what, f"write `{key.name}` in the shapes that need it")
    if values[keys.CDC] != "none":
        what = "change events are not supported with shapes"
        yield _problem(values.place_of(keys.CDC), what, "write one spec for each table")
    first = given[0]
    if first[keys.WRITE] != "append":
        what = "the first shape has a row for each record, and counts them for all"
        yield _problem(first.place_of(keys.WRITE), what, "put a shape with write: append first")
    yield from name_problems(given, name, of="shapes")
    deleting = [shape for shape in given if _deletes(shape, metadata)]
    for shape in given if deleting else ():
        if identity_of(shape, metadata):
            what = "a record without a value has no identity, so it would be a dead letter of all shapes, and delete no"
            what = f"{what} row of {deleting[0][SHAPE_TABLE]}"
            yield _problem(shape.place_of(keys.IDENTITY), what, "write a spec of its own for this table")


def _deletes(shape: Values, metadata: MetadataColumns) -> bool:
    """Return whether a record without a value deletes the row of its key."""
    of_key = not (identity_of(shape, metadata) or orders_by_value(shape, metadata))
    return shape[keys.WRITE] in ("upsert", "history") and of_key


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
