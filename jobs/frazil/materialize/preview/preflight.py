"""Check before anything is written: report every problem of every table at once.

`materialize` refuses for the same reasons, since both ask the functions that decide what a table needs; one that is
there goes on where only its Delta log cannot follow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.materialize.create import initial_columns, start_problems
from frazil.materialize.dead_letters import check_dead_letters
from frazil.materialize.layout import delta_problems, partition_problems
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.foresee import foresee
from frazil.materialize.sources import LatestSchemas, describe_topics, latest_schemas
from frazil.materialize.state import check_format, standing
from frazil.model.errors import FrazilError, ServiceError
from frazil.model.plan import Halt, TopicFacts, WriterSchemas
from frazil.model.schemas import RegisteredSchema
from frazil.model.snapshot import TableView
from frazil.model.spec import Start, TableSpec
from frazil.ports import Lake, SchemaRegistry, Topics

Answer = TypeVar("Answer")

NO_SCHEMAS = WriterSchemas({}, {})


def problems(
    specs: Sequence[TableSpec],
    *,
    lake: Lake,
    topics: Topics,
    registry: SchemaRegistry,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[FrazilError, ...]:
    """Everything that is wrong, each once. What does not answer is asked once for all tables.

    `tell` is given a line before a service is asked for the first time, and one when it does not answer.
    """
    asking = _Asking(lake, topics, registry, tell)
    found = [problem for spec in specs for problem in asking.of_table(spec)]
    return tuple({problem.what: problem for problem in found}.values())


@dataclass(slots=True)
class _Asking:
    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    tell: Callable[[str], None]
    silent: dict[str, ServiceError] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def of_table(self, spec: TableSpec) -> Iterator[FrazilError]:
        found: list[FrazilError] = []
        facts = _note(found, lambda: describe_topics(_Topics(self), spec))
        latest = _note(found, lambda: latest_schemas(_Registry(self), spec))
        view = _note(found, lambda: self.load(spec.identifier))
        dead_letters = _note(found, lambda: self.load(spec.dead_letters_identifier))
        yield from found
        if "catalog" not in self.silent:
            yield from _problems_with(spec, view, dead_letters, facts, latest)

    def load(self, identifier: str) -> TableView | None:
        return self.ask("catalog", lambda: self.lake.load(identifier))

    def ask(self, service: str, act: Callable[[], Answer]) -> Answer:
        """An answer, or the failure to give one; who has failed once is not asked again."""
        if service in self.silent:
            raise self.silent[service]
        if service not in self.asked:
            self.tell(f"connecting to the {service}")
        self.asked.add(service)
        try:
            return act()
        except ServiceError as failure:
            self.tell(f"the {service} does not answer: {failure.what}")
            self.silent[service] = failure
            raise


@dataclass(frozen=True, slots=True)
class _Topics:
    asking: _Asking

    def describe(self, topic: str) -> TopicFacts | None:
        return self.asking.ask("cluster", lambda: self.asking.topics.describe(topic))

    def names(self) -> Collection[str]:
        return self.asking.ask("cluster", self.asking.topics.names)

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        return self.asking.ask("cluster", lambda: self.asking.topics.first_offsets(facts, start))


@dataclass(frozen=True, slots=True)
class _Registry:
    asking: _Asking

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        return self.asking.ask("registry", lambda: self.asking.registry.by_id(schema_id))

    def remembers_missing(self, schema_id: int) -> bool:
        return self.asking.registry.remembers_missing(schema_id)

    def latest(self, subject: str) -> RegisteredSchema | None:
        return self.asking.ask("registry", lambda: self.asking.registry.latest(subject))

    def subjects_under(self, prefix: str) -> Collection[str]:
        return self.asking.ask("registry", lambda: self.asking.registry.subjects_under(prefix))


def _problems_of_new_table(
    spec: TableSpec, facts: Sequence[TopicFacts], latest: LatestSchemas | None
) -> list[FrazilError]:
    found: list[FrazilError] = [*start_problems(spec, facts)]
    columns = None if latest is None else _note(found, lambda: initial_columns(spec, latest))
    if columns is None:
        return found
    return [*found, *partition_problems(spec, columns[0]), *delta_problems(spec, columns[0])]


def _problems_with(
    spec: TableSpec,
    view: TableView | None,
    dead_letters: TableView | None,
    facts: Sequence[TopicFacts] | None,
    latest: LatestSchemas | None,
) -> list[FrazilError]:
    if view is not None:
        return _problems_of_table(spec, view, dead_letters, facts, latest)
    found: list[FrazilError] = []
    _note(found, lambda: check_dead_letters(dead_letters, spec, None))
    return [*found, *_problems_of_new_table(spec, facts or (), latest)]


def _problems_of_table(
    spec: TableSpec,
    view: TableView,
    dead_letters: TableView | None,
    facts: Sequence[TopicFacts] | None,
    latest: LatestSchemas | None,
) -> list[FrazilError]:
    """Why `materialize` would not go on with the table; a pause is the only reason where there is one."""
    found: list[FrazilError] = []
    ours = _note(found, lambda: standing(view, pipeline=spec.pipeline))
    if ours is None:
        return found
    _note(found, lambda: check_format(view))
    _note(found, lambda: check_dead_letters(dead_letters, spec, ours))
    plan = plan_batch(spec, ours, facts or (), schemas=NO_SCHEMAS, batch_id="")
    if isinstance(plan, Halt):
        found.append(plan.error)
    if latest is None or PAUSED_PROPERTY in view.properties:
        return found
    schemas = WriterSchemas({s.id: s for s in latest.values}, {s.id: s for s in latest.keys})
    foresight = _note(found, lambda: foresee(spec, view, schemas))
    if foresight is not None:
        found += foresight.refusals
        found += delta_problems(spec, foresight.columns)
    return found


def _note(found: list[FrazilError], act: Callable[[], Answer]) -> Answer | None:
    """The answer; or None, and the failure among what was found."""
    try:
        return act()
    except FrazilError as problem:
        found.append(problem)
        return None
