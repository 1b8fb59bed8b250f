"""One table in one process: its batches, each step in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from frazil.materialize.account import Ingested
from frazil.materialize.announce import Announcing
from frazil.materialize.branches import STAGE_PREFIX, Staged, branch_names
from frazil.materialize.changed_spec.applied_spec import naming_topics
from frazil.materialize.changed_spec.follow_spec import follow_layout, follow_spec
from frazil.materialize.clients import Clients, ClientSource, Step
from frazil.materialize.create import ensure_table
from frazil.materialize.dead_letters import drop_others, ensure_dead_letters, prepare, reveal
from frazil.materialize.evolve import NO_SCHEMAS, Absorbed, evolve
from frazil.materialize.hash_key import record_hash_key
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.ingest.distribute import BatchTable
from frazil.materialize.ingest.run_tasks import read_batch, schemas_ahead, schemas_met
from frazil.materialize.outcome import Again, Outcome, Published
from frazil.materialize.pause.bad_records import pause_above_limit
from frazil.materialize.pause.excluding_by_run import exclude_refused
from frazil.materialize.pause.fenced_pause import Pauser
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, accepted_through
from frazil.materialize.plan import plan_batch, replaced_since
from frazil.materialize.publish import Share, publish
from frazil.materialize.replay.perform import Replay, perform_and_answer
from frazil.materialize.replay.request import ReplayRequest, ReplayResult, open_requests
from frazil.materialize.schema.fitted import fitted
from frazil.materialize.sources import added_topics, describe_topics
from frazil.materialize.stage import ReadBatch
from frazil.materialize.state import Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.materialize.warn_once import WarnOnce
from frazil.model.errors import CountMismatchError, IncompatibleSchemaError, RecordsLostError
from frazil.model.plan import BatchPlan, Halt, NothingToDo, Plan, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec


@dataclass(slots=True)
class TableRun:
    """One table in one process. `writer` is its id, new in every process; `state` is the last one seen.

    `client_source` provides the clients of later batches; without one, all batches use the same.
    """

    spec: TableSpec
    clients: Clients
    writer: str
    adopt: bool = False
    client_source: ClientSource | None = None
    absorbed: Absorbed = field(default_factory=lambda: Absorbed({}, {}))
    met: WriterSchemas = NO_SCHEMAS
    ahead: WriterSchemas = NO_SCHEMAS
    seconds: dict[str, float] = field(default_factory=dict)
    state: TableState | None = None
    stage_names: Iterator[str] = field(init=False)
    warnings: WarnOnce = field(init=False)
    announcing: Announcing = field(init=False)
    housekeeping: Housekeeping = field(init=False)
    pauser: Pauser = field(init=False)

    def __post_init__(self) -> None:
        self.stage_names = branch_names(STAGE_PREFIX, self.writer)
        self.warnings = WarnOnce(self.spec.identifier)
        self.announcing = Announcing(self.spec, self.warnings)
        self.housekeeping = Housekeeping(self.spec)
        self.pauser = Pauser(self.spec)

    def batch(self) -> Outcome:
        """Carry out one batch: all steps, in the order of `STEPS`.

        Raises FrazilError; in each case the table is as it was, or carries the whole batch.
        """
        self.seconds = {}
        here, dead_letters = self._made_ready()
        if self._answered_requests(here):
            here, dead_letters = self._made_ready()
        planned_at = self.clients.now()
        with self._step("plan"):
            plan = self._plan(here)
        if not isinstance(plan, BatchPlan):
            return self._without_a_batch(plan, here)
        with self._step("ingest"):
            got = self._ingest(plan, here.view, dead_letters)
        if got is None or not (got.advanced or plan.begins):
            return Again()
        batch = self._read_batch(plan, here, got, planned_at)
        try:
            with self._step("prepare"):
                self._prepare(batch)
            with self._step("stage"):
                staged = batch.stage_on(here)
            with self._step("publish"):
                (view,) = publish(batch.lake, [Share(plan, staged, stage_on=partial(self._staged_again, batch))])
        except OvertakenError:
            return Again()
        except CountMismatchError as mismatch:
            self.pauser.pause(self.clients, mismatch)
            raise
        now = standing(view, pipeline=self.spec.pipeline)
        self.state = now.state
        with self._step("reveal"):
            self._reveal(plan, now.state)
        receipt = batch.receipt(now, schema_changes=self.absorbed.take_changes())
        with self._step("announce"):
            self.clients.on_receipt(receipt)
            delta = self.announcing.announce(self.clients, now.view)
        self.housekeeping.between_batches(self.clients, now.view)
        return Published(receipt, now, delta)

    def create(self) -> TableView:
        """Make the tables and bring them to the spec, as a batch begins, and the log beside them if there is one."""
        here, _ = self._made_ready()
        self.announcing.write_delta_log(self.clients, here.view)
        return here.view

    def replay(self, request: ReplayRequest) -> ReplayResult:
        """Perform a replay, alone or beside a running driver. Raises PausedError, and what a batch raises."""
        self._made_ready()  # from here on the spec has the column of topics if the table has it
        replay = self._new_replay()
        replay.perform(request)
        here, _ = self._made_ready()
        self.announcing.announce(self.clients, here.view)
        return replay.result

    def _new_replay(self) -> Replay:
        return Replay(
            spec=self.spec,
            clients=self.clients,
            writer=self.writer,
            names=self.stage_names,
            made_ready=self._made_ready,
            evolve=self._evolved_for,
            schemas=self.absorbed.as_writer_schemas,
            step=self._step,
            pauser=self.pauser,
            seconds=self.seconds,
        )

    def _answered_requests(self, here: Standing) -> bool:
        """Perform the requests to replay dead letters. Return whether there were any.

        A replay that fails is answered with its error: it never keeps the driver from its batches.
        """
        requests = () if PAUSED_PROPERTY in here.view.properties else open_requests(here.view.properties)
        for request in requests:
            perform_and_answer(self._new_replay(), request)
        return bool(requests)

    def _evolved_for(self, here: Standing, met: WriterSchemas) -> None:
        """Give the table columns for a schema that dead letters name. Raises IncompatibleSchemaError."""
        lake, registry = self.clients.lake, self.clients.registry
        evolve(lake, registry, self.spec, here.view, state=here.state, met=met, absorbed=self.absorbed)

    def _made_ready(self) -> tuple[Standing, TableView]:
        """The tables: they exist, show the whole last batch, and have columns for all that known writers write.

        The steps before the plan; a paused table is not brought to the spec.
        """
        clients, spec, lake = self.clients, self.spec, self.clients.lake
        with self._step("create"):
            view = ensure_table(lake, clients.topics, clients.registry, spec, new_writer=self.writer, adopt=self.adopt)
            here = self._stands(view)
            self.spec = spec = naming_topics(spec, here.state)
        with self._step("create_dead_letters"):
            dead_letters = ensure_dead_letters(lake, spec, here)
        with self._step("recover"):
            dead_letters, recovered = self._recovered(here, dead_letters), here.state.batch_id
        self.housekeeping.rows.look(here.view, now=clients.now())
        self.housekeeping.dead_letters.look(dead_letters, now=clients.now())
        if PAUSED_PROPERTY in here.view.properties:
            return here, dead_letters
        with self._step("follow_spec"):
            followed = follow_spec(lake, spec, here.view)
            self.absorbed.changes += followed.columns
            here = self._stands(record_hash_key(lake, spec, followed.view))
        with self._step("evolve"), self.pauser.for_schemas(clients):
            here = self._evolved(here)
        with self._step("repartition"):
            here = self._stands(follow_layout(lake, spec, here.view))
            if here.state.batch_id != recovered:  # another driver has published meanwhile, and may have died since
                dead_letters = self._recovered(here, dead_letters)
        return here, dead_letters

    def _recovered(self, here: Standing, dead_letters: TableView) -> TableView:
        """The table of dead letters with those of the last batch. The next batch would drop them otherwise."""
        if not here.state.batch_id:
            return dead_letters
        return self._revealed(here.state, here.view.uuid)

    def _evolved(self, here: Standing) -> Standing:
        """The table with a place for what known writers write, but for those that the spec then excludes."""
        lake, registry = self.clients.lake, self.clients.registry
        while True:
            try:
                view = evolve(
                    lake,
                    registry,
                    self.spec,
                    here.view,
                    state=here.state,
                    met=self.met,
                    absorbed=self.absorbed,
                    ahead=self.ahead,
                )
            except IncompatibleSchemaError as refused:
                here = self._stands(exclude_refused(lake, self.spec, here, refused))
            else:
                return self._stands(view)

    def _stands(self, view: TableView) -> Standing:
        here = standing(view, pipeline=self.spec.pipeline)
        self.pauser.planned_on = here.state
        return here

    def _plan(self, here: Standing) -> Plan:
        topics = describe_topics(self.clients.topics, self.spec)
        self.warnings.warn_of_changes(here, topics)
        added = added_topics(self.clients.topics, self.spec, here.state, topics)
        schemas = self.absorbed.as_writer_schemas()
        return plan_batch(self.spec, here, topics, schemas=schemas, batch_id=self.clients.new_id(), added=added)

    def _without_a_batch(self, plan: Halt | NothingToDo, here: Standing) -> NothingToDo:
        """Announce the current snapshot again, because readers may be behind."""
        self.announcing.announce(self.clients, here.view)
        if isinstance(plan, Halt):
            raise plan.error
        self.state = plan.state
        self.housekeeping.between_batches(self.clients, here.view)
        return plan

    def _ingest(self, plan: BatchPlan, rows: TableView, dead_letters: TableView) -> Ingested | None:
        """Return the ingested batch, or None if the topic changed after the plan: the next plan reports it."""
        try:
            with self.pauser.for_schemas(self.clients):
                got = read_batch(self.clients, [BatchTable(self.spec, rows)], plan, dead_letters, writer=self.writer)
        except RecordsLostError:
            if plan.state.epoch and not plan.begins:
                raise
            return None
        self.met = schemas_met(self.clients.registry, got)
        self.ahead = schemas_ahead(self.clients.registry, got)
        accepted = accepted_through(rows.properties)
        pause_above_limit(self.pauser, self.clients, plan, got, writer=self.writer, accepted=accepted)
        return None if replaced_since(plan, describe_topics(self.clients.topics, self.spec)) else got

    def _read_batch(self, plan: BatchPlan, here: Standing, got: Ingested, planned_at: datetime) -> ReadBatch:
        return ReadBatch(
            lake=self.clients.lake,
            spec=self.spec,
            writer=self.writer,
            names=self.stage_names,
            plan=plan,
            got=got,
            planned_at=planned_at,
            seconds=self.seconds,
            fitted=fitted(self.spec, here.view, plan.schemas),
        )

    def _prepare(self, batch: ReadBatch) -> None:
        """Stage the dead letters, invisible to readers, before the rows become visible."""
        table, files = self.spec.dead_letters_identifier, batch.got.dead_letter_files
        prepare(batch.lake, table, plan=batch.plan, writer=self.writer, files=files)

    def _staged_again(self, batch: ReadBatch, now: Standing) -> Staged:
        """Stage after others have committed, who may also have dropped the prepared dead letters."""
        self._prepare(batch)
        return batch.stage_on(now)

    def _reveal(self, plan: BatchPlan, state: TableState) -> None:
        lake, table = self.clients.lake, self.spec.dead_letters_identifier
        self._revealed(state, plan.table_uuid)
        drop_others(lake, table, epoch=plan.epoch, batch_id=plan.batch_id, rows_uuid=plan.table_uuid)

    def _revealed(self, state: TableState, rows_uuid: str) -> TableView:
        lake, spec = self.clients.lake, self.spec
        return reveal(lake, spec.dead_letters_identifier, state=state, rows=spec.identifier, rows_uuid=rows_uuid)

    @contextmanager
    def _step(self, name: Step) -> Iterator[None]:
        self.clients.observe("before", name)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 4)
        self.clients.observe("after", name)
