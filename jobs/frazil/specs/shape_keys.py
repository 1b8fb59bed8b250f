"""The keys of a shape: one table of a spec with `shapes`, which gets every record."""

from __future__ import annotations

from typing import get_args

from frazil.model.spec import Reader
from frazil.specs.keys import Derived, Key, Required, Section
from frazil.specs.partitions import PARTITIONS, SORT_FIELDS
from frazil.specs.scalars import TABLE_NAME
from frazil.specs.shapes import Choice, ListOf
from frazil.specs.table_keys import DELETE_MEMORY, IDENTITY, ORDER_BY, WRITE
from frazil.specs.words_of_others import IN_A_SHAPE

SHAPE_TABLE = Key("table", TABLE_NAME, "The name of the table.", Required())
SHAPE = Section(
    (
        SHAPE_TABLE,
        WRITE,
        IDENTITY,
        ORDER_BY,
        DELETE_MEMORY,
        Key("partition_by", PARTITIONS, "Partition fields of the table.", Derived("that of the spec")),
        Key("sort_by", SORT_FIELDS, "The order of rows in the data files of the table.", Derived("that of the spec")),
        Key(
            "readers",
            ListOf(Choice(get_args(Reader))),
            "The engines that must be able to read the table.",
            Derived("those of the spec"),
        ),
    ),
    label="a shape",
    elsewhere=IN_A_SHAPE,
)
SHAPES = Key(
    "shapes",
    ListOf(SHAPE, at_least_one=True, example="a list: `- {table: orders_log}`"),
    "Several tables from one reading of the topic, each of which gets every record: the first one is an append log.",
    Derived("none: one table"),
)
