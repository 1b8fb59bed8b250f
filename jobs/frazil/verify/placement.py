"""Where a writer's fields must be in the table, found by field ids: not by the names that ingest goes by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.formats.families import arrow_family_of
from frazil.formats.placement import (
    ColumnSources,
    column_for,
    columns_by_name,
    homeless,
    join,
    place_by_name,
    structs_within,
)
from frazil.model.schemas import SchemaId

_FIELD_ID = b"PARQUET:field_id"


class _NotThereError(Exception):
    """A schema of the table does not have a field of the writer's, or the table has lost its column."""


@dataclass(slots=True)
class ByFieldId:
    """Places the fields of a writer's schema as a schema of the table that has all of them says, the oldest at first.

    A column keeps its field id through every rename, so the id tells where it is now. Where no schema has all fields,
    because the writer is older than the table, their names and `former_names` say it. `lost` collects the fields, by
    the id of the writer's schema, that have no column: what records hold there cannot be in the table.

    Others may rename a column, and the next batch makes it again: from some offset on, a writer's records are in
    another column than before. `choose` goes on to such a later placement, for one partition, whose offsets are
    compared in order.
    """

    history: Sequence[pa.Schema]
    target: pa.Schema
    former_names: Mapping[str, tuple[str, ...]]
    lost: dict[SchemaId | None, tuple[str, ...]] = field(default_factory=dict)
    found: dict[SchemaId | None, tuple[ColumnSources, ...]] = field(default_factory=dict)
    chosen: dict[SchemaId | None, int] = field(default_factory=dict)

    def __call__(self, schema_id: SchemaId | None, given: pa.Schema) -> ColumnSources:
        if schema_id not in self.found:
            self.found[schema_id] = self._placed(given)
            lost = homeless(given, self.target, self.found[schema_id][0])
            if lost:
                self.lost[schema_id] = lost
        return self.found[schema_id][self.chosen.get(schema_id, 0)]

    def later(self, schema_id: SchemaId | None) -> range:
        """Return the numbers of the later placements, for `choose`."""
        return range(self.chosen.get(schema_id, 0) + 1, len(self.found.get(schema_id, ())))

    def choose(self, schema_id: SchemaId | None, placement: int) -> None:
        self.chosen[schema_id] = placement

    def _placed(self, given: pa.Schema) -> tuple[ColumnSources, ...]:
        """Return the distinct placements, in the order of the table's schemas."""
        placements: list[ColumnSources] = []
        for then in self.history:
            try:
                placement = dict(_by_id(list(given), list(then), list(self.target), "", self.former_names))
            except _NotThereError:
                continue
            if placement not in placements:
                placements.append(placement)
        return tuple(placements) or (place_by_name(given, self.target, self.former_names),)


def _by_id(
    given: list[pa.Field],
    then: list[pa.Field],
    now: list[pa.Field],
    path: str,
    former_names: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str, str]]:
    columns_then = {column.name: column for column in then}
    columns_now = {_field_id(column): column for column in now}
    known = columns_by_name(now, path, former_names)
    for each in given:
        before = columns_then.get(each.name)
        if before is None or arrow_family_of(before.type) != arrow_family_of(each.type):
            before = _for_its_type(each, known.get(each.name, ()), then) or before
        column = None if before is None else columns_now.get(_field_id(before))
        if before is None or column is None:
            raise _NotThereError
        at = join(path, column.name)
        yield at, each.name
        inner_then = next(structs_within(each.type, before.type, at), None)
        inner_now = next(structs_within(before.type, column.type, at), None)
        if inner_then is not None and inner_now is not None:
            yield from _by_id(inner_then[0], inner_then[1], inner_now[1], inner_then[2], former_names)


def _for_its_type(each: pa.Field, known_now: Sequence[pa.Field], then: list[pa.Field]) -> pa.Field | None:
    """Return the column that a schema of the table had for the field's type, if there are several by its name now."""
    if len(known_now) < 2:
        return None
    by_id = {_field_id(column): column for column in then}
    column = by_id.get(_field_id(column_for(each, known_now)))
    if column is None:
        raise _NotThereError
    return column


def _field_id(column: pa.Field) -> bytes | None:
    return (column.metadata or {}).get(_FIELD_ID)
