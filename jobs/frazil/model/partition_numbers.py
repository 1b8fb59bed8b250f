"""Partitions of several topics as one whole number each."""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 2**32
"""More than the partitions of any topic."""


@dataclass(frozen=True, slots=True)
class PartitionNumbers:
    """Numbers the partitions of all topics that a table was ever read from, in the order in which they came.

    So a number stays the same when a topic is added or removed, and the first topic's partitions have their own.
    `unnamed` is the topic of rows that name none; None if each row names its topic.
    """

    topics: tuple[str, ...] = ()
    unnamed: str | None = None

    @property
    def has_several(self) -> bool:
        return len(self.topics) > 1

    def number(self, topic: str, partition: int) -> int:
        """Return the number of a partition. That of a single topic is its own."""
        return (self.topics.index(topic) if self.has_several else 0) * PARTITIONS + partition

    def source(self, number: int) -> tuple[str, int]:
        """Return the topic and the partition with this number."""
        place, partition = divmod(number, PARTITIONS)
        return self.topics[place], partition
