"""Families of types: ingest finds them from Arrow, and evolution from columns."""

from __future__ import annotations

import itertools

import pytest

from frazil.formats.arrow import arrow_type
from frazil.formats.families import arrow_family_of, family_of
from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, Struct

SCALARS: list[ColumnType] = [
    *map(Scalar, ("boolean", "int", "long", "float", "double", "string", "binary")),
    *map(Scalar, ("date", "time", "timestamp", "timestamptz", "uuid")),
    *(Decimal(9, 2), Decimal(18, 2), Decimal(9, 3), Fixed(8), Fixed(16)),
    *(Struct((Column("a", Scalar("int")),)), Struct((), is_union=True)),
]
TYPES = [*SCALARS, *map(ListOf, SCALARS), *(MapOf(Scalar(key), each) for key in ("string", "int") for each in SCALARS)]
TOGETHER = [{"int", "long"}, {"float", "double"}, {"uuid", "fixed(16)"}, {"decimal(9, 2)", "decimal(18, 2)"}]


@pytest.mark.parametrize("column_type", TYPES, ids=str)
def test_a_family_is_the_same_from_a_column_and_from_arrow(column_type: ColumnType) -> None:
    assert arrow_family_of(arrow_type(column_type)) == family_of(column_type)


def test_only_types_that_one_column_can_hold_are_of_one_family() -> None:
    for one, other in itertools.combinations(SCALARS[:-2], 2):
        assert (family_of(one) == family_of(other)) is ({str(one), str(other)} in TOGETHER)
