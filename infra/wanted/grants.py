"""The roles of each service account of Confluent Cloud: the least that its work needs, on named resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from frazil.model.outputs import OUTPUT_GROUP
from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec
from frazil.specs.kafka_keys import READER_GROUP
from infra.settings.model import ConfluentKafka
from infra.wanted.topics import TOTALS, TRADES, output_topics, own_subjects, wanted_topics
from shared.naming import Account

if TYPE_CHECKING:
    from infra.resources.confluent import RoleName

PREVIEWS = "data-preview*"
"""The topics to which a source connector writes previews for Confluent's console."""
TRANSACTIONS = "_confluent-flink_*"
"""The transactions in which Flink writes records."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role on a resource; a name that ends with * is a prefix, and cluster and environment have no name."""

    role: RoleName
    kind: Literal["topic", "group", "transactional-id", "subject", "cluster", "environment"]
    name: str = ""

    @property
    def id(self) -> str:
        return "-".join(filter(None, (self.role, self.kind, self.name)))


def grants(
    kafka: ConfluentKafka, tables: Sequence[TableSpec], consumer_groups: str, transforms: Sequence[TransformSpec] = ()
) -> Mapping[Account, tuple[Grant, ...]]:
    """Return the grants of each account that the cluster needs. `consumer_groups`: the prefix of consumer groups."""
    topics = wanted_topics(kafka, tables)
    read = sorted({topic for table in tables for topic in table.topics})
    subjects = own_subjects(topics, tables)
    given: dict[Account, Iterable[Grant]] = {
        "manager": _on("topic", "DeveloperManage", topics),
        "producer": (
            *_on("topic", "DeveloperWrite", topics),
            *_on("subject", "DeveloperWrite", subjects),
            *_on("subject", "DeveloperRead", kafka.subjects),
        ),
        "consumer": (
            *_on("topic", "DeveloperRead", topics),
            Grant("DeveloperRead", "group", f"{consumer_groups}*"),
            *_on("subject", "DeveloperRead", (*subjects, *kafka.subjects)),
        ),
        "registry": _on("subject", "ResourceOwner", (*subjects, *kafka.subjects)),
        "materializer": (
            *_on("topic", "DeveloperRead", read),
            Grant("DeveloperRead", "group", READER_GROUP),
            *_on("subject", "DeveloperRead", (*own_subjects(read, tables), *kafka.subjects)),
            *_outputs(output_topics(tables, transforms)),
        ),
    }
    if kafka.datagen:
        given["connector"] = _connector()
    if kafka.tableflow:
        given["tableflow"] = _tableflow(kafka.tableflow)
    if kafka.has_statements:
        given["flink"] = _flink()
    return {account: tuple(each) for account, each in given.items()}


def _on(kind: Literal["topic", "subject"], role: RoleName, names: Iterable[str]) -> Iterator[Grant]:
    return (Grant(role, kind, name) for name in dict.fromkeys(names))


def _outputs(topics: Sequence[str]) -> Iterator[Grant]:
    """Yield what output topics need (docs/outputs.md). Reading is asked for by the offset that is a topic's marker."""
    if not topics:
        return
    yield from _on("topic", "DeveloperWrite", topics)
    yield from _on("topic", "DeveloperRead", topics)
    yield Grant("DeveloperWrite", "transactional-id", f"{OUTPUT_GROUP}*")
    yield Grant("DeveloperRead", "group", f"{OUTPUT_GROUP}*")
    subjects = tuple(f"{topic}-{part}" for topic in topics for part in ("key", "value"))
    yield from _on("subject", "DeveloperWrite", subjects)
    yield from _on("subject", "DeveloperRead", subjects)


def _connector() -> Iterator[Grant]:
    """Return the grants that Confluent documents for source connectors, and the one for Avro's subjects."""
    yield Grant("DeveloperWrite", "topic", TRADES)
    yield Grant("DeveloperWrite", "subject", f"{TRADES}-value")
    yield Grant("DeveloperManage", "topic", PREVIEWS)
    yield Grant("DeveloperWrite", "topic", PREVIEWS)


def _tableflow(topics: Sequence[str]) -> Iterator[Grant]:
    """Yield Tableflow's grants. Catalog integrations need a cluster administrator; their stack adds Assigner."""
    yield Grant("CloudClusterAdmin", "cluster")
    yield from _on("subject", "DeveloperRead", (f"{topic}-value" for topic in topics))


def _flink() -> Iterator[Grant]:
    """Yield what Confluent documents for statements that read one table, and create and write another."""
    yield Grant("FlinkDeveloper", "environment")
    yield from (Grant(role, "transactional-id", TRANSACTIONS) for role in ("DeveloperRead", "DeveloperWrite"))
    yield Grant("DeveloperRead", "topic", TRADES)
    yield Grant("DeveloperRead", "subject", f"{TRADES}-value")
    yield from (Grant(role, "topic", TOTALS) for role in ("DeveloperManage", "DeveloperWrite"))
    subjects = tuple(f"{TOTALS}-{part}" for part in ("key", "value"))
    yield from _on("subject", "DeveloperWrite", subjects)
    yield from _on("subject", "DeveloperRead", subjects)
