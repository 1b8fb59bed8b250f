"""What a table keeps of erased values: a keyed hash of each, and how far the topics were read (docs/decisions/0070)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ERASURES_PROPERTY = "frazil.erasures"
"""A table property: JSON of the hashes of erased values. It stays in a rebuild."""
ERASED = "erased"
"""The reason under which records with such a value, which are read again, are counted as skipped."""
AFTER_ALL = 2**63 - 1
"""An offset after all others."""


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """How far a topic was read when a value was erased: the next offset of each partition, in one generation."""

    generation: int
    ends: Mapping[int, int]

    def end(self, generation: int, partition: int) -> int:
        """Return the offset before which all records of a partition are from before the erasure."""
        if generation < self.generation:
            return AFTER_ALL
        return self.ends.get(partition, 0) if generation == self.generation else 0


@dataclass(frozen=True, slots=True)
class ErasedHash:
    """A value that was erased from a column: its hash by the key with the id `key`, and the topics as they were read.

    Records from then on may have the value again: a person may come back.
    """

    column: str
    key: str
    fingerprint: str
    hash: str
    read: Mapping[str, ReadBefore]

    def end(self, topic: str, generation: int, partition: int) -> int:
        """Return the offset before which records with the value are erased ones; 0 if none is."""
        read = self.read.get(topic)
        return 0 if read is None else read.end(generation, partition)

    def is_same(self, other: ErasedHash) -> bool:
        """Return whether both are of the same value, as far as one key shows it."""
        return (self.column, self.key, self.hash) == (other.column, other.key, other.hash)


def erased_hashes(properties: Mapping[str, str]) -> tuple[ErasedHash, ...]:
    """Return the hashes that a table keeps, in the order of their erasures."""
    return tuple(
        ErasedHash(
            each["column"],
            each["key"],
            each["fingerprint"],
            each["hash"],
            {
                topic: ReadBefore(at["generation"], {int(n): end for n, end in at["ends"].items()})
                for topic, at in each["read"].items()
            },
        )
        for each in json.loads(properties.get(ERASURES_PROPERTY, "[]"))
    )


def with_hash(kept: Iterable[ErasedHash], new: ErasedHash) -> dict[str, str]:
    """Return the property with a further hash. An earlier one of the same value, which was read less far, goes."""
    hashes = [*(each for each in kept if not each.is_same(new)), new]
    return {ERASURES_PROPERTY: json.dumps([_as_json(each) for each in hashes], ensure_ascii=False)}


def _as_json(each: ErasedHash) -> Mapping[str, object]:
    return {
        "column": each.column,
        "key": each.key,
        "fingerprint": each.fingerprint,
        "hash": each.hash,
        "read": {
            topic: {"generation": at.generation, "ends": {str(n): end for n, end in at.ends.items()}}
            for topic, at in each.read.items()
        },
    }
