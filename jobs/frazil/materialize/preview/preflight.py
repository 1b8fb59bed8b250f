"""Check before anything is written: report every problem of every table at once.

`materialize` asks the same functions, and refuses for the same reasons, with one exception: if only the Delta log of an
existing table cannot follow, `check` reports it and `materialize` continues without the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.materialize.group.obstacles import in_group, other_tables
from frazil.materialize.preview.batch import Facts, preview_batch
from frazil.materialize.preview.changes import schemas_of_next_batch
from frazil.materialize.remember import note_on_deletes
from frazil.materialize.schema.routed import route_without_schema
from frazil.materialize.sources import describe_topics
from frazil.model.errors import FrazilError, ServiceError, SubjectMissingError, TopicMissingError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry, Topics

Answer = TypeVar("Answer")


def problems(
    specs: Sequence[TableSpec],
    *,
    lake: Lake,
    topics: Topics,
    registry: SchemaRegistry,
    tell: Callable[[str], None] = lambda line: None,
    remark: Callable[[str], None] = lambda line: None,
) -> tuple[FrazilError, ...]:
    """Return every problem once. A service that does not answer is asked once for all tables.

    `tell` is given a line before a service is asked for the first time, and one when it does not answer; `remark` is
    given what may be a mistake, but prevents nothing.
    """
    asking = _Asking(lake, topics, registry, tell, remark)
    found = [problem for spec in specs for problem in asking.of_table(spec)]
    return tuple({problem.what: problem for problem in found}.values())


@dataclass(slots=True)
class _Asking:
    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    tell: Callable[[str], None]
    remark: Callable[[str], None]
    silent: dict[str, ServiceError] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def of_table(self, spec: TableSpec) -> Iterator[FrazilError]:
        found: list[FrazilError] = []
        topics = _note(found, lambda: self.ask("cluster", lambda: describe_topics(self.topics, spec)))
        view = _note(found, lambda: in_group(spec, self.load))
        schemas = _note(found, lambda: self.ask("registry", lambda: schemas_of_next_batch(self.registry, spec, view)))
        dead_letters = _note(found, lambda: self.load(spec.dead_letters_identifier))
        yield from found
        note = None if schemas is None else route_without_schema(spec, schemas.values.values())
        for each in (note, note_on_deletes(spec)):
            if each is not None:
                self.remark(f"{spec.identifier}: {each}")
        if "catalog" not in self.silent:
            facts = Facts(spec, view, dead_letters, topics, schemas, others=other_tables(spec, self.load))
            yield from (obstacle.error for obstacle in preview_batch(facts).obstacles)

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
        except (TopicMissingError, SubjectMissingError):
            raise
        except ServiceError as failure:
            self.tell(f"the {service} does not answer: {failure.what}")
            self.silent[service] = failure
            raise


def _note(found: list[FrazilError], act: Callable[[], Answer]) -> Answer | None:
    """The answer; or None, and the failure among what was found."""
    try:
        return act()
    except FrazilError as problem:
        found.append(problem)
        return None
