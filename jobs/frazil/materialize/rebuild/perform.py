"""Perform a rebuild: batches onto a branch, and then the one commit that makes the branch `main`.

The steps of a batch see the branch as a new table with its own columns, state and dead letters (`ports.RebuildLake`),
so a rebuild that was killed continues as any table does. Those of a group are rebuilt together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from frazil.materialize.branches import given_up
from frazil.materialize.changed_spec.applied_spec import ordered_as
from frazil.materialize.clients import Clients
from frazil.materialize.dead_letters import (
    create_dead_letters,
    drop_others,
    ensure_dead_letters,
    prepare_rebuilt,
    reveal,
    tagged,
)
from frazil.materialize.group.complete import Places, complete
from frazil.materialize.group.join import join
from frazil.materialize.maintenance.request import MAINTENANCE_PREFIX
from frazil.materialize.outcome import Outcome, Published
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.rebuild.build_run import BuildRun
from frazil.materialize.rebuild.checks import (
    built_is_gone,
    check_base,
    check_foreign,
    check_not_ahead,
    check_own,
    check_records,
    check_topics,
)
from frazil.materialize.rebuild.compaction import check_complete
from frazil.materialize.rebuild.continued import built_letters, continues
from frazil.materialize.rebuild.earlier_records import ends_of_earlier, tag_earlier
from frazil.materialize.rebuild.former_order import former_orders, read_first, record
from frazil.materialize.rebuild.group_checks import check_removed, check_tables
from frazil.materialize.rebuild.held_schemas import HeldSchemas
from frazil.materialize.rebuild.kept_letters import keep_letters
from frazil.materialize.rebuild.rebuilt_properties import carry_over, decided
from frazil.materialize.rebuild.rebuilt_state import ends_of, offsets_in, read_by_group, total_offsets
from frazil.materialize.rebuild.renewed_deletes import with_renewed_deletes
from frazil.materialize.rebuild.replaced import announce, check_replaced, receipts_of, was_interrupted
from frazil.materialize.rebuild.replacement import Replacement, read_so_far
from frazil.materialize.rebuild.rewind import Target, bases_of, check_expired
from frazil.materialize.rebuild.topics import Offsets, TopicsUpTo, ends_up_to, origins_of, own_origins, unread_from
from frazil.materialize.replay.request import REQUEST_PREFIX
from frazil.materialize.sources import describe_topics
from frazil.materialize.state import CHECKPOINT_TAG, Standing, generation_property, standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import (
    BadRecordLimitError,
    CommitError,
    CommitRejectedError,
    FrazilError,
    IncompatibleSchemaError,
    Misuse,
    RebuildError,
    RecordsLostError,
    UnsupportedChangeError,
)
from frazil.model.expired_letters import ExpiredLetters, expired_letters
from frazil.model.plan import NothingToDo, TopicFacts
from frazil.model.progress import BatchRef, ForeignChanges, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.model.summary import state_in
from frazil.ports import RebuildLake

MOVES = 20
"""How often a rebuild catches up with a driver that keeps publishing, before it gives up."""


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How many offsets of all have been read, by this process in so many seconds, and by earlier ones."""

    read: int
    total: int
    read_here: int
    seconds: float


@dataclass(slots=True)
class Rebuild:
    """Rebuilds one table, or the tables of a group, whose ledger is `spec`. In the lake `built`, they are the branches.

    `max_rate` bounds the records a second, by a wait between batches. `report` is called after each batch. With
    `drop_foreign`, what others did to the rows is lost, and otherwise refused. `moves` is how often it tries to replace
    the table. With a `target`, rows from before it stay, and the topics are read again from there.
    """

    spec: TableSpec
    clients: Clients
    built: RebuildLake
    writer: str
    wait: Callable[[float], None]
    clock: Callable[[], float]
    report: Callable[[RebuildProgress], None]
    max_rate: float | None = None
    drop_foreign: bool = False
    moves: int = MOVES
    target: Target | None = None
    others: Sequence[TableSpec] = ()
    _bases: Mapping[str, Snapshot] = field(default_factory=dict, init=False)
    """The snapshots that a rewind begins at, by table."""
    _begun: int | None = field(default=None, init=False)
    _started: float = field(init=False)
    _records: int = 0
    _offsets: int = 0

    def perform(self) -> list[Receipt]:
        """Rebuild the tables, from the beginning or from where an earlier process stopped. Returns a receipt of each.

        Readers see the tables as they were until this returns. Raises RebuildError, RecordsLostError and
        SourceChangedError if the topics cannot make them again, ContendedError if a driver publishes faster than this
        can follow, and what a batch raises.
        """
        receipts = self._performed()
        announce(self.clients, self._specs)
        return receipts

    def _performed(self) -> list[Receipt]:
        self._started = self.clock()
        if (completed := self._completed()) is not None:
            return completed
        here = self._begun_at(self._standing())
        self._begin(here)
        self._begun = self._branches()[self.spec.identifier].view.head
        reason: Exception = CommitRejectedError("a driver kept publishing")
        for _ in range(self.moves):
            check_not_ahead(self.spec, self._ledger(here), self._ledger(self._branches()))
            built = self._read(here)
            here = self._checked()
            if ends_of(self._ledger(built).state) != ends_of(self._ledger(here).state):
                continue
            at, of_branch = self._ledger(here), self._ledger(built)
            ordered, base = ordered_as(self.spec, of_branch.view.properties), self._base_state(self.spec)
            check_complete(
                self.built, ordered, at, of_branch, base=base, facts=self._facts(here), now=self.clients.now()
            )
            try:
                return self._replaced(here, built)
            except CommitError as failed:
                reason = failed
            here = self._checked()
        raise given_up(
            self.spec.identifier,
            "replace the table with what was built",
            reason,
            hint="pause the table (`frazil pause`), run the command again, which continues from here, and resume it",
        ) from reason

    def _completed(self) -> list[Receipt] | None:
        """Complete what an earlier process has decided: it replaced the ledger of a group, and not all other tables."""
        before, here = self._loaded(), self._standing()
        batch = self._ledger(here).state.itself
        return self._finished(here, batch) if was_interrupted(before, batch) else None

    @property
    def _specs(self) -> tuple[TableSpec, ...]:
        return (self.spec, *self.others)

    def _ledger(self, places: Places) -> Standing:
        """The table, or the ledger of the group."""
        return places[self.spec.identifier]

    def _begun_at(self, here: Places) -> Places:
        """Choose the snapshots that a rewind begins at. Raises if the tables cannot be rebuilt from their topics."""
        lake, ledger = self.clients.lake, self._ledger(here)
        if self.target is not None:
            facts, others = self._facts(here), [here[each.identifier] for each in self.others]
            self._bases = bases_of(self.spec, ledger, self.clients.topics, facts, self.target, others)
            letters = lake.load(self.spec.dead_letters_identifier)
            expired = ExpiredLetters() if letters is None else expired_letters(letters, letters.head, tagged(letters))
            base = self._bases[self.spec.identifier]
            check_expired(self.spec, base, expired, rows_uuid=ledger.view.uuid, now=self.clients.now())
        checked = self._checked()
        ensure_dead_letters(lake, self.spec, self._ledger(checked))
        self._reveal(self._ledger(checked))
        return checked

    def _base_state(self, spec: TableSpec) -> TableState | None:
        base = self._bases.get(spec.identifier)
        return None if base is None else state_in(base)

    def _loaded(self) -> Places:
        """Return the tables as readers see them. Raises if they cannot be rebuilt at all."""
        found = {}
        for spec in self._specs:
            view = self.clients.lake.load(spec.identifier)
            if view is None:
                raise Misuse(
                    f"the catalog has no table {spec.identifier}, so there is nothing to rebuild",
                    hint="run `frazil materialize`, which creates it",
                )
            found[spec.identifier] = standing(view, pipeline=spec.pipeline)
            check_tables(spec, found[spec.identifier])
        return found

    def _standing(self) -> Places:
        """Return the tables as readers see them, all with the last batch. Raises as `_loaded`, and GroupApartError."""
        here = join(self.clients.lake, self.spec, complete(self.clients.lake, self.spec, self._loaded()))
        check_topics(self.spec, self._ledger(here).state)
        return here

    def _checked(self) -> Places:
        """Return the tables as readers see them. Raises if the topics cannot make their rows again."""
        here = self._standing()
        check_removed(self.clients.lake, self.spec, self._ledger(here), self._base_state(self.spec))
        facts = self._facts(here)
        unread = self._unread(here, facts)
        for spec in self._specs:
            at, base = here[spec.identifier], self._base_state(spec)
            check_records(read_so_far(spec, at), at, facts, unread)
            if not self.drop_foreign:
                check_foreign(spec, at, before=ForeignChanges() if base is None else base.foreign)
        return here

    def _unread(self, here: Places, facts: Sequence[TopicFacts]) -> Offsets:
        """Return the first offsets that are not read again yet."""
        built, base = self._begun is not None or self._continues(here), self._base_state(self.spec)
        origins = own_origins(self._ledger(here).state) if self._bases else self._origins(here, facts)
        return unread_from(origins, self._ledger(self._branches()).state if built else base)

    def _facts(self, here: Places) -> Sequence[TopicFacts]:
        return describe_topics(self.clients.topics, read_so_far(self.spec, self._ledger(here)))

    def _origins(self, here: Places, facts: Sequence[TopicFacts]) -> Offsets:
        return origins_of(self.spec, self._ledger(here), self.clients.topics, facts)

    def _begin(self, here: Places) -> None:
        """Make the branches, or continue those of an earlier process, if they were built by the same spec.

        Records that an operator has decided about are not asked about again.
        """
        if not self._continues(here):
            self.discard()
            with self._refusals():
                self._create(here)
        carry_over(self.built, self._specs, here)
        if self.built.load(self.spec.dead_letters_identifier) is None:
            create_dead_letters(self.built, self.spec)
        put = decided(self._ledger(here).view.properties)
        self.built.set_properties(self.spec.identifier, put=put, remove=[PAUSED_PROPERTY])

    def _continues(self, here: Places) -> bool:
        """Return whether what an earlier process has built can be continued."""
        bases = self._bases
        return all(continues(self.built, s, here[s.identifier], bases.get(s.identifier)) for s in self._specs)

    def _create(self, here: Places) -> None:
        if not self._bases:
            first = read_first(former_orders(self._specs, here))
            self._run(here, ends_up_to(self._ledger(here).state, first)).create()
            return
        for spec in self._specs:
            base, properties = self._bases[spec.identifier], here[spec.identifier].view.properties
            kept = {n: v for n, v in properties.items() if not n.startswith((REQUEST_PREFIX, MAINTENANCE_PREFIX))}
            given = {**kept, **generation_property(state_in(base).generation)}
            view = loaded(self.clients.lake, spec.identifier)  # as it is without what was dropped
            try:
                self.built.begin_at(view, base.id, tag=CHECKPOINT_TAG, properties=given)
            except CommitRejectedError:
                check_base(spec, base, loaded(self.clients.lake, spec.identifier))
                raise

    def discard(self) -> bool:
        """Drop what was built. Return whether there was anything. Raises CommitError.

        A rebuild that has replaced the ledger of a group is completed instead. No process can replace the ledger any
        more once what was built of it is gone.
        """
        lake = self.clients.lake
        there = [spec for spec in self.others if lake.load(spec.identifier) is not None]
        if len(there) < len(self.others):  # routes were added, whose tables no run has made yet
            return replace(self, others=there).discard()
        made = bool(self.others) and lake.load(self.spec.identifier) is not None
        if made and self._completed() is not None:
            return False
        seen = {spec.identifier: lake.load(spec.identifier) for spec in self.others}
        gone = [self.built.discard(self.spec.identifier)]
        if made and self._completed() is not None:
            return False
        names = [self.spec.dead_letters_identifier, *seen]
        return any([*gone, *(self.built.discard(each, seen=seen.get(each)) for each in names)])

    def _run(self, here: Places, ends: Offsets) -> BuildRun:
        topics = TopicsUpTo(self.clients.topics, ends, self._origins(here, self._facts(here)))
        registry = HeldSchemas(self.clients.registry, self._ledger(here))
        clients = replace(self.clients, lake=self.built, topics=topics, registry=registry, on_receipt=lambda _: None)
        spec, *others = (read_so_far(each, here[each.identifier]) for each in self._specs)
        return BuildRun(spec, clients, self.writer, others=others)

    def _read(self, here: Places) -> Places:
        """Read the topics onto the branches, up to where the tables have read them."""
        orders = {} if self._bases else former_orders(self._specs, here)  # a rewind has that of its snapshots
        if first := record(self.built, self._specs, self._branches(), orders):
            self._read_all(self._run(here, ends_up_to(self._ledger(here).state, first)), here)
        if earlier := ends_of_earlier(self._ledger(here), self._ledger(self._own(here))):
            self._read_all(self._run(here, earlier), here)
            tag_earlier(self.built, self._ledger(self._own(here)))
        self._read_all(self._run(here, ends_up_to(self._ledger(here).state, {})), here)
        return self._own(here)

    def _read_all(self, run: BuildRun, here: Places) -> None:
        while not isinstance(outcome := self._batch(run, here), NothingToDo):
            if isinstance(outcome, Published):
                self._note(outcome, self._ledger(here).state)

    def _batch(self, run: BuildRun, here: Places) -> Outcome:
        """Carry out a batch. Raises RebuildError if the branch is not the one that this process has begun."""
        self._own(here)
        try:
            with self._refusals():
                return run.batch()
        except FrazilError as failed:
            self._own(here)  # if it is not, the batch failed because of that
            if isinstance(failed, RecordsLostError):
                self._checked()
            raise

    def _own(self, here: Places) -> Places:
        """Return what was built. Raises RebuildError if another process has dropped it, or begun another rebuild."""
        built, base = self._branches(), self._bases.get(self.spec.identifier)
        begun, at = None if base is None else base.id, self._ledger(built)
        check_own(self.spec, self._ledger(here), at, begun=self._begun, base=begun)
        return built

    def _branches(self) -> Places:
        found = {}
        for spec in self._specs:
            view = self.built.load(spec.identifier)
            if view is None:
                raise built_is_gone(spec)
            found[spec.identifier] = standing(view, pipeline=spec.pipeline)
        return found

    def _note(self, outcome: Published, table: TableState) -> None:
        receipt, state = outcome.receipt, outcome.standing.state
        self._records += (receipt.group or receipt.counts).read
        self._offsets += sum(each.end - each.start for each in receipt.ranges)
        seconds = self.clock() - self._started
        self.report(RebuildProgress(offsets_in(state), total_offsets(table, state), self._offsets, seconds))
        if self.max_rate is not None and self._records / self.max_rate > seconds:
            self.wait(self._records / self.max_rate - seconds)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (IncompatibleSchemaError, BadRecordLimitError, UnsupportedChangeError) as refused:
            raise RebuildError(
                f"{refused.what}; readers see the table as it was",
                hint=f"fix the cause, or the spec in {self.spec.source_file}, and run the command again;"
                f" `frazil rebuild --discard {self.spec.identifier}` drops what was built",
            ) from refused

    def _replaced(self, here: Places, built: Places) -> list[Receipt]:
        """Make what was built the tables, then their dead letters. Raises CommitError if the tables are as they were.

        Of a group, the ledger decides. The others are ready before it is replaced, and take what is ready after that.
        """
        batch_id, ledger = self.clients.new_id(), self._ledger(built)
        kept = keep_letters(self.clients.lake, self.built, self.spec, self._ledger(here), ledger, writer=self.writer)
        built = {**built, self.spec.identifier: kept.counted_in(ledger)}
        built = with_renewed_deletes(self.built, built, now=self.clients.now()) if self._bases else built
        together = read_by_group(self.spec, built[self.spec.identifier].state, self._base_state(self.spec))
        at = ((spec, here[spec.identifier], built[spec.identifier], self._base_state(spec)) for spec in self._specs)
        first, *others = (Replacement(*each, self.writer, batch_id, together) for each in at)
        lake, letters, after = self.clients.lake, self.spec.dead_letters_identifier, first.after
        since = 0 if first.base is None else first.base.epoch
        files = [*built_letters(self.built, self.spec, ledger.state, first.base), *kept.files]
        prepare_rebuilt(lake, letters, plan=first.plan, after=after, since=since, writer=self.writer, files=files)
        for other in others:
            other.make_ready(self.built)
        try:
            first.replace(self.built)
        except CommitError as failed:
            check_replaced(loaded(lake, self.spec.identifier), after, failed)
        drop_others(lake, letters, plan=first.plan)
        return self._finished(self._standing(), after.itself)

    def _finished(self, now: Places, batch: BatchRef) -> list[Receipt]:
        self._reveal(self._ledger(now))
        with suppress(CommitError):  # the next rebuild drops what was built of the dead letters
            self.built.discard(self.spec.dead_letters_identifier)
        return receipts_of(now, batch)

    def _reveal(self, ledger: Standing) -> None:
        if ledger.state.batch_id:
            lake, letters, view = self.clients.lake, self.spec.dead_letters_identifier, ledger.view
            reveal(lake, letters, state=ledger.state, rows=self.spec.identifier, rows_uuid=view.uuid)
