"""The writer schemas that a task meets: decoders for those that the plan knows, and what else an id can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from frazil.formats.decoder import Decoder
from frazil.formats.open import open_decoder, open_plain
from frazil.model.dead_letter import Reason
from frazil.model.plan import WriterSchemas
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.spec import CONFLUENT, DEFAULT_SETTINGS, FormatSettings, TableSpec, WireFormat, schema_type_of
from frazil.ports import SchemaRegistry

LOOKUPS_PER_TASK = 100
"""Ids that do not exist, looked up by one task; a range ends before the next one."""


LARGEST_ID = 2**31 - 1
"""Registries count their schemas with signed 32-bit numbers: larger ids are not worth asking for."""


def is_too_large(schema_id: SchemaId) -> bool:
    """Return whether no registry has a schema with this id."""
    return isinstance(schema_id, int) and schema_id > LARGEST_ID


class NewSchemaError(Exception):
    """A valid id that the plan does not know: the range ends before its record, the driver evolves the table."""

    def __init__(self, schema_id: SchemaId) -> None:
        super().__init__(str(schema_id))
        self.schema_id = schema_id


class LookupsSpentError(Exception):
    """Too many ids that do not exist were looked up: the range ends before this one."""


@dataclass(slots=True)
class UnknownIds:
    """Ids that the registry says do not exist, in one task, for values and keys together."""

    registry: SchemaRegistry
    found: set[SchemaId] = field(default_factory=set)
    looked_up: int = 0

    def look_up(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Return the schema, or None if the registry has none.

        Raises LookupsSpentError after too many missing ids, and RegistryError if the registry does not answer.
        """
        if schema_id in self.found or is_too_large(schema_id):
            return None
        if not self.registry.remembers_missing(schema_id):
            if self.looked_up >= LOOKUPS_PER_TASK:
                raise LookupsSpentError
            schema = self.registry.by_id(schema_id)
            if schema is not None:
                return schema
            self.looked_up += 1
        self.found.add(schema_id)
        return None


class SchemasById:
    """Writer schemas by id, for values or for keys. Records of the `excluded` ids become dead letters.

    `word` is their format in the spec.
    """

    def __init__(
        self,
        word: str,
        known: Mapping[SchemaId, RegisteredSchema],
        unknown: UnknownIds,
        excluded: frozenset[SchemaId] = frozenset(),
    ) -> None:
        self.word = word
        self._schema_type = schema_type_of(word)
        self._known = known
        self._unknown = unknown
        self._excluded = excluded
        self._met: dict[SchemaId, Reason] = {}

    def schema(self, schema_id: SchemaId) -> RegisteredSchema | Reason:
        """The schema, or why records of this id are dead letters.

        Raises NewSchemaError for a valid id that the plan does not know, and LookupsSpentError.
        """
        if schema_id in self._excluded:
            return Reason.REFUSED_SCHEMA
        known = self._known.get(schema_id) or self._met.get(schema_id)
        if known is None:
            known = self._met[schema_id] = self._meet(schema_id)
        return known

    def new_among(self, schema_ids: Iterable[SchemaId | None]) -> tuple[SchemaId, ...]:
        """The valid ids that the plan does not know, in order, up to the first one that is not valid."""
        return tuple(dict.fromkeys(self._new_among(schema_ids)))

    def _new_among(self, schema_ids: Iterable[SchemaId | None]) -> Iterator[SchemaId]:
        for schema_id in schema_ids:
            if schema_id is None or schema_id in self._excluded or schema_id in self._known:
                continue
            schema = None if is_too_large(schema_id) else self._unknown.registry.by_id(schema_id)
            if schema is None or schema.format != self._schema_type:
                return
            yield schema_id

    def _meet(self, schema_id: SchemaId) -> Reason:
        schema = self._unknown.look_up(schema_id)
        if schema is None:
            return Reason.UNKNOWN_SCHEMA_ID
        if schema.format != self._schema_type:
            return Reason.WRONG_SCHEMA_TYPE
        raise NewSchemaError(schema_id)


@dataclass(frozen=True, slots=True)
class TaskSchemas:
    """The writer schemas of the values and of the keys that a task meets, for all tables that it writes."""

    values: SchemasById
    keys: SchemasById

    @staticmethod
    def of(
        spec: TableSpec, known: WriterSchemas, unknown: UnknownIds, excluded: ExcludedSchemas = NONE_EXCLUDED
    ) -> TaskSchemas:
        """Return the schemas of a spec. `known` are looked up with each id, so they may grow."""
        return TaskSchemas(
            SchemasById(spec.value, known.values, unknown, excluded.values),
            SchemasById(spec.key, known.keys, unknown, excluded.keys),
        )


class TaskDecoders:
    """Decoders by schema id, for values or for keys. Payloads without a registered schema have the id None."""

    def __init__(
        self, schemas: SchemasById, settings: FormatSettings = DEFAULT_SETTINGS, wire_format: WireFormat = CONFLUENT
    ) -> None:
        self.schemas = schemas
        self._plain = open_plain(schemas.word, settings)
        self._settings = settings
        self._wire_format = wire_format
        self._decoders: dict[SchemaId, Decoder | Reason] = {}

    def decoder(self, schema_id: SchemaId | None) -> Decoder | Reason:
        """The decoder, or why records of this id are dead letters.

        Raises NewSchemaError for a valid id that the plan does not know, and LookupsSpentError.
        """
        if schema_id is None:
            assert self._plain is not None  # noqa: S101 - only payloads of these formats have no id
            return self._plain
        if schema_id in self._decoders:
            return self._decoders[schema_id]
        self._decoders[schema_id] = self._open(schema_id)
        return self._decoders[schema_id]

    def _open(self, schema_id: SchemaId) -> Decoder | Reason:
        schema = self.schemas.schema(schema_id)
        return schema if isinstance(schema, Reason) else open_decoder(schema, self._settings, self._wire_format)
