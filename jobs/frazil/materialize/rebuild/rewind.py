"""Where a rewind begins: a snapshot of the table, from which its topics are read again.

The state of a snapshot says exactly which offsets its rows and dead letters are of, so a rewind begins where a batch
ended, at the offsets that were asked for or before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from frazil.materialize.rebuild.topics import Offsets
from frazil.materialize.state import Standing
from frazil.model.errors import Misuse, RebuildError
from frazil.model.expired_letters import ExpiredLetters
from frazil.model.moments import rfc3339
from frazil.model.plan import TopicFacts
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot
from frazil.model.spec import StartTimestamp, TableSpec
from frazil.model.summary import batch_of, carries_state, state_in
from frazil.ports import Topics


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """As far back as Kafka has all records."""


@dataclass(frozen=True, slots=True)
class ToTimestamp:
    """To the first record of each partition with this timestamp or a later one."""

    at: datetime


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """To an offset of each partition that is named; the other partitions are read again from where that leads to."""

    offsets: Offsets


Target = ToEarliest | ToTimestamp | ToOffsets


def bases_of(
    spec: TableSpec,
    here: Standing,
    topics: Topics,
    facts: Sequence[TopicFacts],
    target: Target,
    others: Sequence[Standing] = (),
) -> Mapping[str, Snapshot]:
    """Return the snapshots to begin at, by table: those of one batch, in a group, of which `here` is the ledger.

    Raises Misuse for offsets that cannot be, and RebuildError if there is none.
    """
    there = {each.view.identifier: {batch_of(s): s for s in _carriers(each)} for each in others}
    states = [found for found in _states(here) if all(batch_of(found[0]) in batches for batches in there.values())]
    base = _base(spec, here, topics, facts, target, states)
    return {spec.identifier: base, **{name: batches[batch_of(base)] for name, batches in there.items()}}


def _base(
    spec: TableSpec,
    here: Standing,
    topics: Topics,
    facts: Sequence[TopicFacts],
    target: Target,
    states: Sequence[tuple[Snapshot, TableState]],
) -> Snapshot:
    match target:
        case ToEarliest():
            kept = takewhile(lambda each: _is_in_kafka(each[1], here.state, facts), states)
            found = next(iter(deque(kept, maxlen=1)), None)
        case ToTimestamp(at):
            first = {each.topic: topics.first_offsets(each, StartTimestamp(at)) for each in facts}
            found = _newest_before(states, first)
        case ToOffsets(offsets):
            _check_offsets(spec, here.state, offsets)
            found = _newest_before(states, offsets)
    if found is None:
        raise RebuildError(
            f"{spec.identifier}: the table has no snapshot from before that any more",
            hint=f"rewind to a later time or offset, or read all records again: `frazil rebuild {spec.identifier}`",
        )
    if _nexts(found[1]) == _nexts(here.state):
        raise Misuse(
            f"{spec.identifier}: there is nothing to read again: the table's last batch ends there",
            hint="rewind to an earlier time or offset; `frazil status` shows when the last batch ended",
        )
    return found[0]


def check_expired(spec: TableSpec, base: Snapshot, expired: ExpiredLetters, *, rows_uuid: str, now: datetime) -> None:
    """Raise RebuildError if dead letters may have been deleted that were read after the snapshot.

    Only their number is known, by partition, which does not say how many of them are earlier ones.
    """
    kept = spec.maintain.keep_dead_letters
    deleted = any(source[0] == rows_uuid for source in expired.by_source)
    if deleted and (kept is None or base.committed_at < now - kept):
        raise RebuildError(
            f"{spec.identifier}: dead letters that were read after {rfc3339(base.committed_at)}, where the rewind would"
            " begin, have been deleted because of their age",
            hint=f"rewind to a later time or offset, or run `frazil rebuild {spec.identifier}`",
        )


def _states(here: Standing) -> Iterator[tuple[Snapshot, TableState]]:
    """Yield the snapshots of the table that carry its state, newest first."""
    for snapshot in _carriers(here):
        yield snapshot, state_in(snapshot)


def _carriers(here: Standing) -> Iterator[Snapshot]:
    return (snapshot for snapshot in here.view.ancestry(here.view.head) if carries_state(snapshot))


def _newest_before(
    states: Sequence[tuple[Snapshot, TableState]], offsets: Offsets
) -> tuple[Snapshot, TableState] | None:
    return next((found for found in states if _is_before(_nexts(found[1]), offsets)), None)


def _is_before(nexts: Mapping[tuple[str, int], int], offsets: Offsets) -> bool:
    wanted = {(topic, n): offset for topic, each in offsets.items() for n, offset in each.items()}
    return all(nexts.get(place, offset) <= offset for place, offset in wanted.items())


def _is_in_kafka(state: TableState, table: TableState, facts: Sequence[TopicFacts]) -> bool:
    """Return whether Kafka has all offsets from this state on."""
    begins = {**{(s.topic, n): p.origin for s in table.sources for n, p in s.partitions.items()}, **_nexts(state)}
    return all(begins.get((f.topic, n), p.earliest) >= p.earliest for f in facts for n, p in f.partitions.items())


def _check_offsets(spec: TableSpec, state: TableState, offsets: Offsets) -> None:
    known = {(s.topic, n): p for s in state.sources for n, p in s.partitions.items()}
    for topic, each in offsets.items():
        for number, offset in each.items():
            progress = known.get((topic, number))
            if progress is None or not progress.origin <= offset <= progress.next:
                has = "no such partition" if progress is None else f"the offsets {progress.origin} to {progress.next}"
                raise Misuse(
                    f"{spec.identifier}: --to names offset {offset} of {topic}-{number}, and the table has {has}",
                    hint=f"`frazil explain {spec.identifier}` and `frazil verify` show the table's offsets",
                )


def _nexts(state: TableState) -> dict[tuple[str, int], int]:
    return {(source.topic, n): p.next for source in state.sources for n, p in source.partitions.items()}
