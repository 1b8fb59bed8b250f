"""Output topics of a real cluster that report the moments of a send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from frazil.adapters.iceberg.snapshot_rows import SnapshotRows
from frazil.adapters.kafka.output_topics import KafkaOutputTopics
from frazil.adapters.output_schemas import RegistrySchemas
from frazil.model.outputs import Marker, OutputSpec, ShardPlace
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.outputs.ports import Encoded, OutputClients, ShardProducer

Reach = Callable[[str], None]

MOMENTS = ("taken over", "in transaction", "before commit", "marked", "sent")


def watched_outputs(kafka: Mapping[str, SettingValue], registry: RegistrySettings, reach: Reach) -> OutputClients:
    return OutputClients(WatchedTopics(KafkaOutputTopics(kafka), reach), RegistrySchemas(registry), SnapshotRows())


@dataclass
class WatchedTopics:
    topics: KafkaOutputTopics
    reach: Reach

    def partitions(self, topic: str) -> int:
        return self.topics.partitions(topic)

    def check_permissions(self, output: OutputSpec) -> None:
        self.topics.check_permissions(output)

    def markers(self, places: Sequence[ShardPlace]) -> list[Marker | None] | None:
        return self.topics.markers(places)

    def open(self, place: ShardPlace) -> ShardProducer:
        producer = WatchedProducer(self.topics.open(place), self.reach)
        self.reach("taken over")
        return producer


@dataclass
class WatchedProducer:
    """Reports transactions with records only. Records that are in a transaction have reached the broker."""

    producer: ShardProducer
    reach: Reach
    records: int = 0

    def marker(self) -> Marker | None:
        return self.producer.marker()

    def begin(self) -> None:
        self.records = 0
        self.producer.begin()

    def add(self, records: Encoded) -> None:
        self.producer.add(records)
        self.records += len(records)
        self.producer._producer.flush(30)  # type: ignore[attr-defined]
        self.reach("in transaction")

    def commit(self, marker: Marker) -> None:
        if self.records:
            self.reach("before commit")
            self._report_marked()
        self.producer.commit(marker)
        if self.records:
            self.reach("sent")

    def _report_marked(self) -> None:
        """Report when the marker is in the transaction, which is not committed yet."""
        send_marker = type(self.producer)._send_marker  # type: ignore[attr-defined]

        def reported(marker: Marker) -> None:
            send_marker(self.producer, marker)
            self.reach("marked")

        self.producer._send_marker = reported  # type: ignore[attr-defined]

    def abort(self) -> None:
        self.producer.abort()

    def close(self) -> None:
        self.producer.close()
