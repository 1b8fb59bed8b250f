"""What would keep an output from being sent, asked before anything is sent (`frazil check`)."""

from __future__ import annotations

from frazil.model.errors import OutputHaltedError
from frazil.model.outputs import OutputSpec, SentTable
from frazil.model.spelling import plural
from frazil.outputs.ports import OutputSchemas, OutputTopics
from frazil.outputs.records import RecordShape, key_schema, value_schema


def enough_partitions(topics: OutputTopics, spec: SentTable, output: OutputSpec) -> int:
    """Return the number of partitions of an output's topic.

    Raises TopicMissingError, and OutputHaltedError if the output has more shards.
    """
    partitions = topics.partitions(output.topic)
    if output.shards > partitions:
        raise OutputHaltedError(
            f"{spec.identifier}: the output {output.name} has {output.shards} shards, and the topic"
            f" {output.topic} {plural(partitions, 'partition')}: expected no more shards than partitions",
            hint=f"write `shards: {partitions}`, or add partitions to the topic",
        )
    return partitions


def check_topic(topics: OutputTopics, spec: SentTable, output: OutputSpec) -> None:
    """Raise TopicMissingError, OutputHaltedError or BrokerError if the topic is missing, too small or not writable."""
    enough_partitions(topics, spec, output)
    topics.check_permissions(output)


def check_schemas(schemas: OutputSchemas, spec: SentTable, output: OutputSpec, shape: RecordShape) -> None:
    """Raise OutputSchemaError if the registry would refuse the schema of keys or values. Nothing is registered."""
    for each in (value_schema(spec, output, shape), key_schema(spec, output, shape)):
        if each is not None:
            schemas.check(each.subject, each.text)
