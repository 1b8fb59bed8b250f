"""The schemas that the columns of a rebuild are made from: those that its table holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.state import Standing
from frazil.model.schemas import RegisteredSchema, SchemaId, in_order
from frazil.ports import SchemaRegistry
from frazil.registry_front import RegistryFront


class HeldSchemas(RegistryFront[SchemaRegistry]):
    """A registry in which a newest schema that is excluded from the `table` is not the newest.

    Its records are dead letters. The last schema that the table has met takes its place; with none, it stays.
    """

    def __init__(self, registry: SchemaRegistry, table: Standing) -> None:
        super().__init__(registry)
        self._table = table

    def latest(self, subject: str) -> RegisteredSchema | None:
        newest = self.registry.latest(subject)
        if newest is None:
            return None
        excluded, state = excluded_schemas(self._table.view.properties), self._table.state
        held = _met(newest, state.schema_ids, excluded.values) or _met(newest, state.key_schema_ids, excluded.keys)
        return (self.registry.by_id(held[-1]) if held else None) or newest


def _met(newest: RegisteredSchema, met: Iterable[SchemaId], excluded: Collection[SchemaId]) -> tuple[SchemaId, ...]:
    """Return the schemas that a table has met, without those that are excluded; none if the newest is not excluded."""
    is_excluded = newest.id in excluded or newest.guid in excluded
    return in_order(each for each in met if each not in excluded) if is_excluded else ()
