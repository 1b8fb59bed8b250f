"""The status of each table: lag, freshness, row count, and why it is paused."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from threading import Lock
from typing import Any

from frazil.delta.in_snowflake import Look, Looks
from frazil.delta.standing import LogStanding, log_standing
from frazil.maintain.figures import Files, Throughput, files_of, throughput_of
from frazil.materialize.added_partitions import note_on_order
from frazil.materialize.changed_spec.applied_spec import ordered_as
from frazil.materialize.foreign import count_foreign
from frazil.materialize.group.complete import published_since, why_apart
from frazil.materialize.pause.history import Operation, operations
from frazil.materialize.pause.pausing import Pause, excluded_schemas, pause_of, under_ledger
from frazil.materialize.plan import source_problems
from frazil.materialize.rebuild.rebuilt_state import BegunRebuild, begun_rebuild
from frazil.materialize.replay.request import open_requests
from frazil.materialize.schema.notices import left_out
from frazil.materialize.sources import missing_topic_hint
from frazil.materialize.state import Standing, standing
from frazil.model.errors import CatalogError, ServiceError, TableError
from frazil.model.moments import rfc3339
from frazil.model.plan import TopicFacts
from frazil.model.progress import BatchRef, Counts, ForeignChanges
from frazil.model.schemas import SchemaId, in_order, stored_id
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import receipt_in
from frazil.outputs.standing import OutputStanding, output_standing
from frazil.ports import DeltaLogs, Lake, Snowflake, Topics

TABLES_AT_ONCE = 16

STATES = ("in trouble", "paused", "no table", "lag unknown", "behind", "caught up")
"""The states of a table, the ones that need a person first."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Records that are left to read, at most: `end` is the last stable offset, None where Kafka does not answer.

    The lag is unknown where the partition ends before the next offset: it is not the one that was read.
    """

    topic: str
    partition: int
    next: int
    end: int | None

    @property
    def lag(self) -> int | None:
        return None if self.end is None or self.end < self.next else self.end - self.next


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What the receipt in the table says of the last batch. `seconds` are of its steps up to its staging."""

    at: datetime
    batch_id: str
    counts: Counts
    seconds: float
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table. `problem` says what is wrong with it, and `kafka_problem` why its lag is unknown.

    `removed_topics` are those that the table was read from and the spec does not name any more.
    `delta` is None unless the table is offered as Delta, `delta_in_snowflake` unless Snowflake reads it as Delta.
    """

    table: str
    problem: str | None = None
    kafka_problem: str | None = None
    pause: Pause | None = None
    operations: tuple[Operation, ...] = ()
    epoch: int | None = None
    rows: int | None = None
    counts: Counts = field(default_factory=Counts)
    group: Counts | None = None
    """In the ledger of a group: the outcomes of all records of the group."""
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    partitions: tuple[PartitionLag, ...] = ()
    complete_through: datetime | None = None
    age_seconds: float | None = None
    last_batch: LastBatch | None = None
    throughput: Throughput | None = None
    files: Files | None = None
    snapshots: int | None = None
    foreign: ForeignChanges = field(default_factory=ForeignChanges)
    rolled_back: bool = False
    left_out: tuple[str, ...] = ()
    excluded_schemas: tuple[SchemaId, ...] = ()
    removed_topics: tuple[str, ...] = ()
    replay_requests: tuple[str, ...] = ()
    """The requests to replay dead letters that wait for a driver."""
    rebuild: BegunRebuild | None = None
    """A rebuild or a rewind that has not replaced the table yet."""
    order: str | None = None
    """What orders the records of a key since partitions were added to the topic; None if none was."""
    lacks_batch: BatchRef | None = None
    """The last batch of the group, if its ledger has it and this table does not: the next run completes it."""
    outputs: tuple[OutputStanding, ...] = ()
    delta: LogStanding | None = None
    delta_in_snowflake: Look | None = None

    @property
    def accounted(self) -> Counts:
        """The outcomes of all records that were read: those of the group for its ledger."""
        return self.counts if self.group is None else self.group

    @property
    def output_problem(self) -> str | None:
        """The reason why the first halted output is halted; None if none is."""
        return next((each.problem for each in self.outputs if each.problem is not None), None)

    @property
    def lag(self) -> int | None:
        """The number of unread offsets; None if it is not known, as for a table that does not exist yet."""
        lags = [partition.lag for partition in self.partitions] or [None]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    @property
    def lag_seconds(self) -> float | None:
        """The seconds since the oldest unread record may have arrived: 0 if all are read, None if that is unknown."""
        return 0.0 if self.lag == 0 else None if self.lag is None else self.age_seconds

    @property
    def state(self) -> str:
        """The state in one or two words, for a narrow column."""
        if self.problem is not None:
            return "no table" if self.epoch is None and self.problem.startswith("not created yet") else "in trouble"
        if self.pause is not None:
            return "paused"
        return {None: "lag unknown", 0: "caught up"}.get(self.lag, "behind")

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["excluded_schemas"] = [stored_id(each) for each in self.excluded_schemas]
        value["outputs"] = [{**asdict(each), "since": _text(each.since)} for each in self.outputs]
        value["complete_through"] = _text(self.complete_through)
        value["partitions"] = [{**asdict(each), "lag": each.lag} for each in self.partitions]
        if self.last_batch is not None:
            value["last_batch"]["at"] = _text(self.last_batch.at)
        if self.delta_in_snowflake is not None:
            value["delta_in_snowflake"]["looked_at"] = _text(self.delta_in_snowflake.looked_at)
        if self.throughput is not None:
            value["throughput"]["rows_per_second"] = round(self.throughput.rows_per_second, 3)
        return {"state": self.state, "lag": self.lag, "lag_seconds": self.lag_seconds, **value}


def _text(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)


def table_statuses(
    lake: Lake,
    topics: Topics,
    specs: Sequence[TableSpec],
    *,
    delta_logs: Callable[[], DeltaLogs],
    now: datetime,
    snowflake: Snowflake | None = None,
    views: dict[str, TableView] | None = None,
) -> Iterator[TableStatus]:
    """Return each table's status. A failing table or an unreachable Kafka is reported and hides no other table.

    `snowflake` is asked when it looked at Delta logs. `views` gets the metadata of each table by its name, for callers
    that need more of it.

    Raises CatalogError where the catalog does not answer.
    """
    ends, looks = _Ends(topics), None if snowflake is None else Looks(snowflake)
    for spec, (view, found) in zip(specs, _looked_at(lake, ends, specs, now), strict=True):
        status = found
        if views is not None and view is not None:
            views[spec.identifier] = view
        if view is not None and "delta" in spec.formats:
            log = log_standing(view, delta_logs())
            look = looks.of(spec, view, log, now=now) if looks is not None and "snowflake" in spec.readers else None
            status = replace(status, delta=log, delta_in_snowflake=look)
        yield status


def _looked_at(
    lake: Lake, ends: _Ends, specs: Sequence[TableSpec], now: datetime
) -> Iterator[tuple[TableView | None, TableStatus]]:
    """Look at several tables at once, because most of the time is spent waiting for storage and for Kafka."""

    def look(spec: TableSpec) -> tuple[TableView | None, TableStatus]:
        ledger = None if spec.ledger is None else lake.load(spec.ledger)  # first, because it gets each batch first
        view = lake.load(spec.identifier)
        status = _status(view if view is None else under_ledger(view, ledger), ends, spec, now)
        if view is not None and ledger is not None:
            status = _beside_ledger(status, spec, view, ledger)
        return view, status

    with garbage_collection_paused(), ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="status") as pool:
        try:
            yield from pool.map(look, specs)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause Python's search for cycles of objects that are no longer used, while tables are read.

    Metadata has none, and each search visits all objects of the tables read before: more work than reading them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True)
class _Ends:
    """Where topics end, each asked for once; after the broker has not answered once it is not asked again."""

    topics: Topics
    known: dict[str, TopicFacts | None] = field(default_factory=dict)
    problem: str | None = None
    asking: dict[str, Lock] = field(default_factory=dict)

    def of(self, topic: str) -> TopicFacts | None:
        with self.asking.setdefault(topic, Lock()):
            if topic not in self.known and self.problem is None:
                try:
                    self.known[topic] = self.topics.describe(topic)
                except ServiceError as error:
                    self.problem = f"{error.what}; {error.hint}"
            return self.known.get(topic)


def _status(view: TableView | None, ends: _Ends, spec: TableSpec, now: datetime) -> TableStatus:
    if view is None:
        return TableStatus(spec.identifier, problem="not created yet: run `frazil materialize`")
    try:
        at = standing(view, pipeline=spec.pipeline)
        foreign, rebuild = count_foreign(at), begun_rebuild(view, at.state)
    except (TableError, CatalogError) as error:
        return TableStatus(spec.identifier, problem=error.what, pause=pause_of(view.properties))
    through, head = at.state.complete_through, view.head_snapshot()
    partitions = tuple(_lags(spec, at, ends))
    return TableStatus(
        table=spec.identifier,
        problem=_problem(spec, at, ends),
        kafka_problem=ends.problem,
        pause=pause_of(view.properties),
        operations=operations(view.properties),
        epoch=at.state.epoch,
        rows=None if head is None else head.live_rows,
        counts=at.state.total(),
        group=None if at.state.group is None else at.state.group.total(),
        skipped_by_reason=at.state.skipped_by_reason,
        partitions=partitions,
        complete_through=through,
        age_seconds=None if through is None else (now - through).total_seconds(),
        last_batch=_last_batch(at),
        throughput=throughput_of(view, now=now),
        files=files_of(view, target_bytes=spec.maintain.target_file_bytes),
        snapshots=len(view.snapshots),
        foreign=foreign,
        rolled_back=at.rolled_back,
        left_out=left_out(view.properties),
        excluded_schemas=in_order(excluded_schemas(view.properties).ids),
        removed_topics=tuple(source.topic for source in at.state.sources if source.topic not in spec.topics),
        replay_requests=tuple(map(str, open_requests(view.properties))),
        rebuild=rebuild,
        order=note_on_order(spec, at),
        outputs=tuple(output_standing(view, output) for output in spec.outputs),
    )


def _beside_ledger(status: TableStatus, spec: TableSpec, view: TableView, ledger: TableView) -> TableStatus:
    """Return the status with what the table of a group lacks, if its state and that of the ledger can be read."""
    try:
        at, first = (standing(each, pipeline=spec.pipeline) for each in (view, ledger))
    except (TableError, CatalogError):
        return status
    group = first.state.group
    if at.state.itself == first.state.itself or group is None or not group.has(spec.table):
        return status
    if published_since(first, at):
        return status
    why = why_apart(first, at)
    if not why:
        return replace(status, lacks_batch=first.state.itself)
    problem = f"the tables of {spec.pipeline.name} are not at one batch: {why}; see docs/operate.md, GroupApartError"
    return replace(status, problem=status.problem or problem)


def _problem(spec: TableSpec, at: Standing, ends: _Ends) -> str | None:
    """Return the problem that `materialize` would stop for, or None, as far as Kafka answers."""
    topics = [(topic, ends.of(topic)) for topic in spec.topics]
    if ends.problem is not None:
        return None
    for topic, facts in topics:
        if facts is None:
            return f"the cluster has no topic {topic}, or this user may not see it; {_hint(ends, topic, spec)}"
    problems = source_problems(
        ordered_as(spec, at.view.properties), at, [facts for _, facts in topics if facts is not None]
    )
    return problems[0].what if problems else None


def _hint(ends: _Ends, topic: str, spec: TableSpec) -> str:
    return missing_topic_hint(ends.topics, topic, spec.source_file)


def _lags(spec: TableSpec, at: Standing, ends: _Ends) -> Iterator[PartitionLag]:
    """Yield the lag of each partition that the table or the topic has."""
    known = {source.topic: source.partitions for source in at.state.sources}
    for topic in spec.topics:
        facts = ends.of(topic)
        found = {} if facts is None else facts.partitions
        for number in sorted({*known.get(topic, {}), *found}):
            progress, partition = known.get(topic, {}).get(number), found.get(number)
            start = progress.next if progress is not None else 0 if partition is None else partition.earliest
            yield PartitionLag(topic, number, start, None if partition is None else partition.end)


def _last_batch(at: Standing) -> LastBatch | None:
    receipt = receipt_in(at.carrier)
    if receipt is None or receipt.forgotten is not None:
        return None
    return LastBatch(
        at=at.carrier.committed_at,
        batch_id=at.state.batch_id,
        counts=receipt.counts,
        seconds=round(sum(receipt.seconds.values()), 3),
        snapshot_id=at.carrier.id,
    )
