"""The topics and the newest schemas that a table spec names, as the broker and the registry describe them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from frazil.materialize.layout import reads_keys_by_schema
from frazil.materialize.schema.routed import schema_of_route, takes
from frazil.model.errors import ServiceError, SubjectMissingError, TopicMissingError
from frazil.model.plan import TopicFacts, WriterSchemas
from frazil.model.progress import PartitionProgress, SourceProgress, TableState
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import TableSpec
from frazil.model.spelling import did_you_mean
from frazil.ports import SchemaRegistry, Topics


@dataclass(frozen=True, slots=True)
class LatestSchemas:
    """The newest schemas of a spec's subjects; empty where no schema is read, or each record names its own subject."""

    values: tuple[RegisteredSchema, ...]
    keys: tuple[RegisteredSchema, ...]

    @staticmethod
    def of(schemas: WriterSchemas) -> LatestSchemas:
        return LatestSchemas(tuple(schemas.values.values()), tuple(schemas.keys.values()))

    def by_id(self) -> WriterSchemas:
        return WriterSchemas({schema.id: schema for schema in self.values}, {schema.id: schema for schema in self.keys})


def latest_schemas(registry: SchemaRegistry, spec: TableSpec) -> LatestSchemas:
    """Return the newest schemas of the topics' subjects that the table can get records of. Raises SubjectMissingError.

    Values and keys that no schema decodes have none, and the registry is not asked.
    """
    of_values, of_keys = spec.value_type is not None, reads_keys_by_schema(spec)
    values = [_latest_value(registry, spec, topic) for topic in spec.topics if of_values]
    keys = [_latest(registry, spec, topic, of_key=True) for topic in spec.topics if of_keys]
    return LatestSchemas(_known(values), _known(keys))


def _known(found: Sequence[RegisteredSchema | None]) -> tuple[RegisteredSchema, ...]:
    return tuple({schema.id: schema for schema in found if schema is not None}.values())


def _latest_value(registry: SchemaRegistry, spec: TableSpec, topic: str) -> RegisteredSchema | None:
    name = schema_of_route(spec)
    if name is None or spec.value_subject.of(topic, "value") is not None:
        schema = _latest(registry, spec, topic, of_key=False)
    else:
        subject = name if spec.value_subject.naming == "record" else f"{topic}-{name}"
        schema = _as_named(registry.latest(subject), spec)
    return schema if schema is not None and takes(spec, schema) else None


def _latest(registry: SchemaRegistry, spec: TableSpec, topic: str, *, of_key: bool) -> RegisteredSchema | None:
    subject = spec.key_subject.of(topic, "key") if of_key else spec.value_subject.of(topic, "value")
    setting = "key_subject" if of_key else "subject"
    if subject is None:
        return None
    schema = _as_named(registry.latest(subject), spec)
    if schema is None:
        raise SubjectMissingError(
            f"{spec.identifier}: the schema registry has no subject {subject}, which should hold the schema of {topic}",
            hint=f"register it (a producer does with its first record), or set `{setting}` in {spec.source_file}",
        )
    return schema


def _as_named(schema: RegisteredSchema | None, spec: TableSpec) -> RegisteredSchema | None:
    """Return the schema with the id that records of the spec's topics name it by, if the registry says which."""
    if schema is None or schema.guid is None or spec.wire_format != "confluent_headers":
        return schema
    return replace(schema, id=schema.guid)


def describe_topics(topics: Topics, spec: TableSpec) -> tuple[TopicFacts, ...]:
    """Return the partitions and offsets of each topic. Raises TopicMissingError if one does not exist."""
    return tuple(_described(topics, spec, topic) for topic in spec.topics)


def _described(topics: Topics, spec: TableSpec, topic: str) -> TopicFacts:
    facts = topics.describe(topic)
    if facts is None:
        raise TopicMissingError(
            f"{spec.identifier}: the cluster has no topic {topic}, or this user may not see it",
            hint=missing_topic_hint(topics, topic, spec.source_file),
        )
    return facts


def added_topics(
    topics: Topics, spec: TableSpec, state: TableState, facts: Sequence[TopicFacts]
) -> tuple[SourceProgress, ...]:
    """Return the topics that the table has never been read from, at the offsets that the spec's `start` says.

    Raises BrokerError if the broker does not answer.
    """
    known = {source.topic for source in state.sources}
    return tuple(at_first_offsets(topics, spec, each) for each in facts if each.topic not in known)


def at_first_offsets(topics: Topics, spec: TableSpec, facts: TopicFacts) -> SourceProgress:
    first = topics.first_offsets(facts, spec.start)
    partitions = {number: PartitionProgress.beginning_at(offset) for number, offset in first.items()}
    return SourceProgress(facts.topic, facts.topic_id, 0, partitions)


def missing_topic_hint(topics: Topics, topic: str, source_file: str) -> str:
    """Name the topic of the cluster that was probably meant, if there is one."""
    try:
        likely = did_you_mean(topic, (name for name in topics.names() if not name.startswith("__")))
    except ServiceError:
        likely = None
    return f"{f'did you mean {likely}? ' if likely else ''}create the topic, or fix `topic` in {source_file}"
