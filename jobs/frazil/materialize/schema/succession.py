"""A writer schema beside those that its table has columns for already: what no comparison with the columns can find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from uuid import UUID

from frazil.formats.open import invalid_for_confluent, map_schema
from frazil.formats.validity import WITH_LENIENT
from frazil.materialize.schema.strictness import StrictFinding, in_confluents_order, strict_findings
from frazil.model.columns import Column, Struct, walk
from frazil.model.schemas import (
    UNREGISTERED,
    RegisteredSchema,
    SchemaFinding,
    SchemaId,
    VersionNumber,
    id_order,
    in_order,
)
from frazil.model.spec import FormatSettings, TableSpec

NEWEST = 16
"""The number of accepted schemas that a new one's messages are compared with: those with the largest ids."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The accepted schemas on both sides of one, by the order in which they were registered."""

    before: RegisteredSchema | None
    after: RegisteredSchema | None


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

    def around(self, schema: RegisteredSchema, is_meant: Callable[[RegisteredSchema], bool]) -> Neighbours:
        """Return the accepted schemas that were registered last before this one, and first after it.

        Only those that are meant count; a few are looked at. A schema that is not registered comes after all others.
        UUIDs have no order, so schemas that are named by them are compared by the numbers of their versions.
        """
        known = in_order((*self.stored, *self.since))
        if isinstance(schema.id, UUID) or (schema.id == UNREGISTERED and any(isinstance(each, UUID) for each in known)):
            return self._around_version(schema, is_meant)
        here = (3, 0) if schema.id == UNREGISTERED else id_order(schema.id)
        ids = [each for each in known if each != schema.id and isinstance(each, int)]
        before = [each for each in reversed(ids) if id_order(each) < here]
        after = [each for each in ids if id_order(each) > here]
        return _nearest(self._found(before), self._found(after), is_meant)

    def _around_version(self, schema: RegisteredSchema, is_meant: Callable[[RegisteredSchema], bool]) -> Neighbours:
        """Return the same by the numbers of versions. All schemas are looked up: an id does not say its version."""
        others = (each for each in self.all() if each.id != schema.id)
        numbered = sorted(((each.version, each) for each in others if each.version is not None), key=_number)
        if schema.id == UNREGISTERED:
            return _nearest((each for _, each in reversed(numbered)), (), is_meant)
        here = schema.version
        if here is None:
            return Neighbours(None, None)
        of_name = [(version.number, each) for version, each in numbered if version.name == here.name]
        before = (each for number, each in reversed(of_name) if number < here.number)
        after = (each for number, each in of_name if number > here.number)
        return _nearest(before, after, is_meant)

    def all(self) -> Iterator[RegisteredSchema]:
        """Yield the accepted schemas, the largest ids first."""
        return self._found(in_order((*self.stored, *self.since))[::-1])

    def newest(self) -> Iterator[RegisteredSchema]:
        """Yield the accepted schemas with the largest ids, the largest first."""
        return self._found(in_order((*self.stored, *self.since))[: -NEWEST - 1 : -1])

    def _found(self, ids: Iterable[SchemaId]) -> Iterator[RegisteredSchema]:
        """Yield schemas by their ids, without those that cannot be read any more, such as for a lost reference."""
        found = (self.since.get(schema_id) or self.find(schema_id) for schema_id in ids)
        return (schema for schema in found if schema is not None and not schema.missing)


def _nearest(
    before: Iterable[RegisteredSchema], after: Iterable[RegisteredSchema], is_meant: Callable[[RegisteredSchema], bool]
) -> Neighbours:
    """Return the first that is meant on each side, the nearest first. A few are looked at: there may be thousands."""
    first = (next(filter(is_meant, islice(each, NEWEST)), None) for each in (before, after))
    return Neighbours(*first)


def _number(numbered: tuple[VersionNumber, RegisteredSchema]) -> int:
    return numbered[0].number


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


def shared_columns(
    spec: TableSpec, schema: RegisteredSchema, accepted: Accepted, *, of_key: bool
) -> tuple[SchemaFinding, ...]:
    """Return the fields of a JSON Schema that would become the column of another field, of an accepted schema.

    `e-mail` and `e_mail` both become `e_mail`, and the table does not know which of them a column is of. A field that
    shares its column in an accepted schema, from a release that did not refuse it, stays.
    """
    settings = spec.key_settings if of_key else spec.value_settings
    if schema.format != "JSON" or schema.id in accepted.stored:
        return ()
    others: dict[str, dict[str, SchemaId]] = {}
    for known in accepted.all():
        if known.format == "JSON" and known.id != schema.id:
            for path, key in _keys(known, settings).items():
                others.setdefault(path, {}).setdefault(key, known.id)
    around = f"{spec.metadata.prefix}key." if of_key else ""
    return tuple(
        SchemaFinding(around + path, _shared(key, *next(iter(others[path].items()))))
        for path, key in _keys(schema, settings).items()
        if path in others and key not in others[path]
    )


def _shared(key: str, other: str, schema_id: SchemaId) -> str:
    return f"is the column of {other}, in schema {schema_id}, and would be that of {key}: rename the new field"


@lru_cache(maxsize=2_000)
def _keys(schema: RegisteredSchema, settings: FormatSettings) -> Mapping[str, str]:
    """Return the names in JSON of the fields, by the paths of their columns."""
    return {path: column.key or column.name for path, column in walk(map_schema(schema, settings).columns)}


def refused_if_strict(
    spec: TableSpec, schema: RegisteredSchema, accepted: Accepted, *, of_key: bool
) -> tuple[StrictFinding, ...]:
    """Return what `evolution: strict` refuses in a schema that the table does not know yet.

    It is judged by itself, and compared with the accepted schemas that were registered just before and just after it.
    If records of several types may be in the topic, only schemas of the same record type are compared.
    """
    if spec.evolution != "strict" or schema.id in accepted.stored:
        return ()
    settings = spec.key_settings if of_key else spec.value_settings
    mapped = map_schema(schema, settings)

    def is_successive(other: RegisteredSchema) -> bool:
        known = map_schema(other, settings) if other.format == schema.format else None
        return (
            known is not None and not known.findings and (_one_subject(spec, of_key) or known.record == mapped.record)
        )

    def columns(each: RegisteredSchema) -> tuple[Column, ...]:
        found = map_schema(each, settings)
        fields = in_confluents_order(found.columns) if each.format == "JSON" else found.columns
        if not of_key:
            return fields
        is_struct = found.record is not None or not found.columns
        return (Column(f"{spec.metadata.prefix}key", Struct(fields) if is_struct else fields[0].type),)

    beside = accepted.around(schema, is_successive)
    found = [*_invalid(spec, schema, mapped.findings, of_key=of_key)]
    if beside.before is not None:
        found += _said(strict_findings(columns(beside.before), columns(schema)), "after", beside.before.id)
    if beside.after is not None:
        found += _said(strict_findings(columns(schema), columns(beside.after)), "before", beside.after.id)
    return tuple(found)


def _invalid(
    spec: TableSpec, schema: RegisteredSchema, own: Collection[SchemaFinding], *, of_key: bool
) -> Iterator[StrictFinding]:
    """Yield what Confluent's checker refuses in one schema, without what is among its `own` findings in other words."""
    settings = spec.key_settings if of_key else spec.value_settings
    around, known = f"{spec.metadata.prefix}key" if of_key else "", {each.path for each in own}
    for each in invalid_for_confluent(schema, settings):
        if each.rule not in WITH_LENIENT or each.path not in known:
            path = ".".join(filter(None, (around, each.path)))
            yield StrictFinding(path, f"{each.problem}: `evolution: strict`, {each.rule}")


def _one_subject(spec: TableSpec, of_key: bool) -> bool:
    subject = spec.key_subject if of_key else spec.value_subject
    return len(spec.topics) == 1 and subject.of(spec.topics[0], "key" if of_key else "value") is not None


def _said(found: Iterable[StrictFinding], where: str, other: SchemaId) -> Iterator[StrictFinding]:
    return (replace(each, problem=f"{each.problem}: `evolution: strict`, {where} schema {other}") for each in found)
