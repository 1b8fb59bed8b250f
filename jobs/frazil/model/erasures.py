"""What a table keeps of erased values: a keyed hash of each, and how far the topics were read (docs/decisions/0070)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

HASH_PREFIX = "frazil.erased.value."
"""Table properties: JSON of the hash of one erased value each, so that two erasures at once keep both."""
LETTERS_PREFIX = "frazil.erased.letters."
"""Table properties: JSON of the offsets of the dead letters that one run erased, by topic and partition."""
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

    def joined(self, earlier: ReadBefore | None) -> ReadBefore:
        """Return how far the topic was read at one of two erasures: partitions may be read again from further back."""
        if earlier is None or earlier.generation != self.generation:
            return self
        ends = {n: max(self.ends.get(n, 0), earlier.ends.get(n, 0)) for n in {*self.ends, *earlier.ends}}
        return replace(self, ends=dict(sorted(ends.items())))


@dataclass(frozen=True, slots=True)
class ErasedHash:
    """A value that was erased from a column: its hash by the key with the id `key`, and the topics as they were read.

    Records from then on may have the value again: a person may come back. `former` are paths that the column had: a
    rebuild by schemas without its aliases has columns of these names again.
    """

    column: str
    key: str
    fingerprint: str
    hash: str
    read: Mapping[str, ReadBefore]
    former: tuple[str, ...] = ()

    def end(self, topic: str, generation: int, partition: int) -> int:
        """Return the offset before which records with the value are erased ones; 0 if none is."""
        read = self.read.get(topic)
        return 0 if read is None else read.end(generation, partition)

    def is_by(self, key: str, fingerprint: str) -> bool:
        """Return whether the hash was made with a key."""
        return (self.key, self.fingerprint) == (key, fingerprint)

    @property
    def name(self) -> str:
        """The name of the property, the same for each erasure of the value by one key."""
        digest = hashlib.sha256(json.dumps([self.column, self.key, self.hash]).encode())
        return HASH_PREFIX + digest.hexdigest()[:32]


def kept_of_erasures(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of erasures. They stay in a rebuild."""
    return {name: text for name, text in properties.items() if name.startswith((HASH_PREFIX, LETTERS_PREFIX))}


def erased_hashes(properties: Mapping[str, str]) -> tuple[ErasedHash, ...]:
    """Return the hashes that a table keeps."""
    return tuple(_from_json(properties[name]) for name in sorted(properties) if name.startswith(HASH_PREFIX))


def with_hash(properties: Mapping[str, str], new: ErasedHash) -> dict[str, str]:
    """Return the property of a hash: with topics that were read further, or only, when the value was erased before."""
    before = _from_json(properties[new.name]) if new.name in properties else replace(new, read={})
    read = {**before.read, **{topic: at.joined(before.read.get(topic)) for topic, at in new.read.items()}}
    former = tuple(dict.fromkeys((*before.former, *new.former)))
    return {new.name: json.dumps(_as_json(replace(new, read=read, former=former)), ensure_ascii=False)}


Spans = tuple[tuple[int, int], ...]
"""Offsets as ranges without their ends, ascending."""


def erased_letters(properties: Mapping[str, str]) -> dict[tuple[str, int, int], list[Spans]]:
    """Return the offsets of erased dead letters of each topic, generation and partition, by erasure."""
    found: dict[tuple[str, int, int], list[Spans]] = {}
    for name in sorted(properties):
        for each in json.loads(properties[name]) if name.startswith(LETTERS_PREFIX) else ():
            place = (each["topic"], each["generation"], each["partition"])
            found.setdefault(place, []).append(tuple((first, end) for first, end in each["offsets"]))
    return found


def with_letters(
    properties: Mapping[str, str], writer: str, offsets: Mapping[tuple[str, int, int], Iterable[int]]
) -> dict[str, str]:
    """Return the property of the dead letters that a run erases, with those that it has erased before."""
    before = erased_letters({n: text for n, text in properties.items() if n == LETTERS_PREFIX + writer})
    every = {place: {*_in(before.get(place, ())), *offsets.get(place, ())} for place in {*before, *offsets}}
    kept = [
        {"topic": topic, "generation": generation, "partition": n, "offsets": _spans(some)}
        for (topic, generation, n), some in sorted(every.items())
        if some
    ]
    return {LETTERS_PREFIX + writer: json.dumps(kept, ensure_ascii=False)} if kept else {}


def _in(erasures: Iterable[Spans]) -> Iterable[int]:
    return (offset for spans in erasures for first, end in spans for offset in range(first, end))


def _spans(offsets: Iterable[int]) -> list[list[int]]:
    spans: list[list[int]] = []
    for offset in sorted(offsets):
        if spans and spans[-1][1] == offset:
            spans[-1][1] += 1
        else:
            spans.append([offset, offset + 1])
    return spans


def _from_json(text: str) -> ErasedHash:
    each = json.loads(text)
    read = {
        topic: ReadBefore(at["generation"], {int(n): end for n, end in at["ends"].items()})
        for topic, at in each["read"].items()
    }
    return ErasedHash(each["column"], each["key"], each["fingerprint"], each["hash"], read, tuple(each["former"]))


def _as_json(each: ErasedHash) -> Mapping[str, object]:
    return {
        "column": each.column,
        "key": each.key,
        "fingerprint": each.fingerprint,
        "hash": each.hash,
        "former": each.former,
        "read": {
            topic: {"generation": at.generation, "ends": {str(n): end for n, end in at.ends.items()}}
            for topic, at in each.read.items()
        },
    }
