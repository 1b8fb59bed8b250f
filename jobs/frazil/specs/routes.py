"""Convert `routes` or `shapes` to a group of tables, and find the routes that contradict each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Literal

from frazil.model.errors import SpecError
from frazil.model.policies import KEPT, Policies
from frazil.model.routes import FieldCondition, Group, HeaderCondition, Route, unreachable
from frazil.model.spec import SCHEMA_TYPES
from frazil.specs import table_keys
from frazil.specs.keys import Values
from frazil.specs.policies import policies_of
from frazil.specs.policy_keys import COLUMNS
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import FIELD, HEADER, ROUTE_COLUMNS, ROUTE_TABLE, ROUTES, SCHEMA
from frazil.specs.shape_keys import SHAPES

_COMPARED = ("string", "boolean", "int", "long")
"""The types that a JSON value's field may be declared with if a route compares it."""


def tables_of(values: Values) -> tuple[Values, ...]:
    """Return the values of each table of a spec. The own values of a route or a shape replace those of the spec."""
    own = _own_values(values)
    return (values,) if own is None else tuple(_of_route(values, each) for each in own)


def _own_values(values: Values) -> Sequence[Values] | None:
    """Return the values of each route, or of each shape; None for a spec without them."""
    routes = values.get(ROUTES)
    return values.get(SHAPES) if routes is None else routes


def _of_route(values: Values, route: Values) -> Values:
    found = {**values.found, **route.found}
    if values[table_keys.VALUE] == "protobuf" and route.get(SCHEMA) is not None:
        found[table_keys.MESSAGE.name] = route.get(SCHEMA)
    return replace(values, found=found, places={**values.places, **route.places})


def group_of(values: Values, *, database: str, name: str) -> Group | None:
    """Return the group of a spec with `routes` or `shapes`; `name` is the spec's `table`."""
    own = _own_values(values)
    if own is None:
        return None
    masked = any(policies_of(table) for table in tables_of(values))
    return Group(database, name, tuple(_route(each) for each in own), masked=masked)


def _route(values: Values) -> Route:
    headers = tuple(HeaderCondition(key, value) for key, value in (values.get(HEADER) or {}).items())
    fields = tuple(FieldCondition(path, wanted) for path, wanted in (values.get(FIELD) or {}).items())
    return Route(values[ROUTE_TABLE], values.get(SCHEMA), headers, fields)


def route_problems(values: Values, *, name: str) -> Iterator[Problem]:
    """Yield what is wrong with the routes of a spec, whose `table` is `name`."""
    given = values.get(ROUTES)
    if given is None:
        return
    if values.is_given(COLUMNS):
        what = "with routes, each table has its own columns"
        yield _problem(values.place_of(COLUMNS), what, "write `columns` in each route that needs it")
    for each in given:
        yield from _condition_problems(each, values[table_keys.VALUE])
        yield from _field_problems(each, values)
    yield from name_problems(given, name, of="routes")
    routes = [_route(each) for each in given]
    yield from _order_problems(routes, given)
    yield from _mask_problems(routes, [policies_of(table) for table in tables_of(values)], given)


def _condition_problems(given: Values, value: str) -> Iterator[Problem]:
    route = _route(given)
    if not route.has_conditions:
        hint = "add `schema: …`, `header: {name: value}` or `field: {path: [value]}`"
        yield _problem(given.place, "a route needs a condition", hint)
    if route.schema is not None and value not in SCHEMA_TYPES:
        what = f"no effect, because value is {value}: such values have no schema"
        yield _problem(given.place_of(SCHEMA), what, "use `header: {name: value}`")


def _field_problems(given: Values, spec: Values) -> Iterator[Problem]:
    """Yield why the values of the spec do not have the fields that a route asks for, as far as the spec shows it."""
    paths, value, declared = given.get(FIELD), spec[table_keys.VALUE], spec.get(table_keys.FIELDS)
    if paths is None or value in SCHEMA_TYPES:
        return
    place = given.place_of(FIELD)
    if declared is None:
        hint = "use `header: {name: value}`" if value != "json" else "declare `fields`, or use `header: {name: value}`"
        yield _problem(place, f"no effect, because value is {value}, and each row holds the value as a whole", hint)
        return
    for path in paths:
        found = _declared_at(path, json.loads(declared))
        if found not in _COMPARED:
            what = f"{path} is not declared in `fields`" if found is None else f"{path} is declared as {found}"
            hint = f"a route compares declared fields of the types {', '.join(_COMPARED)}"
            yield _problem(place, what, hint)


def _declared_at(path: str, declared: object) -> object:
    """Return the declared type of the field at a dotted path, or None."""
    for name in path.split("."):
        declared = declared.get(name) if isinstance(declared, dict) else None
    return declared


def name_problems(given: Sequence[Values], name: str, *, of: Literal["routes", "shapes"]) -> Iterator[Problem]:
    """Yield what is wrong with the names of the tables of routes or shapes; `name` is the spec's `table`."""
    taken = {f"{name}__dead_letters".lower(): f"is the name of the dead letters table of these {of}"}
    for each in given:
        table = each[ROUTE_TABLE]
        if table.lower() in taken:
            yield _problem(each.place_of(ROUTE_TABLE), f"{table} {taken[table.lower()]}", "choose another name")
        taken.setdefault(table.lower(), f"is the table of an earlier {of.removesuffix('s')}, too")


def _order_problems(routes: Sequence[Route], given: Sequence[Values]) -> Iterator[Problem]:
    with_conditions = [index for index, route in enumerate(routes) if route.has_conditions]
    for first, later in unreachable([routes[index] for index in with_conditions]):
        before, route = routes[with_conditions[first]], routes[with_conditions[later]]
        what = f"{route.table} never gets a record: {before.table}, which comes first, takes all of them"
        hint = f"put {route.table} before {before.table}, or change its conditions"
        yield _problem(given[with_conditions[later]].place, what, hint)


def _mask_problems(routes: Sequence[Route], policies: Sequence[Policies], given: Sequence[Values]) -> Iterator[Problem]:
    """Yield the paths that a route masks and that another route, which can get the same kind of record, does not."""
    found: dict[tuple[int, str], str] = {}
    for mine, other in permutations(range(len(routes)), 2):
        if routes[mine].schema in (None, routes[other].schema):
            masked = (path for path, policy in policies[other].columns if policy != KEPT)
            missing = (path for path in masked if not policies[mine].covers(path))
            found = {(mine, path): routes[other].table for path in missing} | found
    for (mine, path), table in found.items():
        what = (
            f"{routes[mine].table} has no policy for {path}, and can get records like those whose {path} {table} masks"
        )
        hint = f"add a policy to its `columns`; `{path}: {{mask: none, may_be_missing: true}}` masks nothing"
        yield _problem(given[mine].place_of(ROUTE_COLUMNS), what, hint)


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
