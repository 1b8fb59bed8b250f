"""The keys of a route: one table of a spec with `routes`."""

from __future__ import annotations

from typing import get_args

from frazil.model.spec import Reader
from frazil.specs.keys import Derived, Key, Required, Section
from frazil.specs.partitions import PARTITIONS, SORT_FIELDS
from frazil.specs.policy_keys import COLUMNS
from frazil.specs.scalars import TABLE_NAME, TEXT, parse_text
from frazil.specs.shapes import Choice, ListOf, MapOf, Scalar, Unfit
from frazil.specs.words_of_others import IN_A_ROUTE

ROUTE_TABLE = Key("table", TABLE_NAME, "The name of the route's table.", Required())
SCHEMA = Key(
    "schema",
    TEXT,
    "The full name of the writer schema of the route's records, such as shop.Order; in JSON Schema the `title`, in"
    " Protobuf the message.",
    Derived("any"),
)
HEADER = Key("header", MapOf(TEXT, TEXT), "The headers of the route's records, with their last values.",
             Derived("any"))  # fmt: skip


def parse_field_path(text: str) -> str:
    if not all(name and not set(name) & set("[]{}") for name in text.split(".")):
        raise Unfit("write names of fields with dots between them, such as order.kind, and none in an array or a map")
    return text


_FIELD_VALUE = Scalar("text, a whole number, true or false", parse_text, {"type": ["string", "number", "boolean"]})
FIELD = Key(
    "field",
    MapOf(Scalar("a path", parse_field_path), ListOf(_FIELD_VALUE, at_least_one=True)),
    "Fields of the route's records, by their paths, with the values that they may have; before any mask.",
    Derived("any"),
)
ROUTE_PARTITION_BY = Key(
    "partition_by", PARTITIONS, "Partition fields of the route's table.", Derived("that of the spec")
)
ROUTE_SORT_BY = Key("sort_by", SORT_FIELDS, "The order of rows in the data files of the route's table.",
                    Derived("that of the spec"))  # fmt: skip
ROUTE_READERS = Key(
    "readers",
    ListOf(Choice(get_args(Reader))),
    "The engines that must be able to read the route's table.",
    Derived("those of the spec"),
)
ROUTE_COLUMNS = Key("columns", COLUMNS.shape, "Policies of the columns of the route's table.", Derived("none"))
ROUTE = Section(
    (ROUTE_TABLE, SCHEMA, HEADER, FIELD, ROUTE_PARTITION_BY, ROUTE_SORT_BY, ROUTE_READERS, ROUTE_COLUMNS),
    label="a route",
    elsewhere=IN_A_ROUTE,
)
ROUTES = Key(
    "routes",
    ListOf(ROUTE, at_least_one=True, example="a list: `- {table: orders, schema: shop.Order}`"),
    "Several tables from one reading of the topics: the first route whose conditions all hold takes a record.",
    Derived("none: one table"),
)
