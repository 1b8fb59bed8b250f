"""One table in one process, or the tables of a group: their batches, each step in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.account import Ingested
from frazil.materialize.added_partitions import record_orders
from frazil.materialize.branches import Staged
from frazil.materialize.changed_spec.applied_spec import naming_topics, ordered_as
from frazil.materialize.clients import Clients, ClientSource, Step
from frazil.materialize.create import ensure_table
from frazil.materialize.dead_letters import drop_others, ensure_dead_letters, prepare, reveal
from frazil.materialize.epoch_tags import has_epoch_tags
from frazil.materialize.evolve import NO_SCHEMAS
from frazil.materialize.find_rows import find_rows
from frazil.materialize.group.begin import beginning, check_ledger_not_lost
from frazil.materialize.group.complete import Places, complete
from frazil.materialize.group.join import join
from frazil.materialize.group.shares import at_one_batch, known_to_all, share_of, together
from frazil.materialize.ingest.distribute import BatchTable
from frazil.materialize.ingest.run_tasks import read_batch, schemas_ahead, schemas_met
from frazil.materialize.one_table import OneTable
from frazil.materialize.outcome import Again, Outcome, Published
from frazil.materialize.pause.bad_records import pause_above_limit
from frazil.materialize.pause.excluding_by_run import exclude_refused
from frazil.materialize.pause.fenced_pause import Pauser
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, accepted_through, excluded_schemas
from frazil.materialize.plan import plan_batch, replaced_since
from frazil.materialize.publish import Share, publish
from frazil.materialize.replay.perform import Replay, perform_and_answer
from frazil.materialize.replay.request import ReplayRequest, ReplayResult, open_requests
from frazil.materialize.schema.fitted import fitted
from frazil.materialize.sources import added_topics, describe_topics
from frazil.materialize.stage import ReadBatch
from frazil.materialize.state import Standing
from frazil.materialize.update_rows import update_rows
from frazil.materialize.verdicts import OvertakenError
from frazil.model.delta import Announced
from frazil.model.errors import CountMismatchError, FrazilError, IncompatibleSchemaError, RecordsLostError
from frazil.model.plan import BatchPlan, Halt, NothingToDo, Plan, TopicFacts, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec


@dataclass(slots=True)
class TableRun:
    """One table in one process, or the tables of a group. `writer` is the process's id; `state` is the last one seen.

    For a group, `spec` and `state` are those of its ledger, and `others` are the specs of its other tables.
    `client_source` provides the clients of later batches; without one, all batches use the same.
    """

    spec: TableSpec
    clients: Clients
    writer: str
    adopt: bool = False
    client_source: ClientSource | None = None
    others: Sequence[TableSpec] = ()
    met: WriterSchemas = NO_SCHEMAS
    ahead: WriterSchemas = NO_SCHEMAS
    untaken: dict[SchemaId, RegisteredSchema] = field(default_factory=dict)
    """Of a group: the known schemas of values that no table takes."""
    seconds: dict[str, float] = field(default_factory=dict)
    state: TableState | None = None
    began: float | None = None
    tables: tuple[OneTable, ...] = field(init=False)
    pauser: Pauser = field(init=False)

    def __post_init__(self) -> None:
        self.tables = tuple(OneTable(spec, self.writer) for spec in (self.spec, *self.others))
        self.pauser = Pauser(self.spec)

    @property
    def output_failure(self) -> FrazilError | None:
        """The failure of the first output topic that lacks epochs of its table; None if there is none."""
        return next((table.sending.failure for table in self.tables if table.sending.failure is not None), None)

    def of_each_table(self) -> list[TableRun]:
        """Return a run of each table, to preview what happens to it."""
        return [TableRun(table.spec, self.clients, self.writer, adopt=self.adopt) for table in self.tables]

    def batch(self) -> Outcome:
        """Carry out one batch: all steps, in the order of `STEPS`.

        Raises FrazilError; in each case the table is as it was, or carries the whole batch. Of a group, other tables
        may lack a batch that the ledger has: the next one begins with it.
        """
        self.seconds = {}
        here, dead_letters = self._made_ready()
        if self._answered_requests(here):
            here, dead_letters = self._made_ready()
        planned_at = self.clients.now()
        with self._step("plan"):
            topics = describe_topics(self.clients.topics, self.spec)
            plan = self._plan(here, topics)
        if not isinstance(plan, Halt) and self._gets_order(here, topics):
            return Again()
        if not isinstance(plan, BatchPlan):
            return self._without_a_batch(plan, here)
        if not at_one_batch(here):
            return Again()
        self.began = elapsed_seconds()
        with self._step("ingest"):
            got = self._ingest(plan, here, dead_letters)
        if got is None or not (got.advanced or plan.begins):
            return Again()
        batches = [self._read_batch(table, plan, here, got, planned_at) for table in self.tables]
        try:
            with self._step("prepare"):
                self._prepare(batches[0])
            with self._step("stage"), self.pauser.at_refusals(self.clients):
                staged = [batch.stage_on(here[batch.spec.identifier]) for batch in batches]
            with self._step("publish"):
                views = publish(self.clients.lake, self._shares(batches, staged))
        except OvertakenError:
            return Again()
        except CountMismatchError as mismatch:
            self.pauser.pause(self.clients, mismatch)
            raise
        now = [table.stands(view) for table, view in zip(self.tables, views, strict=True)]
        self.state = now[0].state
        with self._step("reveal"):
            self._reveal(plan, now[0].state)
        return self._announced(batches, now)

    def create(self) -> TableView:
        """Make the tables and bring them to the spec, as a batch begins, and the log beside each if there is one."""
        here, _ = self._made_ready()
        for table in self.tables:
            table.announcing.write_delta_log(self.clients, here[table.identifier].view)
        return self._first(here).view

    def replay(self, request: ReplayRequest) -> ReplayResult:
        """Perform a replay, alone or beside a running driver. Raises PausedError, and what a batch raises."""
        replay = self._new_replay()
        replay.perform(request)
        here, _ = self._made_ready()
        for table in self.tables:
            table.announcing.announce(self.clients, here[table.identifier].view)
        return replay.result

    def _new_replay(self) -> Replay:
        return Replay(
            tables=self.tables,
            clients=self.clients,
            writer=self.writer,
            made_ready=self._made_ready,
            evolve=self._evolved_for,
            schemas=self._known_schemas,
            untaken=lambda: self.untaken,
            step=self._step,
            pauser=self.pauser,
            seconds=self.seconds,
        )

    def _answered_requests(self, here: Places) -> bool:
        """Perform the requests to maintain tables and to replay dead letters. Return whether there were any.

        What fails is answered with its error: it never keeps the driver from its batches.
        """
        maintained = [table.housekeeping.requested(self.clients, here[table.identifier].view) for table in self.tables]
        properties = self._first(here).view.properties
        requests = () if PAUSED_PROPERTY in properties else open_requests(properties)
        for request in requests:
            perform_and_answer(self._new_replay(), request)
        return bool(requests) or any(maintained)

    def _evolved_for(self, here: Places, met: WriterSchemas) -> None:
        """Give the tables columns for a schema that dead letters name. Raises IncompatibleSchemaError."""
        for table in self.tables:
            at, ledger = here[table.identifier], self._first(here)
            table.evolved(self.clients, at, met=met, ahead=NO_SCHEMAS, ledger=ledger)
        self.untaken.update(self._not_taken(met))

    def _known_schemas(self) -> WriterSchemas:
        """The schemas that all tables which take them have columns for, and those that no table takes."""
        known = known_to_all([(table.spec, table.absorbed.as_writer_schemas()) for table in self.tables])
        return together([known, WriterSchemas(self.untaken, {})])

    def _not_taken(self, met: WriterSchemas) -> dict[SchemaId, RegisteredSchema]:
        """Return the schemas of values that no table has columns for."""
        taken = together(table.absorbed.as_writer_schemas() for table in self.tables).values
        return {schema_id: schema for schema_id, schema in met.values.items() if schema_id not in taken}

    def _made_ready(self) -> tuple[Places, TableView]:
        """The tables: they exist, show the whole last batch, and have columns for all that known writers write.

        The steps before the plan; a paused table is not brought to the spec.
        """
        clients, lake = self.clients, self.clients.lake
        with self._step("create"):
            here = self._created()
        with self._step("create_dead_letters"):
            dead_letters = ensure_dead_letters(lake, self.spec, self._first(here))
        with self._step("recover"):
            here, dead_letters = self._recovered(here, dead_letters)
            recovered = self._first(here).state.batch_id
        for table in self.tables:
            table.housekeeping.rows.look(here[table.identifier].view, now=clients.now())
        self.tables[0].housekeeping.dead_letters.look(dead_letters, now=clients.now())
        if PAUSED_PROPERTY in self._first(here).view.properties:
            return here, dead_letters
        with self._step("follow_spec"):
            here = self._each(lambda table, at: table.followed(clients, at), join(lake, self.spec, here))
        with self._step("evolve"), self.pauser.at_refusals(clients):
            here = self._evolved(here)
        with self._step("repartition"):
            here = self._each(lambda table, at: table.repartitioned(clients, at), here)
            if self._first(here).state.batch_id != recovered or not at_one_batch(here):
                # another driver has published meanwhile, and may have died since
                here, dead_letters = self._recovered(here, dead_letters)
        return here, dead_letters

    def _created(self) -> Places:
        lake, topics, registry = self.clients.lake, self.clients.topics, self.clients.registry
        first, *others = self.tables
        check_ledger_not_lost(lake, first.spec, [table.spec for table in others])
        view = ensure_table(lake, topics, registry, first.spec, new_writer=self.writer, adopt=self.adopt)
        ledger = first.stands(view)
        here = {first.identifier: ledger}
        for table in others:
            table.spec = naming_topics(table.given, ledger.state)
            begin = partial(beginning, table.spec, ledger)
            view = ensure_table(
                lake, topics, registry, table.spec, new_writer=self.writer, adopt=self.adopt, begin=begin
            )
            here[table.identifier] = table.stands(view)
        return self._noted(here)

    def _recovered(self, here: Places, dead_letters: TableView) -> tuple[Places, TableView]:
        """The tables with the whole last batch, and its dead letters. The next batch would drop them otherwise."""
        here = self._noted(complete(self.clients.lake, self.spec, here))
        ledger = self._first(here)
        return here, self._revealed(ledger.state, ledger.view.uuid) if ledger.state.batch_id else dead_letters

    def _evolved(self, here: Places) -> Places:
        """The tables with a place for what known writers write, but for what the spec then excludes."""
        clients, stored = self.clients, self._first(here).state.group
        ids = () if stored is None else stored.untaken_schema_ids
        known = {schema_id: clients.registry.by_id(schema_id) for schema_id in ids}
        untaken = {schema_id: schema for schema_id, schema in known.items() if schema is not None}
        met = WriterSchemas({**untaken, **self.untaken, **self.met.values}, self.met.keys)
        now = dict(here)
        for table in self.tables:
            while True:
                ledger, at = self._first(now), now[table.identifier]
                try:
                    now[table.identifier] = table.evolved(clients, at, met=met, ahead=self.ahead, ledger=ledger)
                    break
                except IncompatibleSchemaError as refused:
                    view = exclude_refused(clients.lake, table.spec, at, refused, ledger=ledger)
                    now[self.spec.identifier] = self.tables[0].stands(view)
        excluded = excluded_schemas(self._first(now).view.properties).values
        self.untaken = {each: schema for each, schema in self._not_taken(met).items() if each not in excluded}
        return self._noted(now)

    def _each(self, act: Callable[[OneTable, Standing], Standing], here: Places) -> Places:
        return self._noted({table.identifier: act(table, here[table.identifier]) for table in self.tables})

    def _noted(self, here: Places) -> Places:
        """The tables, after their specs took the columns and the order that they have now."""
        state = self.pauser.planned_on = self._first(here).state
        for table in self.tables:
            table.spec = ordered_as(naming_topics(table.given, state), here[table.identifier].view.properties)
        self.spec = self.tables[0].spec
        return here

    def _first(self, here: Places) -> Standing:
        """The table, or the ledger of the group."""
        return here[self.spec.identifier]

    def _gets_order(self, here: Places, topics: Sequence[TopicFacts]) -> bool:
        """Return whether the records of the next batches have another order in a table, which is recorded then."""
        return record_orders(self.clients.lake, [(each.given, here[each.identifier]) for each in self.tables], topics)

    def _plan(self, here: Places, topics: Sequence[TopicFacts]) -> Plan:
        ledger = self._first(here)
        self.tables[0].warnings.warn_of_changes(ledger, topics)
        added = added_topics(self.clients.topics, self.spec, ledger.state, topics)
        schemas, batch_id = self._known_schemas(), self.clients.new_id()
        others = [(table.spec, here[table.identifier]) for table in self.tables[1:]]
        return plan_batch(self.spec, ledger, topics, schemas=schemas, batch_id=batch_id, added=added, others=others)

    def _without_a_batch(self, plan: Halt | NothingToDo, here: Places) -> NothingToDo:
        """Announce and send the current snapshots again, because readers may be behind."""
        for table in self.tables:
            self._announce(table, here[table.identifier].view)
        self._send([here[table.identifier].view for table in self.tables])
        if isinstance(plan, Halt):
            raise plan.error
        self.state = plan.state
        self._housekeep([here[table.identifier].view for table in self.tables])
        return plan

    def _ingest(self, plan: BatchPlan, here: Places, dead_letters: TableView) -> Ingested | None:
        """Return the ingested batch, or None if the topic changed after the plan: the next plan reports it."""
        tables = [BatchTable(table.spec, here[table.identifier].view) for table in self.tables]
        try:
            with self.pauser.at_refusals(self.clients):
                got = read_batch(self.clients, tables, plan, dead_letters, writer=self.writer)
        except RecordsLostError:
            if plan.state.epoch and not plan.begins:
                raise
            return None
        self.met = schemas_met(self.clients.registry, got)
        self.ahead = schemas_ahead(self.clients.registry, got)
        accepted = accepted_through(self._first(here).view.properties)
        pause_above_limit(self.pauser, self.clients, plan, got, writer=self.writer, accepted=accepted)
        return None if replaced_since(plan, describe_topics(self.clients.topics, self.spec)) else got

    def _read_batch(self, table: OneTable, plan: BatchPlan, here: Places, got: Ingested, at: datetime) -> ReadBatch:
        own, schemas = here[table.identifier], table.absorbed.as_writer_schemas()
        share = share_of(table.spec, own, plan, got, schemas=schemas, untaken=self.untaken)
        table.warnings.warn_of_small_files(share.got.row_files, table.spec.partition_by)
        return ReadBatch(
            lake=self.clients.lake,
            spec=table.spec,
            writer=self.writer,
            names=table.stage_names,
            plan=share.plan,
            got=share.got,
            planned_at=at,
            read_by=self.clients.now(),
            seconds=self.seconds,
            fitted=fitted(table.spec, own.view, share.plan.schemas),
            entry=share.entry,
            find=partial(find_rows, self.clients, table.spec),
            update=partial(update_rows, self.clients, table.spec, f"{self.writer}-{plan.epoch:08d}"),
        )

    def _shares(self, batches: Sequence[ReadBatch], staged: Sequence[Staged]) -> list[Share]:
        ways: list[Callable[[Standing], Staged]] = [batch.stage_on for batch in batches]
        ways[0] = partial(self._staged_again, batches[0])
        given = zip(batches, staged, ways, strict=True)
        tags = has_epoch_tags(self.spec)
        return [Share(batch.plan, on, way, tags, self.began) for batch, on, way in given]

    def _prepare(self, batch: ReadBatch) -> None:
        """Stage the dead letters, invisible to readers, before the rows become visible."""
        table, files = self.spec.dead_letters_identifier, batch.dead_letter_files
        prepare(batch.lake, table, plan=batch.plan, writer=self.writer, files=files)

    def _staged_again(self, batch: ReadBatch, now: Standing) -> Staged:
        """Stage after others have committed, who may also have dropped the prepared dead letters."""
        self._prepare(batch)
        return batch.stage_on(now)

    def _reveal(self, plan: BatchPlan, state: TableState) -> None:
        lake, table = self.clients.lake, self.spec.dead_letters_identifier
        self._revealed(state, plan.table_uuid)
        drop_others(lake, table, plan=plan)

    def _revealed(self, state: TableState, rows_uuid: str) -> TableView:
        lake, spec = self.clients.lake, self.spec
        return reveal(lake, spec.dead_letters_identifier, state=state, rows=spec.identifier, rows_uuid=rows_uuid)

    def _announced(self, batches: Sequence[ReadBatch], now: Sequence[Standing]) -> Published:
        receipts, deltas = [], []
        with self._step("announce"):
            for table, batch, at in zip(self.tables, batches, now, strict=True):
                receipts.append(batch.receipt(at, schema_changes=table.absorbed.take_changes()))
                self.clients.on_receipt(receipts[-1])
                deltas.append(self._announce(table, at.view))
        self._housekeep([at.view for at in now])
        with self._step("send"):
            self._send([at.view for at in now])
        return Published(receipts[0], now[0], deltas[0], rows=sum(receipt.counts.rows for receipt in receipts))

    def _announce(self, table: OneTable, view: TableView) -> Announced | None:
        return table.announcing.announce(self.clients, view)

    def _send(self, views: Sequence[TableView]) -> None:
        for table, view in zip(self.tables, views, strict=True):
            table.sending.send(self.clients, view)

    def _housekeep(self, views: Sequence[TableView]) -> None:
        for table, view in zip(self.tables, views, strict=True):
            changed = table.housekeeping.change_files(self.clients, view)
            if changed is not None:
                self._announce(table, changed)
            table.housekeeping.expire_rows(self.clients, view)
        self.tables[0].housekeeping.expire_dead_letters(self.clients, views[0])

    @contextmanager
    def _step(self, name: Step) -> Iterator[None]:
        self.clients.observe("before", name)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 4)
        self.clients.observe("after", name)
