"""Schemas from a registry, and findings about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from frazil.model.spelling import plural

SchemaType = Literal["AVRO", "PROTOBUF", "JSON", "CONNECT"]
"""The schema types in the registry's spelling, and that of the schemas that Kafka Connect's JSON has in each record."""


SchemaId = int | UUID
"""What a record names its writer schema by: the registry's number, or a UUID.

A UUID is the GUID of a schema in Confluent's registry, the id of a schema version in AWS Glue, or made of the text of a
schema that records have in them. Its text is the canonical one of RFC 9562.
"""


def schema_id_of(text: str) -> SchemaId | None:
    """Return the id that a text spells, or None if it spells none."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def stored_id(schema_id: SchemaId) -> int | str:
    """Return an id as JSON stores it; `id_in` reads it."""
    return schema_id if isinstance(schema_id, int) else str(schema_id)


def id_in(stored: int | str) -> SchemaId:
    """Return the id that was stored. Raises ValueError if it is none."""
    return stored if isinstance(stored, int) else UUID(stored)


def id_order(schema_id: SchemaId | None) -> tuple[int, int]:
    """Return a key that sorts ids: none, then numbers, then UUIDs."""
    if schema_id is None:
        return 0, 0
    return (1, schema_id) if isinstance(schema_id, int) else (2, schema_id.int)


def in_order(ids: Iterable[SchemaId]) -> tuple[SchemaId, ...]:
    """Return these ids once each, sorted."""
    return tuple(sorted(set(ids), key=id_order))


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses, by the name that the other one uses for it, such as the path of an import."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class VersionNumber:
    """The place of a schema among the versions that were registered under one name."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with the id that it was found by. `references` are the schemas that it uses, dependencies first.

    `guid` is what Confluent's registry calls it beside its number, if the registry says so. `missing` are those that it
    refers to and that the registry does not have, such as `version 1 of part`. `version` is known if the id does not
    say which schema was registered first, and the registry does.
    """

    id: SchemaId
    format: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    guid: UUID | None = None
    missing: tuple[str, ...] = ()
    version: VersionNumber | None = field(default=None, compare=False)

    @property
    def referenced_texts(self) -> tuple[str, ...]:
        return tuple(each.text for each in self.references)


UNREGISTERED = 0
"""The id of a schema that is not registered: registries count from 1."""


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject, by the `name` that a schema uses for it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaDefinition:
    """A schema as a producer registers it: its text, and the versions of subjects that it refers to."""

    format: SchemaType
    text: str
    references: tuple[SubjectVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """One problem of a schema: the dotted path in it, and what a table cannot hold there."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path or '(record)'}: {self.problem}"


def unsafe_change(table: str, schema: str, findings: Sequence[SchemaFinding]) -> str:
    """Return why a table cannot hold a schema, which messages call `schema`."""
    return f"{table}: {schema} is not a safe change for the table, {listed_findings(findings)}"


def listed_findings(findings: Sequence[SchemaFinding]) -> str:
    """Return the findings one below the other, after how many there are."""
    return f"{plural(len(findings), 'finding')}:\n" + "\n".join(f"  - {finding}" for finding in findings)


@dataclass(frozen=True, slots=True)
class ExcludedSchemas:
    """The ids of writer schemas whose records become dead letters: those of values, and those of keys.

    A registry gives one text one id, so the id of a refused key may be that of every value.
    """

    values: frozenset[SchemaId] = frozenset()
    keys: frozenset[SchemaId] = frozenset()

    @classmethod
    def one(cls, schema_id: SchemaId, *, of_key: bool) -> ExcludedSchemas:
        """Return a schema in one of its roles."""
        ids = frozenset({schema_id})
        return cls(keys=ids) if of_key else cls(values=ids)

    @property
    def ids(self) -> frozenset[SchemaId]:
        """The ids of either."""
        return self.values | self.keys

    def __or__(self, other: ExcludedSchemas) -> ExcludedSchemas:
        return ExcludedSchemas(self.values | other.values, self.keys | other.keys)

    def without(self, ids: Collection[SchemaId]) -> ExcludedSchemas:
        """Return the others, in either role."""
        return ExcludedSchemas(self.values.difference(ids), self.keys.difference(ids))


NONE_EXCLUDED = ExcludedSchemas()
