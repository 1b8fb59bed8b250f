"""One table in one process: its batches, each step in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol

from frazil.maintain.background import Background
from frazil.maintain.expiring import Expiring
from frazil.materialize.account import Ingested, gather
from frazil.materialize.announce_delta import LogProgress, announce_delta
from frazil.materialize.announce_snowflake import Telling
from frazil.materialize.branches import STAGE_PREFIX, branch_names
from frazil.materialize.create import describe_topics, ensure_table
from frazil.materialize.dead_letters import drop_others, ensure_dead_letters, prepare, reveal
from frazil.materialize.evolve import Absorbed, evolve
from frazil.materialize.fenced_pause import pause_at
from frazil.materialize.fitted import fitted
from frazil.materialize.follow_spec import follow_partitioning, follow_spec
from frazil.materialize.ingest.distribute import task_context, tasks_of
from frazil.materialize.limits import check_limits, through
from frazil.materialize.pausing import PAUSED_PROPERTY, accepted_through, pause_property
from frazil.materialize.plan import plan_batch, replaced_since
from frazil.materialize.publish import publish
from frazil.materialize.stage import ReadBatch
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.delta import Announced, LogFailed, LogWritten, Withheld
from frazil.model.errors import (
    BadRecordLimitError,
    CountMismatchError,
    FrazilError,
    IncompatibleSchemaError,
    RecordsLostError,
)
from frazil.model.plan import BatchPlan, Halt, NothingToDo, Plan, TopicFacts, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import TableView
from frazil.model.spec import RegistrySettings, SettingValue, TableSpec
from frazil.ports import DeltaLogs, Lake, SchemaRegistry, Snowflake, TaskRunner, Topics

LOG = logging.getLogger(__name__)

Step = Literal["evolve", "plan", "ingest", "prepare", "stage", "publish", "reveal", "announce"]
STEPS: tuple[Step, ...] = ("evolve", "plan", "ingest", "prepare", "stage", "publish", "reveal", "announce")

DEAD_LETTERS_EVERY = 60
"""Batches between two looks at the snapshots of dead letters, which costs a read of their metadata."""

Observer = Callable[[Literal["before", "after"], Step], None]


@dataclass(frozen=True, slots=True)
class Doors:
    """The outside world, as the steps use it. `observe` is called before and after every step.

    `delta_logs` opens its door when the first table needs it, which costs an import. `snowflake` is there where the
    settings name a user who may refresh external tables.
    """

    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    runner: TaskRunner
    kafka: Mapping[str, SettingValue]
    registry_settings: RegistrySettings
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    announce: Callable[[Receipt], None]
    observe: Observer
    delta_logs: Callable[[], DeltaLogs]
    snowflake: Snowflake | None = None
    background: Background = field(default_factory=Background)


class Doorkeeper(Protocol):
    """Gives the doors as they are to be opened now: secrets may have changed since the process started."""

    def doors(self) -> Doors: ...

    def doubt(self) -> None:
        """Something outside failed, so a secret may no longer be good."""
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """A batch became visible; `delta` is the result of announcing it to Delta readers, if the spec has any."""

    receipt: Receipt
    standing: Standing
    delta: Announced | None


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing became visible, and the next plan will differ: a new schema was met, the table was rolled back, or the
    topic changed."""


Outcome = Published | Again | NothingToDo


@dataclass(slots=True)
class TableRun:
    """What one process knows of one table. `writer` is its id, new in every process; `state` the last one seen.

    Without a `keeper` the doors stay as they are.
    """

    spec: TableSpec
    doors: Doors
    writer: str
    adopt: bool = False
    keeper: Doorkeeper | None = None
    absorbed: Absorbed = field(default_factory=lambda: Absorbed({}, {}))
    met: WriterSchemas = field(default_factory=lambda: WriterSchemas({}, {}))
    seconds: dict[str, float] = field(default_factory=dict)
    said: set[tuple[str, str]] = field(default_factory=set)
    state: TableState | None = None
    delta_log: LogProgress = field(default_factory=LogProgress)
    telling: Telling = field(default_factory=Telling)
    stage_names: Iterator[str] = field(init=False)
    expiring: Expiring = field(init=False)
    expiring_dead_letters: Expiring = field(init=False)
    looks: int = 0
    planned_on: TableState | None = None

    def __post_init__(self) -> None:
        self.stage_names = branch_names(STAGE_PREFIX, self.writer)
        keep = self.spec.maintain.keep_snapshots
        self.expiring, self.expiring_dead_letters = Expiring(keep, CHECKPOINT_TAG), Expiring(keep, CHECKPOINT_TAG)

    def renew_doors(self) -> None:
        """Between batches only: a batch ends with what it began with."""
        if self.keeper is not None:
            self.doors = self.keeper.doors()

    def doubt_doors(self) -> None:
        if self.keeper is not None:
            self.keeper.doubt()

    def batch(self) -> Outcome:
        """Carry out one batch: evolve → plan → ingest → stage → publish → announce.

        Raises FrazilError; in each case the table is as it was, or carries the whole batch.
        """
        self.seconds = {}
        with self._step("evolve"):
            here, dead_letters = self._evolved()
        self.planned_on = here.state
        planned_at = self.doors.now()
        with self._step("plan"):
            plan = self._plan(here)
        if not isinstance(plan, BatchPlan):
            return self._without_a_batch(plan, here)
        with self._step("ingest"):
            got = self._ingest_as_planned(plan, here.view, dead_letters)
        if got is None or not got.advanced:
            return Again()
        return self._make_visible(plan, here, got, planned_at)

    def create(self) -> TableView:
        """Make the tables, empty, where they are missing, and the log beside them where one is asked for.

        A table that exists gets what a batch begins with: a changed spec and the columns of new schemas.
        """
        view = self._created() if self.doors.lake.load(self.spec.identifier) is None else self._evolved()[0].view
        self._announce_delta(view)
        return view

    def _created(self) -> TableView:
        doors = self.doors
        view = ensure_table(
            doors.lake, doors.topics, doors.registry, self.spec, new_writer=self.writer, adopt=self.adopt
        )
        ensure_dead_letters(doors.lake, self.spec, standing(view, pipeline=self.spec.pipeline))
        return view

    def _evolved(self) -> tuple[Standing, TableView]:
        """The tables, there and with columns for all that known writers write; what a dead run left is finished."""
        doors = self.doors
        view = self._created()
        here = standing(view, pipeline=self.spec.pipeline)
        self.planned_on = here.state
        self.expiring.look(view, now=doors.now())
        if here.state.batch_id:
            reveal(doors.lake, self.spec.dead_letters_identifier, state=here.state, rows_uuid=view.uuid)
        if PAUSED_PROPERTY not in view.properties:
            view = follow_spec(doors.lake, self.spec, view)
            view = self._evolve(standing(view, pipeline=self.spec.pipeline))
            view = follow_partitioning(doors.lake, self.spec, view)
        here = standing(view, pipeline=self.spec.pipeline)
        dead_letters = ensure_dead_letters(doors.lake, self.spec, here)
        self.expiring_dead_letters.look(dead_letters, now=doors.now())
        return here, dead_letters

    def _evolve(self, here: Standing) -> TableView:
        with self._paused_by_schemas():
            return evolve(
                self.doors.lake,
                self.doors.registry,
                self.spec,
                here.view,
                state=here.state,
                met=self.met,
                absorbed=self.absorbed,
            )

    @contextmanager
    def _paused_by_schemas(self) -> Iterator[None]:
        """A schema that does not fit pauses the table, whether the driver finds out or a task."""
        try:
            yield
        except IncompatibleSchemaError as refused:
            self._pause(refused)
            raise

    def _plan(self, here: Standing) -> Plan:
        topics = describe_topics(self.doors.topics, self.spec)
        self._say_once(here, topics)
        schemas = self.absorbed.as_writer_schemas()
        return plan_batch(self.spec, here, topics, schemas=schemas, batch_id=self.doors.new_id())

    def _without_a_batch(self, plan: Halt | NothingToDo, here: Standing) -> NothingToDo:
        """A Delta log that is behind is brought up to date all the same, and so is who looks at it when told."""
        self._announce_delta(here.view)
        self._tell_snowflake()
        if isinstance(plan, Halt):
            raise plan.error
        self.state = plan.state
        self._expire(here.view)
        return plan

    def _say_once(self, here: Standing, topics: Sequence[TopicFacts]) -> None:
        """What is no failure, but the operator should know."""
        notes = {f"no_topic_id {facts.topic}" for facts in topics if facts.topic_id is None}
        notes |= {f"rolled_back_to_epoch {here.state.epoch}"} if here.rolled_back else set()
        notes |= {f"changed_by_others {snapshot.name}" for snapshot in here.foreign}
        for note in sorted(notes):
            event, _, about = note.partition(" ")
            self._warn_once(event, about)

    def _warn_once(self, event: str, about: str) -> None:
        if (event, about) not in self.said:
            LOG.warning(event, extra={"table": self.spec.identifier, "about": about})
        self.said.add((event, about))

    def _ingest_as_planned(self, plan: BatchPlan, rows: TableView, dead_letters: TableView) -> Ingested | None:
        """None where the topic changed after the plan was made: the next plan says how, or begins later."""
        try:
            got = self._ingest(plan, rows, dead_letters)
        except RecordsLostError:
            if plan.state.epoch:
                raise
            return None
        return None if replaced_since(plan, describe_topics(self.doors.topics, self.spec)) else got

    def _ingest(self, plan: BatchPlan, rows: TableView, dead_letters: TableView) -> Ingested:
        doors = self.doors
        context = task_context(
            self.spec,
            plan,
            rows,
            dead_letters,
            writer=self.writer,
            kafka=doors.kafka,
            registry=doors.registry_settings,
            storage=doors.lake.storage,
        )
        doors.runner.start()
        tasks = tasks_of(plan, context, parallelism=doors.runner.parallelism)
        with self._paused_by_schemas():
            results = doors.runner.run(tasks, name=f"{plan.table} epoch {plan.epoch}")
        got = gather(plan, results)
        self.met = self._resolved(got)
        try:
            check_limits(self.spec, got, accepted=accepted_through(rows.properties))
        except BadRecordLimitError as exceeded:
            self._keep_for_a_look(plan, got)
            self._pause(exceeded, got)
            raise
        return got

    def _keep_for_a_look(self, plan: BatchPlan, got: Ingested) -> None:
        """Keep the dead letters of a batch that is not published on the branch where they were to be prepared."""
        table = self.spec.dead_letters_identifier
        try:
            prepare(self.doors.lake, table, plan=plan, writer=self.writer, files=got.dead_letter_files)
        except FrazilError as failure:
            LOG.warning("pending_dead_letters_not_kept", extra={"table": table, "problem": failure.what})

    def _resolved(self, got: Ingested) -> WriterSchemas:
        registry = self.doors.registry
        values = {i: registry.by_id(i) for i in got.met_value_ids}
        keys = {i: registry.by_id(i) for i in got.met_key_ids}
        return WriterSchemas(
            {i: schema for i, schema in values.items() if schema is not None},
            {i: schema for i, schema in keys.items() if schema is not None},
        )

    def _make_visible(self, plan: BatchPlan, here: Standing, got: Ingested, planned_at: datetime) -> Outcome:
        batch = ReadBatch(
            self.doors.lake,
            self.spec,
            self.writer,
            self.stage_names,
            plan,
            got,
            planned_at,
            self.seconds,
            fitted(self.spec, here.view, plan.schemas),
        )
        try:
            with self._step("prepare"):
                batch.prepare()
            with self._step("stage"):
                staged = batch.stage_on(here)
            with self._step("publish"):
                view = publish(self.doors.lake, plan, staged, stage_on=batch.stage_again_on, rows=got.counts.rows)
        except OvertakenError:
            return Again()
        except CountMismatchError as mismatch:
            self._pause(mismatch)
            raise
        now = standing(view, pipeline=self.spec.pipeline)
        self.state = now.state
        with self._step("reveal"):
            self._reveal(plan, now.state)
        receipt = replace(batch.receipt(now), seconds=dict(self.seconds), snapshot_id=now.carrier.id)
        receipt = replace(receipt, schema_changes=self.absorbed.take_changes())
        with self._step("announce"):
            self.doors.announce(receipt)
            delta = self._announce_delta(now.view)
            self._tell_snowflake()
        self._expire(now.view)
        return Published(receipt, now, delta)

    def _reveal(self, plan: BatchPlan, state: TableState) -> None:
        lake, table = self.doors.lake, self.spec.dead_letters_identifier
        reveal(lake, table, state=state, rows_uuid=plan.table_uuid)
        drop_others(lake, table, epoch=plan.epoch, batch_id=plan.batch_id, rows_uuid=plan.table_uuid)

    def _announce_delta(self, view: TableView) -> Announced | None:
        """None where the table has no readers of Delta, or its log was checked a moment ago."""
        now = self.doors.now()
        if "delta" not in self.spec.formats or not self.delta_log.is_due(view, now=now):
            return None
        announced = announce_delta(self.doors.lake, self.doors.delta_logs, view)
        self.delta_log.record(view, announced, now=now)
        table = self.spec.identifier
        match announced:
            case LogFailed(problem, hint):
                LOG.warning("delta_log_failed", extra={"table": table, "problem": problem, "hint": hint})
            case LogWritten(version, snapshot_id):
                LOG.info("delta_log_written", extra={"table": table, "version": version, "snapshot": snapshot_id})
            case Withheld(_, reason):
                self._warn_once("delta_log_withheld", reason)
        return announced

    def _tell_snowflake(self) -> None:
        """Of the newest version of the Delta log, unless this process has told it of that one."""
        snowflake = self.doors.snowflake if "snowflake" in self.spec.readers else None
        if snowflake is not None and self.delta_log.version is not None:
            self.telling.tell(snowflake, self.spec, self.delta_log.version, now=self.doors.now())

    def _expire(self, view: TableView) -> None:
        """Old snapshots of the rows where they are due, and now and then those of the dead letters."""
        doors = self.doors
        self.expiring.between_batches(doors.lake, doors.delta_logs, view, doors.background, now=doors.now())
        self.looks += 1
        if self.looks % DEAD_LETTERS_EVERY != 1:
            return
        dead_letters = doors.lake.load(self.spec.dead_letters_identifier)
        if dead_letters is not None:
            self.expiring_dead_letters.between_batches(
                doors.lake, doors.delta_logs, dead_letters, doors.background, now=doors.now()
            )

    def _pause(self, error: FrazilError, got: Ingested | None = None) -> None:
        accept = None if got is None else through(got.ranges)
        said = pause_property(by="frazil", why=error.what, at=self.doors.now(), accept=accept, hint=error.hint)
        assert self.planned_on is not None  # noqa: S101 - every reason to pause comes after the first look
        pause_at(self.doors.lake, self.spec, self.planned_on, said, because=error)

    @contextmanager
    def _step(self, name: Step) -> Iterator[None]:
        self.doors.observe("before", name)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 4)
        self.doors.observe("after", name)
