"""Routes: which table of a group takes a record (docs/decisions/0034-routes-of-one-spec.md)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class HeaderCondition:
    """The last header of a record with this key has this value."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"header {self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """The field at this path of the decoded record, before any mask, has one of these values, as text."""

    path: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"field {self.path}: {' or '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class Route:
    """The conditions under which a table takes a record: all of them. A table takes every record if there is none.

    `schema` is the full name of the record's writer schema, in Protobuf of its message; None is any.
    """

    table: str
    schema: str | None = None
    headers: tuple[HeaderCondition, ...] = ()
    fields: tuple[FieldCondition, ...] = ()

    def __str__(self) -> str:
        """The conditions, such as `schema shop.Order, header type: refund`."""
        schema = [] if self.schema is None else [f"schema {self.schema}"]
        return ", ".join((*schema, *map(str, self.headers), *map(str, self.fields)))

    @property
    def has_conditions(self) -> bool:
        return self.schema is not None or bool(self.headers or self.fields)

    def takes(self, names: Collection[str]) -> bool:
        """Return whether it can take a record of one of these schemas, whose full names are given."""
        return self.schema is None or self.schema in names

    def includes(self, other: Route) -> bool:
        """Return whether each record that fulfils these conditions also fulfils those of the other route."""
        mine = {each.path: set(each.values) for each in self.fields}
        return (
            other.schema in (None, self.schema)
            and set(other.headers) <= set(self.headers)
            and all(each.path in mine and mine[each.path] <= set(each.values) for each in other.fields)
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The tables of one spec with routes or shapes. `name` is the spec's `table`, also for its dead letters.

    The first table is the ledger: its state is also that of the group. `masked` says whether one of the tables has
    policies: its records can miss their route, so the group's dead letters are encrypted, and no message quotes a
    value.
    """

    database: str
    name: str
    routes: tuple[Route, ...]
    masked: bool = False

    @property
    def identifier(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def ledger(self) -> str:
        """The identifier of the table that holds the group's state."""
        return f"{self.database}.{self.routes[0].table}"

    @property
    def has_shapes(self) -> bool:
        """Return whether each table takes every record, by its own write mode."""
        return are_shapes(self.routes)

    def routes_text(self) -> str:
        """Return what the tables record of `routes`, as JSON. The first one is the ledger's."""
        return json.dumps([_recorded(route) for route in self.routes], ensure_ascii=False)

    def route_of(self, table: str) -> Route:
        """Return the route to a table of the group, by its name without the database."""
        return next(route for route in self.routes if route.table == table)


def are_shapes(routes: Sequence[Route]) -> bool:
    """Return whether these are the tables of shapes, which have no conditions; those of routes have some."""
    return bool(routes) and not any(route.has_conditions for route in routes)


def _recorded(route: Route) -> dict[str, object]:
    """Return a route as the spec names it; of a shape, its table."""
    schema = {} if route.schema is None else {"schema": route.schema}
    headers = {each.key: each.value for each in route.headers}
    fields = {each.path: list(each.values) for each in route.fields}
    given = {"header": headers, "field": fields}
    return {"table": route.table, **schema, **{key: conditions for key, conditions in given.items() if conditions}}


def unreachable(routes: Sequence[Route]) -> Iterator[tuple[int, int]]:
    """Yield the index of each route that never gets a record, after that of the first route that takes all of them."""
    found: set[int] = set()
    for first, later in combinations(range(len(routes)), 2):
        if later not in found and routes[later].includes(routes[first]):
            found.add(later)
            yield first, later
