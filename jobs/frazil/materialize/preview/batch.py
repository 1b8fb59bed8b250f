"""What the next batch would decide before it reads a record: asked by `explain` and `check`, which change nothing.

`materialize` calls the same functions when it comes to each step. What a step would refuse is an obstacle to it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from frazil.materialize.added_partitions import Ordered
from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.clients import STEPS, Step
from frazil.materialize.create import initial_columns, problems_of_new_table
from frazil.materialize.dead_letter_checks import check_dead_letters
from frazil.materialize.group.obstacles import OtherTables, group_obstacles
from frazil.materialize.layout import delta_problems
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.changes import PreviewedChanges, preview_changes, schemas_of_next_batch
from frazil.materialize.sources import LatestSchemas
from frazil.materialize.state import Standing, check_format, standing
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, SpecChangeError
from frazil.model.plan import Halt, Plan, TopicFacts, WriterSchemas
from frazil.model.progress import SourceProgress
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import SchemaRegistry

Decision = TypeVar("Decision")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out about one spec. `topics` and `schemas` are None if their service did not answer.

    `view` has the pause and the excluded schemas of the table's group (`in_group`).

    `added` are the topics that the table has never been read from, at their first offsets, if they are known.
    """

    spec: TableSpec
    view: TableView | None
    dead_letters: TableView | None
    topics: Sequence[TopicFacts] | None
    schemas: WriterSchemas | None
    added: Sequence[SourceProgress] = ()
    others: OtherTables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a step would fail."""

    step: Step
    error: FrazilError


@dataclass(slots=True)
class Preview:
    """`obstacles` come in the order of the steps, as `materialize` would meet them.

    `new_columns` are those of a table that is to be made. `changes` and `plan` are of one that exists and is ours; all
    tables of a group have the plan of its ledger.
    """

    new_columns: tuple[Column, ...] = ()
    changes: PreviewedChanges | None = None
    plan: Plan | None = None
    obstacles: list[Obstacle] = field(default_factory=list)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table once the batch has begun, as far as they are known."""
        return self.new_columns if self.changes is None else self.changes.columns

    def obstacle_up_to(self, last: Step) -> FrazilError | None:
        """Return the first obstacle to this step or to an earlier one."""
        steps = STEPS[: STEPS.index(last) + 1]
        return next((obstacle.error for obstacle in self.obstacles if obstacle.step in steps), None)

    def add(self, step: Step, errors: Sequence[FrazilError]) -> None:
        self.obstacles += [Obstacle(step, error) for error in errors]

    def decide(self, step: Step, decision: Callable[[], Decision]) -> Decision | None:
        """Return what is decided; or None, and the refusal is an obstacle to the step."""
        try:
            return decision()
        except FrazilError as refusal:
            self.add(step, [refusal])
            return None


def preview_batch(facts: Facts, *, batch_id: str = "") -> Preview:
    """Return what the next batch would do to the tables before it reads, its plan, and everything in its way."""
    preview, view = Preview(), facts.view
    if view is None:
        _group(preview, facts, None)
        _new_table(preview, facts)
        return preview
    here = preview.decide("create", lambda: standing(view, pipeline=facts.spec.pipeline))
    if here is not None:
        _table(preview, facts, here, batch_id)
    return preview


def columns_to_be(spec: TableSpec, registry: SchemaRegistry) -> tuple[Column, ...]:
    """Return the columns with which the table would be made. None if a schema is missing, or refuses the table."""
    try:
        schemas = schemas_of_next_batch(registry, spec, None)
    except FrazilError:
        return ()
    return preview_batch(Facts(spec, None, None, None, schemas)).new_columns


def _new_table(preview: Preview, facts: Facts) -> None:
    spec, schemas, made = facts.spec, facts.schemas, None
    if schemas is not None:
        made = preview.decide("create", lambda: initial_columns(spec, LatestSchemas.of(schemas)))
    preview.new_columns = () if made is None else made[0]
    for step, problem in problems_of_new_table(spec, made, facts.topics or (), facts.dead_letters):
        preview.add(step, [problem])


def _group(preview: Preview, facts: Facts, here: Standing | None) -> None:
    for step, problem in group_obstacles(facts.spec, here, facts.others):
        preview.add(step, [problem])


def _others(facts: Facts) -> Iterator[Ordered]:
    """Yield the other tables of a group by the specs that they follow."""
    for name, view in facts.others.items():
        with suppress(FrazilError):  # reported for the table itself
            if view is not None:
                at = standing(view, pipeline=facts.spec.pipeline)
                yield as_applied(replace(facts.spec, table=name), view.properties), at


def _table(preview: Preview, facts: Facts, here: Standing, batch_id: str) -> None:
    """A pause is the only obstacle to the steps after `recover`, where there is one."""
    spec, view, paused = facts.spec, here.view, PAUSED_PROPERTY in here.view.properties
    preview.decide("create", lambda: check_format(view))
    preview.decide("create_dead_letters", lambda: check_dead_letters(facts.dead_letters, spec, here))
    _group(preview, facts, here)
    schemas = facts.schemas or WriterSchemas({}, {})
    if facts.schemas is not None:
        preview.changes = preview.decide("evolve", lambda: preview_changes(spec, view, schemas, here.state))
    changes = None if paused else preview.changes
    for refusal in () if changes is None else changes.refusals:
        preview.add("follow_spec" if isinstance(refusal, SpecChangeError) else "evolve", [refusal])
    if spec.ledger is None:
        topics = facts.topics or ()
        others = list(_others(facts))
        preview.plan = plan_batch(
            spec, here, topics, schemas=schemas, batch_id=batch_id, added=facts.added, others=others
        )
        preview.add("plan", [preview.plan.error] if isinstance(preview.plan, Halt) else [])
    preview.add("announce", () if changes is None else delta_problems(spec, changes.columns))
