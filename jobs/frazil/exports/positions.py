"""Where a table had read to in a snapshot, by which the rows that came later are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import Standing
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import MetadataColumns
from frazil.model.summary import ROWS_UUID, carries_state, state_in
from frazil.proof.sources import SourceColumns
from frazil.proof.tally import each_partition

Offsets = Mapping[int, tuple[int, int]]
"""The next offset and the number of rows of each partition."""


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """One topic. `topic_id` and `generation` are those of its state (model/progress.py)."""

    topic_id: str | None
    generation: int
    partitions: Offsets

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.partitions.values())


@dataclass(frozen=True, slots=True)
class Positions:
    """The state of a table in a snapshot, as far as an export needs it.

    `foreign` counts the rows that other writers added and removed. `appends` says that its rows never change.
    """

    pipeline: str
    generation: int
    epoch: int
    batch_id: str
    foreign: int
    appends: bool
    topics: Mapping[str, TopicPositions]

    @property
    def rows(self) -> int:
        return sum(topic.rows for topic in self.topics.values())

    def same_rows(self, later: Positions) -> bool:
        """Return whether nothing was published in between."""
        mine, its = (self.pipeline, self.epoch, self.batch_id), (later.pipeline, later.epoch, later.batch_id)
        return mine == its and (self.generation, self.foreign) == (later.generation, later.foreign)

    def continued_by(self, later: Positions) -> bool:
        """Return whether a later state only adds rows of later offsets, and rows of replayed dead letters.

        It does not if the rows follow keys, if others changed rows, and after a rebuild, a rollback or a new topic of
        the same name.
        """
        owner, its = (self.pipeline, self.generation, self.foreign), (later.pipeline, later.generation, later.foreign)
        if owner != its or not (self.appends and later.appends):
            return False
        return all(name in later.topics and _continues(each, later.topics[name]) for name, each in self.topics.items())

    def lowest_late(self, later: Positions) -> int:
        """Return an offset that no later row is below."""
        known = {(name, n): next_ for name, topic in self.topics.items() for n, (next_, _) in topic.partitions.items()}
        every = [(name, n) for name, topic in later.topics.items() for n in topic.partitions]
        return min((known.get(each, 0) for each in every), default=0)

    def late(self, columns: SourceColumns, rows: pa.RecordBatch) -> pa.Array:
        """Return which rows came from a record after these positions."""
        partitions, offsets = (_numbers(rows.column(name)) for name in (columns.partition, columns.offset))
        found = np.zeros(rows.num_rows, np.bool_)
        for topic, here in _of_topics(columns, rows):
            known: Offsets = self.topics[topic].partitions if topic in self.topics else {}
            for number, where in each_partition(partitions):
                of_partition = here if where is None else here & where
                found |= of_partition & (offsets >= known.get(number, (0, 0))[0])
        return pa.array(found)

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "generation": self.generation,
            "epoch": self.epoch,
            "batch_id": self.batch_id,
            "foreign": self.foreign,
            "appends": self.appends,
            "topics": {
                name: {
                    "topic_id": topic.topic_id,
                    "generation": topic.generation,
                    "partitions": {
                        str(number): {"next": next_, "rows": rows} for number, (next_, rows) in topic.partitions.items()
                    },
                }
                for name, topic in self.topics.items()
            },
        }

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> Positions:
        topics = {
            name: TopicPositions(
                topic["topic_id"],
                topic["generation"],
                {int(number): (each["next"], each["rows"]) for number, each in topic["partitions"].items()},
            )
            for name, topic in value["topics"].items()
        }
        return Positions(**{**value, "topics": topics})


@dataclass(frozen=True, slots=True)
class Standpoint:
    """A snapshot's positions, with the columns that say which record a row came from and the whole state."""

    positions: Positions
    columns: SourceColumns
    state: TableState


def standpoint(view: TableView, snapshot_id: int) -> Standpoint | None:
    """Return the state at a snapshot; None for a table of others or of dead letters, or if its snapshot expired."""
    on_top: list[Snapshot] = []
    for snapshot in view.ancestry(snapshot_id):
        if ROWS_UUID in snapshot.summary:
            return None
        if carries_state(snapshot):
            state, others = state_in(snapshot), tuple(reversed(on_top))
            changes = count_foreign(Standing(view, state, snapshot, others, rolled_back=False))
            return _standpoint(view, state, changes.rows_added + changes.rows_removed)
        on_top.append(snapshot)
    return None


def _standpoint(view: TableView, state: TableState, foreign: int) -> Standpoint:
    applied = applied_spec_of(view.properties, table=view.identifier)
    prefix = MetadataColumns().prefix if applied is None else applied.prefix
    topics = {
        source.topic: TopicPositions(
            source.topic_id,
            source.generation,
            {number: (p.next, p.counts.rows) for number, p in sorted(source.partitions.items())},
        )
        for source in state.sources
    }
    positions = Positions(
        pipeline=state.pipeline,
        generation=state.generation,
        epoch=state.epoch,
        batch_id=state.batch_id,
        foreign=foreign,
        appends=applied is not None and applied.keys["write"] == "append",
        topics=topics,
    )
    topic = prefix + "topic" if len(state.sources) > 1 else None
    columns = SourceColumns(topic, prefix + "partition", prefix + "offset", state.topic_of_unnamed_rows)
    return Standpoint(positions, columns, state)


def _continues(before: TopicPositions, later: TopicPositions) -> bool:
    same = (before.topic_id, before.generation) == (later.topic_id, later.generation)
    return same and all(
        number in later.partitions and next_ <= later.partitions[number][0]
        for number, (next_, _) in before.partitions.items()
    )


def _of_topics(columns: SourceColumns, rows: pa.RecordBatch) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """Return each topic with its rows. Rows without a source are in none."""
    if columns.topic is None:
        known = rows.column(columns.partition).is_valid()
        return [(columns.unnamed_topic or "", np.asarray(known))]
    names = rows.column(columns.topic)
    if columns.unnamed_topic is not None:
        names = pc.fill_null(names, columns.unnamed_topic)
    topics = pc.unique(names).drop_null().to_pylist()
    return [(name, np.asarray(pc.fill_null(pc.equal(names, name), False))) for name in topics]


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, -1).to_numpy(zero_copy_only=False), np.int64)
