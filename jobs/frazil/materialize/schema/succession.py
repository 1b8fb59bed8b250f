"""A writer schema beside those that its table has columns for already: what no comparison with the columns can find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from frazil.formats.open import map_schema
from frazil.model.schemas import RegisteredSchema, SchemaFinding, SchemaId, in_order
from frazil.model.spec import FormatSettings, TableSpec

NEWEST = 16
"""The number of accepted schemas that a new one's messages are compared with: those with the largest ids."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The writer schemas that a table has columns for, as those of values or of keys.

    `stored` are the ids that the table's state names; `since` are schemas that this process has accepted after that.
    """

    stored: Collection[SchemaId] = ()
    since: Mapping[SchemaId, RegisteredSchema] = field(default_factory=dict)
    find: Callable[[SchemaId], RegisteredSchema | None] = lambda schema_id: None

    @staticmethod
    def of(schemas: Iterable[RegisteredSchema], stored: Collection[SchemaId] = ()) -> Accepted:
        known: dict[SchemaId, RegisteredSchema] = {each.id: each for each in schemas}
        return Accepted(stored, find=known.get)

    def newest(self) -> Iterator[RegisteredSchema]:
        """Yield the accepted schemas with the largest ids, the largest first."""
        for schema_id in in_order((*self.stored, *self.since))[: -NEWEST - 1 : -1]:
            schema = self.since.get(schema_id) or self.find(schema_id)
            if schema is not None:
                yield schema


NONE_ACCEPTED = Accepted()


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """The messages that two Protobuf schemas make rows of, where both could make rows of the same one."""

    finding: SchemaFinding
    of_table: str
    """The full name of the message that the table has rows of."""


def other_message(
    spec: TableSpec, schema: RegisteredSchema, accepted: Accepted, *, of_key: bool
) -> OtherMessage | None:
    """Return why the schema's first message must not make the rows, or None.

    Without `message` in the spec, the first message of each schema does. If a schema has another message in front of
    the one that the table has rows of, its records would become rows of another kind, without any error.
    """
    settings = spec.key_settings if of_key else spec.value_settings
    if schema.format != "PROTOBUF" or settings.message is not None or schema.id in accepted.stored:
        return None
    first, names = _messages(schema, settings)
    for known in accepted.newest():
        if known.format != "PROTOBUF" or known.id == schema.id:
            continue
        of_table, known_names = _messages(known, settings)
        if of_table != first and (of_table in names or first in known_names):
            return OtherMessage(SchemaFinding("", _problem(first, of_table, known.id)), of_table)
    return None


def _problem(first: str, of_table: str, known: SchemaId) -> str:
    return (
        f"its first message is {first}, and the table has the records of {of_table}, the first message of schema"
        f" {known}; without `message` in the spec, the first message of each schema makes the rows"
    )


@lru_cache(maxsize=2_000)
def _messages(schema: RegisteredSchema, settings: FormatSettings) -> tuple[str, frozenset[str]]:
    """Return the full names of the message that makes the rows, and of all messages of the schema."""
    mapped = map_schema(schema, settings)
    return mapped.record or "", frozenset({mapped.record or "", *mapped.other_records})
