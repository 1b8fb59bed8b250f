"""Perform a rebuild: batches onto a branch, and then the one commit that makes the branch `main`.

The steps of a batch see the branch as a new table with its own columns, state and dead letters (`ports.RebuildLake`),
so a rebuild that was killed continues as any table does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from frazil.materialize.branches import given_up
from frazil.materialize.changed_spec.applied_spec import (
    TEXTS,
    applied_by,
    applied_spec_of,
    naming_topics,
    ordered_as,
    spec_property,
)
from frazil.materialize.clients import Clients
from frazil.materialize.dead_letters import (
    create_dead_letters,
    drop_others,
    ensure_dead_letters,
    prepare_rebuilt,
    reveal,
    tagged,
)
from frazil.materialize.outcome import Outcome, Published
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY
from frazil.materialize.rebuild.build_run import BuildRun
from frazil.materialize.rebuild.checks import (
    built_is_gone,
    check_base,
    check_complete,
    check_foreign,
    check_not_ahead,
    check_own,
    check_records,
    check_spec,
    check_topics,
    is_ahead,
)
from frazil.materialize.rebuild.former_order import former_order, record, waits
from frazil.materialize.rebuild.rebuilt_properties import DECIDED, LEFT_BEHIND
from frazil.materialize.rebuild.rebuilt_state import (
    ends_of,
    offsets_in,
    plan_of,
    receipt_of,
    state_after,
    total_offsets,
)
from frazil.materialize.rebuild.rewind import Target, base_of, check_expired
from frazil.materialize.rebuild.topics import Offsets, TopicsUpTo
from frazil.materialize.replay.request import REQUEST_PREFIX
from frazil.materialize.sources import describe_topics
from frazil.materialize.state import CHECKPOINT_TAG, Standing, generation_property, standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import (
    BadRecordLimitError,
    CommitError,
    CommitRejectedError,
    CommitUnknownError,
    FrazilError,
    IncompatibleSchemaError,
    Misuse,
    RebuildError,
    UnsupportedChangeError,
)
from frazil.model.expired_letters import ExpiredLetters, expired_letters
from frazil.model.ingested import WrittenFile
from frazil.model.plan import NothingToDo, TopicFacts
from frazil.model.progress import ForeignChanges, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.model.summary import batch_of, state_in, store
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
    """Rebuilds one table. `built` is the lake in which it is the branch.

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
    _base: Snapshot | None = field(default=None, init=False)
    _begun: int | None = field(default=None, init=False)
    _started: float = field(init=False)
    _records: int = 0
    _offsets: int = 0

    def perform(self) -> Receipt:
        """Rebuild the table, from the beginning or from where an earlier process stopped.

        Readers see the table as it was until this returns. Raises RebuildError, RecordsLostError and SourceChangedError
        if the topics cannot make the table again, ContendedError if a driver publishes faster than this can follow, and
        what a batch raises.
        """
        self._started = self.clock()
        here = self._begun_at(self._standing())
        ensure_dead_letters(self.clients.lake, self.spec, here)
        self._begin(here)
        self._begun = self._branch().view.head
        reason: Exception = CommitRejectedError("a driver kept publishing")
        for _ in range(self.moves):
            check_not_ahead(self.spec, here, self._branch())
            built = self._read(here)
            here = self._checked()
            if ends_of(built.state) != ends_of(here.state):
                continue
            check_complete(ordered_as(self.spec, built.view.properties), here.state, built.state)
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

    def _begun_at(self, here: Standing) -> Standing:
        """Choose the snapshot that a rewind begins at. Raises if the table cannot be rebuilt from its topics."""
        if self.target is not None:
            facts = self._facts(here)
            self._base, _ = base_of(self.spec, here, self.clients.topics, facts, self.target)
            letters = self.clients.lake.load(self.spec.dead_letters_identifier)
            expired = ExpiredLetters() if letters is None else expired_letters(letters, letters.head, tagged(letters))
            check_expired(self.spec, self._base, expired, rows_uuid=here.view.uuid, now=self.clients.now())
        return self._checked()

    @property
    def _base_state(self) -> TableState | None:
        return None if self._base is None else state_in(self._base)

    def _standing(self) -> Standing:
        """Return the table as readers see it. Raises if it cannot be rebuilt at all."""
        check_spec(self.spec)
        view = self.clients.lake.load(self.spec.identifier)
        if view is None:
            raise Misuse(
                f"the catalog has no table {self.spec.identifier}, so there is nothing to rebuild",
                hint="run `frazil materialize`, which creates it",
            )
        here = standing(view, pipeline=self.spec.pipeline)
        check_topics(self.spec, here.state)
        return here

    def _checked(self) -> Standing:
        """Return the table as readers see it. Raises if the topics cannot make its rows again."""
        here, base = self._standing(), self._base_state
        facts = self._facts(here)
        check_records(self._spec_of(here), here, facts, self._begins(here, facts))
        if not self.drop_foreign:
            check_foreign(self.spec, here, before=ForeignChanges() if base is None else base.foreign)
        return here

    def _begins(self, here: Standing, facts: Sequence[TopicFacts]) -> Offsets:
        """Return the first offsets that are read again."""
        origins, base = self._origins(here, facts), self._base_state
        after = {s.topic: {n: p.next for n, p in s.partitions.items()} for s in (() if base is None else base.sources)}
        return {topic: {**each, **after.get(topic, {})} for topic, each in origins.items()}

    def _spec_of(self, here: Standing) -> TableSpec:
        """The spec of the branch: the topics that the table has read, for readers of Iceberg only."""
        known = {source.topic for source in here.state.sources}
        return replace(self.spec, topics=tuple(t for t in self.spec.topics if t in known), formats=("iceberg",))

    def _facts(self, here: Standing) -> Sequence[TopicFacts]:
        return describe_topics(self.clients.topics, self._spec_of(here))

    def _origins(self, here: Standing, facts: Sequence[TopicFacts]) -> Offsets:
        """Return where the rebuilt table begins: where the table does, or where a changed `start` points."""
        own = {s.topic: {n: p.origin for n, p in s.partitions.items()} for s in here.state.sources}
        applied = applied_spec_of(here.view.properties, table=self.spec.identifier)
        if applied is None or applied.keys["start"] == TEXTS["start"](self.spec):
            return own
        return {each.topic: self._started_again(here, each, own[each.topic]) for each in facts}

    def _started_again(self, here: Standing, facts: TopicFacts, own: Mapping[int, int]) -> dict[int, int]:
        first = self.clients.topics.first_offsets(facts, self.spec.start)
        ends = ends_of(here.state)
        return {n: min(first.get(n, origin), ends[facts.topic, n]) for n, origin in own.items()}

    def _begin(self, here: Standing) -> None:
        """Make the branch, or continue that of an earlier process, if it was built by the same spec.

        Records that an operator has decided about are not asked about again.
        """
        if not self._continues(here):
            self.discard()
            with self._refusals():
                self._create(here)
        if self.built.load(self.spec.dead_letters_identifier) is None:
            create_dead_letters(self.built, self.spec)
        decided = {name: here.view.properties[name] for name in DECIDED if name in here.view.properties}
        self.built.set_properties(self.spec.identifier, put=decided, remove=[PAUSED_PROPERTY])

    def _continues(self, here: Standing) -> bool:
        """Return whether an earlier process has begun the same."""
        view = self.built.load(self.spec.identifier)
        if view is None or is_ahead(standing(view, pipeline=self.spec.pipeline).state, here.state):
            return False
        of_table = {snapshot.id for snapshot in here.view.ancestry(here.view.head)}
        fork = next((each.id for each in view.ancestry(view.head) if each.id in of_table), None)
        if self._base is not None:
            return fork == self._base.id
        applied = applied_spec_of(view.properties, table=self.spec.identifier)
        wanted = applied_by(ordered_as(naming_topics(self._spec_of(here), here.state), view.properties))
        return fork is None and applied is not None and applied.keys == wanted.keys

    def _create(self, here: Standing) -> None:
        if self._base is None:
            self._run(here, self._first(here)).create()
            return
        kept = {n: v for n, v in here.view.properties.items() if not n.startswith(REQUEST_PREFIX)}
        properties = {**kept, **generation_property(state_in(self._base).generation)}
        view = loaded(self.clients.lake, self.spec.identifier)  # as it is without what was dropped
        try:
            self.built.begin_at(view, self._base.id, tag=CHECKPOINT_TAG, properties=properties)
        except CommitRejectedError:
            check_base(self.spec, self._base, loaded(self.clients.lake, self.spec.identifier))
            raise

    def discard(self) -> bool:
        """Drop what was built. Return whether there was anything. Raises CommitError."""
        gone = [self.built.discard(each) for each in (self.spec.identifier, self.spec.dead_letters_identifier)]
        return any(gone)

    def _run(self, here: Standing, first: Mapping[int, int] | None = None) -> BuildRun:
        topics = TopicsUpTo(self.clients.topics, here.state, self._origins(here, self._facts(here)), first or {})
        clients = replace(self.clients, lake=self.built, topics=topics, on_receipt=lambda receipt: None)
        return BuildRun(self._spec_of(here), clients, self.writer)

    def _read(self, here: Standing) -> Standing:
        """Read the topics onto the branch, up to where the table has read them."""
        first = self._first(here)
        if first and waits(built := self._branch(), spec=self.spec):
            record(self.built, self.spec, built, first)
            self._read_all(self._run(here, first), here)
        self._read_all(self._run(here), here)
        return self._own(here)

    def _read_all(self, run: BuildRun, here: Standing) -> None:
        while not isinstance(outcome := self._batch(run, here), NothingToDo):
            if isinstance(outcome, Published):
                self._note(outcome, here.state)

    def _batch(self, run: BuildRun, here: Standing) -> Outcome:
        """Carry out a batch. Raises RebuildError if the branch is not the one that this process has begun."""
        self._own(here)
        try:
            with self._refusals():
                return run.batch()
        except FrazilError:
            self._own(here)  # if it is not, the batch failed because of that
            raise

    def _own(self, here: Standing) -> Standing:
        """Return what was built. Raises RebuildError if another process has dropped it, or begun another rebuild."""
        built, base = self._branch(), self._base
        check_own(self.spec, here, built, begun=self._begun, base=None if base is None else base.id)
        return built

    def _first(self, here: Standing) -> Mapping[int, int]:
        """Return the offsets that are read first; a rewind has the order that its snapshot has."""
        return {} if self._base is not None else former_order(self.spec, here)

    def _branch(self) -> Standing:
        view = self.built.load(self.spec.identifier)
        if view is None:
            raise built_is_gone(self.spec)
        return standing(view, pipeline=self.spec.pipeline)

    def _note(self, outcome: Published, table: TableState) -> None:
        receipt, state = outcome.receipt, outcome.standing.state
        self._records += receipt.counts.read
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

    def _replaced(self, here: Standing, built: Standing) -> Receipt:
        """Make what was built the table, then its dead letters. Raises CommitError if the table is as it was."""
        lake, identifier, letters = self.clients.lake, self.spec.identifier, self.spec.dead_letters_identifier
        base = self._base_state
        after = state_after(here.state, built.state, base, writer=self.writer, batch_id=self.clients.new_id())
        head, uuid = built.view.head, here.view.uuid
        assert head is not None  # noqa: S101 - a table that was created has a snapshot
        plan = plan_of(here.state, after, identifier=identifier, uuid=uuid, head=head)
        since, files = 0 if base is None else base.epoch, self._letter_files()
        prepare_rebuilt(lake, letters, plan=plan, after=after, since=since, writer=self.writer, files=files)
        receipt = receipt_of(identifier, after, base, built.view.snapshots[head])
        stored = store(after, receipt)
        with suppress(CommitUnknownError):
            self.built.replace(
                here.view,
                built.view,
                tag=CHECKPOINT_TAG,
                summary=stored.summary,
                document=stored.document,
                put=self._properties(here, built, after),
                remove=LEFT_BEHIND,
                statistics=None if after.remembered is None else after.remembered.file,
            )
        published = self._snapshot_of(after)
        reveal(lake, letters, state=after, rows=identifier, rows_uuid=uuid)
        drop_others(lake, letters, plan=plan)
        self.built.discard(letters)
        return replace(receipt, snapshot_id=published)

    def _letter_files(self) -> list[WrittenFile]:
        view = self.built.load(self.spec.dead_letters_identifier)
        assert view is not None  # noqa: S101 - the first batch made it
        return [file for each in view.ancestry(view.head) for file in self.built.added_files(view, each.id)]

    def _properties(self, here: Standing, built: Standing, after: TableState) -> dict[str, str]:
        """Return the properties of the rebuilt table that its branch has otherwise, or not.

        They are of the whole spec, and an operator may have accepted bad records of the table meanwhile.
        """
        accepted = here.view.properties.get(ACCEPTED_PROPERTY)
        kept = {} if accepted is None else {ACCEPTED_PROPERTY: accepted}
        spec = naming_topics(replace(self._spec_of(here), formats=self.spec.formats), after)
        spec = ordered_as(spec, built.view.properties)
        applied = applied_spec_of(built.view.properties, table=spec.identifier)
        recorded = applied_by(spec, None if self._base is None else applied)
        recorded = recorded if applied is None else replace(recorded, offsets_first=applied.offsets_first)
        return {**kept, **spec_property(recorded), **generation_property(after.generation)}

    def _snapshot_of(self, after: TableState) -> int:
        view = loaded(self.clients.lake, self.spec.identifier)
        for snapshot in view.ancestry(view.head):
            if batch_of(snapshot) == after.itself:
                return snapshot.id
        raise CommitRejectedError("the commit that replaces the table was not found")
