"""A registry and a broker in memory: tests/services/test_twins.py holds them against the real ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException

from frazil.model.errors import BrokerError, RegistryError, version_missing
from frazil.model.plan import TopicFacts
from frazil.model.schemas import UNREGISTERED, Reference, RegisteredSchema, SchemaDefinition
from frazil.model.spec import Start, StartLatest, StartOffsets, StartTimestamp

Fields = list[dict[str, Any]]


def record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def a_field(name: str, avro: object = "long", *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": avro, **({"aliases": list(aliases)} if aliases else {})}


@dataclass
class RegistryInMemory:
    """Schemas by id, and the newest id of each subject. `asked` counts what reached it."""

    schemas: dict[int, RegisteredSchema] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    down: bool = False
    asked: list[object] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)

    def register(
        self,
        subject: str,
        text: str,
        *,
        schema_format: Literal["AVRO", "PROTOBUF", "JSON"] = "AVRO",
        references: Sequence[tuple[str, str]] = (),
    ) -> RegisteredSchema:
        """As registries do, give one text one id. `references` are names with their subjects."""
        used = tuple(self._referenced(references))
        new = RegisteredSchema(len(self.schemas) + 1, schema_format, text, used)
        there = (
            each
            for each in self.schemas.values()
            if (each.format, each.text, each.references) == (schema_format, text, used)
        )
        schema = next(there, new)
        self.schemas[schema.id] = schema
        self.subjects[subject] = schema.id
        known = self.versions.setdefault(subject, [])
        if schema.id not in known:
            known.append(schema.id)
        return schema

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        self._answer(schema_id)
        if schema_id not in self.schemas:
            self.missing.add(schema_id)
        return self.schemas.get(schema_id)

    def remembers_missing(self, schema_id: int) -> bool:
        return schema_id in self.missing

    def latest(self, subject: str) -> RegisteredSchema | None:
        self._answer(subject)
        return None if subject not in self.subjects else self.schemas[self.subjects[subject]]

    def version(self, subject: str, number: int) -> RegisteredSchema:
        self._answer((subject, number))
        known = self.versions.get(subject, [])
        if number > len(known):
            raise version_missing(subject, number, range(1, len(known) + 1))
        return self.schemas[known[number - 1]]

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        assert not definition.references, "references are resolved by the real registry"
        return RegisteredSchema(UNREGISTERED, definition.format, definition.text)

    def subjects_under(self, prefix: str) -> Collection[str]:
        self._answer(prefix)
        return [subject for subject in self.subjects if subject.startswith(prefix)]

    def _referenced(self, references: Sequence[tuple[str, str]]) -> Iterator[Reference]:
        """Return what the references refer to, dependencies first, each once per name."""
        found: dict[Reference, None] = {}
        for name, subject in references:
            schema = self.schemas[self.subjects[subject]]
            found |= dict.fromkeys((*schema.references, Reference(name, schema.text)))
        yield from found

    def _answer(self, question: object) -> None:
        self.asked.append(question)
        if self.down:
            raise RegistryError("the registry is down", hint="wait")


@dataclass
class TopicsInMemory:
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def describe(self, topic: str) -> TopicFacts | None:
        self.asked.append(topic)
        if self.down:
            raise BrokerError("the broker is down", hint="wait")
        return self.facts.get(topic)

    def names(self) -> Collection[str]:
        return list(self.facts)

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        if isinstance(start, StartLatest):
            return {n: partition.end for n, partition in facts.partitions.items()}
        assert not isinstance(start, StartTimestamp), "records have no timestamps here"
        given = start.offsets if isinstance(start, StartOffsets) else {}
        return {n: given.get(n, partition.earliest) for n, partition in facts.partitions.items()}


@dataclass
class AdminInMemory:
    """A cluster; `refusals` are given to the first requests instead of topics."""

    partitions: dict[str, int] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    configurations: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def list_topics(self, *, timeout: float) -> Any:
        topics = {name: SimpleNamespace(partitions=range(count), error=None) for name, count in self.partitions.items()}
        return SimpleNamespace(topics=topics)

    def create_topics(self, new_topics: list[Any], *, request_timeout: float) -> Mapping[str, Future[None]]:
        return {topic.topic: self._made(topic) for topic in new_topics}

    def _made(self, topic: Any) -> Future[None]:
        future: Future[None] = Future()
        if self.refusals:
            future.set_exception(KafkaException(KafkaError(self.refusals.pop(0))))
            return future
        if topic.topic in self.partitions:
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
            return future
        self.partitions[topic.topic], self.configurations[topic.topic] = topic.num_partitions, topic.config
        future.set_result(None)
        return future


@dataclass
class SecretsInMemory:
    """A double of AWS Secrets Manager."""

    known: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str) -> str | None:
        return self.known.get(name)
