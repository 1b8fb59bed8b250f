"""The topics to create and the subjects that the job reads, from the settings and the table specs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from frazil.model.spec import SubjectSettings, TableSpec
from frazil.model.transforms import TransformSpec
from frazil.specs.keys import default_of, nowhere
from infra.settings.keys import PARTITIONS, RETENTION
from infra.settings.model import ConfluentKafka, ExternalKafka, Topic

TRADES = "stock_trades"
"""What the Datagen connector writes to."""
TOTALS = "stock_total_trades"
"""What the statements of Flink create and write to."""

USUAL = Topic(default_of(PARTITIONS, nowhere()), default_of(RETENTION, nowhere()))


def wanted_topics(kafka: ConfluentKafka | ExternalKafka, tables: Sequence[TableSpec]) -> dict[str, Topic]:
    """Return the topics to create, by name; in an external cluster, only those that the settings name.

    Flink creates its own: a topic without a schema would be a table without columns to it.
    """
    if isinstance(kafka, ExternalKafka):
        return dict(kafka.topics)
    names = {topic for table in tables for topic in table.topics} | ({TRADES} if kafka.datagen else set())
    names -= {TOTALS} if kafka.has_statements else set()
    return dict(sorted((dict.fromkeys(names, USUAL) | dict(kafka.topics)).items()))


def output_topics(tables: Sequence[TableSpec], transforms: Sequence[TransformSpec]) -> tuple[str, ...]:
    """Return the topics that the job sends rows to. Their users create them, with partitions and a retention."""
    outputs = (*(each.outputs for each in tables), *(each.outputs for each in transforms))
    return tuple(sorted({output.topic for its in outputs for output in its}))


def own_subjects(topics: Iterable[str], tables: Sequence[TableSpec]) -> tuple[str, ...]:
    """Return the subjects with the schemas of topics; a name that ends with * is a prefix.

    Table specs say how they are called; those of a topic that no table reads, as Confluent's clients call them.
    """
    return tuple(sorted({subject for topic in topics for subject in _subjects_of(topic, tables)}))


def _subjects_of(topic: str, tables: Sequence[TableSpec]) -> Iterator[str]:
    reading = [table for table in tables if topic in table.topics]
    for table in reading:
        if table.value_type is not None:
            yield _subject(table.value_subject, topic, "value")
        if table.key_type is not None:
            yield _subject(table.key_subject, topic, "key")
    if not reading:
        yield from (f"{topic}-{part}" for part in ("key", "value"))


def _subject(settings: SubjectSettings, topic: str, part: str) -> str:
    """Return the subject of a topic; if records name their own subjects, a pattern that matches them."""
    if settings.override is not None:
        return settings.override
    return {"topic": f"{topic}-{part}", "topic-record": f"{topic}-*", "record": "*"}[settings.naming]
