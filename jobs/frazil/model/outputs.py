"""Output topics: Kafka topics that follow a table, epoch by epoch (docs/decisions/0049)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

OUTPUT_PROPERTY = "frazil.output."
"""The beginning of the table property that records an output; then follows the output's name."""

OUTPUT_TAG = "frazil_output_"
"""The beginning of the tag on the last snapshot that an output has sent; then follows the output's name."""

OUTPUT_GROUP = "frazil-output-"
"""The beginning of the consumer groups and of the transactional ids of outputs."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One output topic of a table.

    `key` are the columns that make the key of a record; none for records without a key. `columns` are those of its
    value; none for all but the metadata columns.
    """

    topic: str
    name: str
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    shards: int = 1

    def __str__(self) -> str:
        columns = f", columns {', '.join(self.columns)}" if self.columns else ""
        key = f"key {', '.join(self.key)}" if self.key else "no key"
        return f"{self.name}: to {self.topic}, {key}{columns}, {self.shards} shards"

    @property
    def tag(self) -> str:
        return OUTPUT_TAG + self.name

    @property
    def property_name(self) -> str:
        return OUTPUT_PROPERTY + self.name


class SentTable(Protocol):
    """A table that outputs follow: that of a table spec, or of a transformation."""

    @property
    def database(self) -> str: ...

    @property
    def table(self) -> str: ...

    @property
    def identifier(self) -> str: ...

    @property
    def source_file(self) -> str: ...

    @property
    def replaces_rows(self) -> bool:
        """Return whether the key of a record is the identity of a row, which later epochs replace or delete."""
        ...

    @property
    def has_null_keys(self) -> bool:
        """Return whether null in a column of the key is a value as others."""
        ...

    @property
    def internal_columns(self) -> frozenset[str]:
        """The columns that records have only if they are named."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """The first records of an epoch that takes too long for one transaction: how many a shard has sent."""

    snapshot_id: int
    records: int


@dataclass(frozen=True, slots=True)
class Marker:
    """How far a shard has come: the last epoch that it sent, the epoch's snapshot, and when it was sent.

    `part` is what it has sent of the next epoch, if that takes several transactions.
    """

    epoch: int
    snapshot_id: int
    at: datetime | None = field(default=None, compare=False)
    part: Part | None = None

    def __str__(self) -> str:
        part = "" if self.part is None else f" and {self.part.records:,} records of snapshot {self.part.snapshot_id}"
        return f"epoch {self.epoch}, snapshot {self.snapshot_id}{part}"


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """What a table records about an output, which never changes but for `started`.

    The output follows the table from the epoch `first` on, whose rows it does not have. `started`: each shard has had a
    marker since, so that a missing one was lost. `key_schema` is the id of the schema of keys at that time, if they
    have one.
    """

    topic: str
    key: tuple[str, ...]
    shards: int
    first: Marker
    started: bool = False
    key_schema: int | None = None

    def text(self) -> str:
        first = {"epoch": self.first.epoch, "snapshot": self.first.snapshot_id}
        fields = {"topic": self.topic, "key": self.key, "shards": self.shards, "first": first, "started": self.started}
        return json.dumps(fields | ({} if self.key_schema is None else {"key_schema": self.key_schema}))


def record_in(properties: Mapping[str, str], output: OutputSpec) -> OutputRecord | None:
    """Return what the table records about an output; None before it first met it."""
    text = properties.get(output.property_name)
    if text is None:
        return None
    value = json.loads(text)
    return OutputRecord(
        topic=value["topic"],
        key=tuple(value["key"]),
        shards=value["shards"],
        first=Marker(value["first"]["epoch"], value["first"]["snapshot"]),
        started=value["started"],
        key_schema=value.get("key_schema"),
    )


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """One shard of an output: which transactional id and which offset of which group are its own."""

    table_uuid: str
    output: str
    topic: str
    shard: int

    @property
    def group(self) -> str:
        """The consumer group whose committed offsets are the markers of all shards, by partition."""
        return f"{OUTPUT_GROUP}{self.table_uuid}-{self.output}"

    @property
    def transactional_id(self) -> str:
        return f"{self.group}-{self.shard}"
