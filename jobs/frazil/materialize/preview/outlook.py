"""What the next batch would decide before it reads a record: asked by `explain` and `check`, which change nothing.

`materialize` calls the same functions when it comes to each step. What a step would refuse is an obstacle to it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.materialize.clients import STEPS, Step
from frazil.materialize.create import initial_columns, problems_of_columns, start_problems
from frazil.materialize.dead_letters import check_dead_letters
from frazil.materialize.layout import delta_problems
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.foresee import Foresight, foresee
from frazil.materialize.sources import LatestSchemas
from frazil.materialize.state import Standing, check_format, standing
from frazil.model.columns import Column
from frazil.model.errors import FrazilError
from frazil.model.plan import Halt, Plan, TopicFacts, WriterSchemas
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

Decision = TypeVar("Decision")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out about one spec. `topics` and `schemas` are None if their service did not answer."""

    spec: TableSpec
    view: TableView | None
    dead_letters: TableView | None
    topics: Sequence[TopicFacts] | None
    schemas: WriterSchemas | None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a step would fail."""

    step: Step
    error: FrazilError


@dataclass(slots=True)
class Outlook:
    """`obstacles` come in the order of the steps, as `materialize` would meet them.

    `new_columns` are those of a table that is to be made. `foresight` and `plan` are of one that exists and is ours.
    """

    new_columns: tuple[Column, ...] = ()
    foresight: Foresight | None = None
    plan: Plan | None = None
    obstacles: list[Obstacle] = field(default_factory=list)

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


def look_ahead(facts: Facts, *, batch_id: str = "") -> Outlook:
    """Return what the next batch would do to the tables before it reads, its plan, and everything in its way."""
    outlook, view = Outlook(), facts.view
    if view is None:
        _new_table(outlook, facts)
        return outlook
    here = outlook.decide("create", lambda: standing(view, pipeline=facts.spec.pipeline))
    if here is not None:
        _table(outlook, facts, here, batch_id)
    return outlook


def _new_table(outlook: Outlook, facts: Facts) -> None:
    spec, schemas = facts.spec, facts.schemas
    if schemas is not None:
        decided = outlook.decide("create", lambda: initial_columns(spec, LatestSchemas.of(schemas)))
        outlook.new_columns = () if decided is None else decided[0]
        outlook.add("create", () if decided is None else problems_of_columns(spec, decided[0]))
    outlook.add("create", start_problems(spec, facts.topics or ()))
    outlook.decide("create_dead_letters", lambda: check_dead_letters(facts.dead_letters, spec, None))


def _table(outlook: Outlook, facts: Facts, here: Standing, batch_id: str) -> None:
    """A pause is the only obstacle to the steps after `recover`, where there is one."""
    spec, view, paused = facts.spec, here.view, PAUSED_PROPERTY in here.view.properties
    outlook.decide("create", lambda: check_format(view))
    outlook.decide("create_dead_letters", lambda: check_dead_letters(facts.dead_letters, spec, here))
    schemas = facts.schemas or WriterSchemas({}, {})
    if facts.schemas is not None:
        outlook.foresight = outlook.decide("evolve", lambda: foresee(spec, view, schemas))
    foresight = None if paused else outlook.foresight
    outlook.add("evolve", () if foresight is None else foresight.refusals)
    outlook.plan = plan_batch(spec, here, facts.topics or (), schemas=schemas, batch_id=batch_id)
    outlook.add("plan", [outlook.plan.error] if isinstance(outlook.plan, Halt) else [])
    outlook.add("announce", () if foresight is None else delta_problems(spec, foresight.columns))
