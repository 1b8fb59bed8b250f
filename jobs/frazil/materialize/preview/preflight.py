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
from frazil.materialize.schema.routed_fields import note_on_fields
from frazil.materialize.sources import describe_topics
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, ServiceError, SubjectMissingError, TopicMissingError
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.outputs.checks import check_schemas, check_topic
from frazil.outputs.ports import OutputClients
from frazil.outputs.records import shape_of
from frazil.ports import Lake, SchemaRegistry, Topics

Answer = TypeVar("Answer")


def problems(
    specs: Sequence[TableSpec],
    *,
    lake: Lake,
    topics: Topics,
    registry: SchemaRegistry,
    outputs: Callable[[], OutputClients] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    remark: Callable[[str], None] = lambda line: None,
) -> tuple[FrazilError, ...]:
    """Return every problem once. A service that does not answer is asked once for all tables.

    `tell` is given a line before a service is asked for the first time, and one when it does not answer; `remark` is
    given what may be a mistake, but prevents nothing. Output topics are asked about through `outputs`.
    """
    asking = _Asking(lake, topics, registry, tell, remark, outputs)
    found = [problem for spec in specs for problem in asking.of_table(spec)]
    return tuple({problem.what: problem for problem in found}.values())


@dataclass(slots=True)
class _Asking:
    lake: Lake
    topics: Topics
    registry: SchemaRegistry
    tell: Callable[[str], None]
    remark: Callable[[str], None]
    outputs: Callable[[], OutputClients] | None
    silent: dict[str, ServiceError] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def of_table(self, spec: TableSpec) -> Iterator[FrazilError]:
        found: list[FrazilError] = []
        topics = _note(found, lambda: self.ask("cluster", lambda: describe_topics(self.topics, spec)))
        view = _note(found, lambda: in_group(spec, self.load))
        schemas = _note(found, lambda: self.ask("registry", lambda: schemas_of_next_batch(self.registry, spec, view)))
        dead_letters = _note(found, lambda: self.load(spec.dead_letters_identifier))
        yield from found
        known = [] if schemas is None else list(schemas.values.values())
        note = None if schemas is None else route_without_schema(spec, known)
        for each in (note, note_on_fields(spec, known), note_on_deletes(spec)):
            if each is not None:
                self.remark(f"{spec.identifier}: {each}")
        if "catalog" not in self.silent:
            facts = Facts(spec, view, dead_letters, topics, schemas, others=other_tables(spec, self.load))
            preview = preview_batch(facts)
            yield from (obstacle.error for obstacle in preview.obstacles)
            yield from self._of_outputs(spec, preview.columns)

    def _of_outputs(self, spec: TableSpec, columns: Sequence[Column]) -> Iterator[FrazilError]:
        """Yield what would keep the outputs from being sent. Columns that are not known yet are not looked at."""
        if self.outputs is not None and spec.outputs:
            clients = self.outputs()
            for output in spec.outputs:
                yield from self._of_output(clients, spec, output, columns)

    def _of_output(
        self, clients: OutputClients, spec: TableSpec, output: OutputSpec, columns: Sequence[Column]
    ) -> Iterator[FrazilError]:
        found: list[FrazilError] = []
        _note(found, lambda: self.ask("cluster", lambda: check_topic(clients.topics, spec, output)))
        shape = _note(found, lambda: shape_of(spec, output, columns)) if columns else None
        if shape is not None:
            _note(found, lambda: self.ask("registry", lambda: check_schemas(clients.schemas, spec, output, shape)))
        yield from found

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
