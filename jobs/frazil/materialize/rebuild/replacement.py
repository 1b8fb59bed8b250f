"""What a rebuild makes of one table: its next state, its properties, and the receipt of the snapshot that has both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from frazil.materialize.changed_spec.applied_spec import (
    applied_by,
    applied_spec_of,
    naming_topics,
    ordered_as,
    spec_property,
)
from frazil.materialize.epoch_tags import epoch_tag, has_epoch_tags
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY
from frazil.materialize.rebuild.compaction import with_compacted_deletes
from frazil.materialize.rebuild.rebuilt_properties import LEFT_BEHIND, check_erasures
from frazil.materialize.rebuild.rebuilt_state import Reads, plan_of, receipt_of, state_after, with_group
from frazil.materialize.state import CHECKPOINT_TAG, Standing, generation_property
from frazil.model.plan import BatchPlan
from frazil.model.progress import TableState
from frazil.model.receipt import Receipt
from frazil.model.spec import TableSpec
from frazil.model.summary import REPLACES, StoredState, store
from frazil.ports import RebuildLake


def read_so_far(spec: TableSpec, here: Standing) -> TableSpec:
    """Return the spec of the branch: the topics that the table has read, for readers of Iceberg only.

    A schema that the branch cannot hold ends the rebuild: the table may have rows of it, which would be dead letters.
    Schemas that are excluded from the table stay excluded.
    """
    known = {source.topic for source in here.state.sources}
    refuses = "pause" if spec.on_incompatible_schema == "dead_letter" else spec.on_incompatible_schema
    topics = tuple(t for t in spec.topics if t in known)
    return replace(spec, topics=topics, formats=("iceberg",), on_incompatible_schema=refuses)


@dataclass(frozen=True, slots=True)
class Replacement:
    """One table as readers see it, and what was built. `base` is the state that a rewind begins at."""

    spec: TableSpec
    here: Standing
    built: Standing
    base: TableState | None
    writer: str
    batch_id: str
    together: Reads | None

    @property
    def after(self) -> TableState:
        built = with_group(self.spec, self.built.state)
        built = with_compacted_deletes(self.here.state, replace(self.built, state=built))
        return state_after(self.here.state, built, self.base, writer=self.writer, batch_id=self.batch_id)

    @property
    def plan(self) -> BatchPlan:
        """The batch that the rebuild is."""
        uuid, head = self.here.view.uuid, self._head
        return plan_of(self.here.state, self.after, identifier=self.spec.identifier, uuid=uuid, head=head)

    @property
    def receipt(self) -> Receipt:
        snapshots = self.built.view.snapshots
        return receipt_of(self.spec.identifier, self.after, self.base, snapshots[self._head], self.together)

    @property
    def _head(self) -> int:
        head = self.built.view.head
        assert head is not None  # noqa: S101 - a table that was created has a snapshot
        return head

    def make_ready(self, lake: RebuildLake) -> None:
        """Leave it beside the table, which takes it once the ledger of its group is replaced.

        Raises CommitError, and RebuildError as `replace`.
        """
        check_erasures(self.here.view, self.built.view)
        stored = self._stored(self.after)
        lake.make_ready(
            self.here.view,
            self.built.view,
            summary=stored.summary,
            document=stored.document,
            put=self._properties,
            remove=LEFT_BEHIND,
        )

    def replace(self, lake: RebuildLake) -> None:
        """Make it the table that readers see. Raises CommitError, and RebuildError if rows were erased meanwhile."""
        check_erasures(self.here.view, self.built.view)
        after = self.after
        stored = self._stored(after)
        lake.replace(
            self.here.view,
            self.built.view,
            tags=[CHECKPOINT_TAG, *([epoch_tag(after.epoch)] if has_epoch_tags(self.spec) else [])],
            summary=stored.summary,
            document=stored.document,
            put=self._properties,
            remove=LEFT_BEHIND,
            statistics=None if after.remembered is None else after.remembered.file,
        )

    def _stored(self, after: TableState) -> StoredState:
        stored = store(after, self.receipt)
        return replace(stored, summary={**stored.summary, REPLACES: str(self.here.view.head)})

    @property
    def _properties(self) -> Mapping[str, str]:
        """The properties of the rebuilt table that its branch has otherwise, or not.

        They are of the whole spec, and an operator may have accepted bad records of the table meanwhile.
        """
        accepted = self.here.view.properties.get(ACCEPTED_PROPERTY)
        kept = {} if accepted is None else {ACCEPTED_PROPERTY: accepted}
        spec = replace(self.spec, topics=read_so_far(self.spec, self.here).topics)
        spec = ordered_as(naming_topics(spec, self.after), self.built.view.properties)
        applied = applied_spec_of(self.built.view.properties, table=spec.identifier)
        recorded = applied_by(spec, None if self.base is None else applied)
        recorded = recorded if applied is None else replace(recorded, offsets_first=applied.offsets_first)
        return {**kept, **spec_property(recorded), **generation_property(self.after.generation)}
