"""What a spec said when earlier records were read, kept in the table: `verify` decodes these records by it again.

A table follows a changed spec from the next batch on, so a record that was read before may be a row with a key that
the present spec refuses, or a dead letter for another reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.summary import carries_state, state_in

READ_BY = (
    "key",
    "fields",
    "metadata.keep",
    "message",
    "key_message",
    "on_bad_record",
    "on_tombstone",
    "cdc_placeholder",
)
"""Keys that a table may follow to another value, and that decide what a record becomes and why."""

MOST = 10
"""The number of changes that are kept, the newest ones: each has the offsets of all partitions."""


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """The next offsets of a topic's partitions. `generation` distinguishes topics of the same name."""

    topic: str
    generation: int
    partitions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class EarlierKeys:
    """The values that keys of the spec had, as text, until a change. Records before `until` were read by them.

    `epoch` is that of the last batch before the change, which may have replayed dead letters and read nothing.
    """

    keys: Mapping[str, str]
    until: tuple[ReadOffsets, ...]
    epoch: int = 0

    def end(self, topic: str, generation: int, partition: int) -> int:
        """Return the offset up to which records were read by these keys; 0 if none was."""
        found = (each for each in self.until if (each.topic, each.generation) == (topic, generation))
        return next((each.partitions.get(partition, 0) for each in found), 0)


def with_change(
    earlier: Sequence[EarlierKeys], before: Mapping[str, str], now: Mapping[str, str], view: TableView
) -> tuple[EarlierKeys, ...]:
    """Return the earlier keys of a table once its spec has changed from `before`: the newest ones, at most `MOST`.

    A spec under which nothing was read is left out. After a rollback, no earlier spec has read more than the table has.
    """
    changed = {key: before[key] for key in READ_BY if before[key] != now[key]}
    carrier = next((each for each in view.ancestry(view.head) if carries_state(each)), None)
    if carrier is None or not (changed or earlier):
        return tuple(earlier)
    state = state_in(carrier)
    until = _read_offsets(state)
    earlier = _clipped(earlier, until, state.epoch)
    if not changed:
        return tuple(earlier)
    if earlier and (earlier[-1].until, earlier[-1].epoch) == (until, state.epoch):
        changed |= earlier[-1].keys
        earlier = earlier[:-1]
    changed = {key: text for key, text in changed.items() if text != now[key]}
    return (*earlier, EarlierKeys(changed, until, state.epoch))[-MOST:] if changed and until else tuple(earlier)


def _read_offsets(state: TableState) -> tuple[ReadOffsets, ...]:
    """Return the next offsets of the partitions of which any have been read, whichever table of a group has them."""
    offsets = (
        ReadOffsets(
            source.topic, source.generation, {n: p.next for n, p in source.partitions.items() if p.next > p.origin}
        )
        for source in state.sources
    )
    return tuple(each for each in offsets if each.partitions)


def _clipped(earlier: Sequence[EarlierKeys], now: Sequence[ReadOffsets], epoch: int) -> tuple[EarlierKeys, ...]:
    """Return the earlier keys with ends up to which the table has read: a rollback may have taken it back."""
    read = {each.topic: each for each in now}
    clipped = (
        EarlierKeys(each.keys, tuple(_up_to(end, read.get(end.topic)) for end in each.until), min(each.epoch, epoch))
        for each in earlier
    )
    return tuple(each for each in clipped if any(end.partitions for end in each.until))


def _up_to(end: ReadOffsets, now: ReadOffsets | None) -> ReadOffsets:
    """Return the ends up to those that the table has read of the same topic now; none of one that it has not read."""
    if now is not None and now.generation > end.generation:
        return end
    read = now.partitions if now is not None and now.generation == end.generation else {}
    return replace(end, partitions={n: min(offset, read[n]) for n, offset in end.partitions.items() if n in read})


def keys_before(earlier: Sequence[EarlierKeys], place: int) -> dict[str, str]:
    """Return the keys that differed from the present ones at the time of the earlier keys at a place."""
    return {key: text for each in reversed(earlier[place:]) for key, text in each.keys.items()}


def earlier_document(earlier: Sequence[EarlierKeys]) -> list[dict[str, Any]]:
    return [
        {"keys": dict(each.keys), "until": [_until(offsets) for offsets in each.until], "epoch": each.epoch}
        for each in earlier
    ]


def _until(offsets: ReadOffsets) -> dict[str, Any]:
    return {"topic": offsets.topic, "generation": offsets.generation, "partitions": dict(offsets.partitions)}


def earlier_in(document: Sequence[Mapping[str, Any]]) -> tuple[EarlierKeys, ...]:
    """Return the earlier keys of a document. Raises ValueError, TypeError or KeyError for one of another form."""
    return tuple(
        EarlierKeys(
            dict(each["keys"]),
            tuple(
                ReadOffsets(at["topic"], at["generation"], {int(n): int(end) for n, end in at["partitions"].items()})
                for at in each["until"]
            ),
            each.get("epoch", 0),
        )
        for each in document
    )
