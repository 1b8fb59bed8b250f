"""One table of a run: what the process remembers about it, and its own steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from frazil.materialize.announce import Announcing
from frazil.materialize.branches import STAGE_PREFIX, branch_names
from frazil.materialize.changed_spec.follow_spec import follow_layout, follow_spec
from frazil.materialize.clients import Clients
from frazil.materialize.evolve import Absorbed, evolve
from frazil.materialize.hash_key import record_hash_key
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.send import Sending
from frazil.materialize.state import Standing, standing
from frazil.materialize.warn_once import WarnOnce
from frazil.model.plan import WriterSchemas
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec


@dataclass(slots=True)
class OneTable:
    """One table in one process. `writer` is the process's id. `given` is the spec as it was, and `spec` the table's."""

    spec: TableSpec
    writer: str
    absorbed: Absorbed = field(default_factory=lambda: Absorbed({}, {}))
    given: TableSpec = field(init=False)
    stage_names: Iterator[str] = field(init=False)
    warnings: WarnOnce = field(init=False)
    announcing: Announcing = field(init=False)
    housekeeping: Housekeeping = field(init=False)
    sending: Sending = field(init=False)

    def __post_init__(self) -> None:
        self.given = self.spec
        self.stage_names = branch_names(STAGE_PREFIX, self.writer)
        self.warnings = WarnOnce(self.spec.identifier)
        self.announcing = Announcing(self.spec, self.warnings)
        self.housekeeping = Housekeeping(self.spec, self.writer)
        self.sending = Sending(self.spec)

    @property
    def identifier(self) -> str:
        return self.spec.identifier

    def stands(self, view: TableView) -> Standing:
        return standing(view, pipeline=self.spec.pipeline)

    def followed(self, clients: Clients, here: Standing) -> Standing:
        """Apply the changes of the spec, but for the partitioning, and let new outputs begin."""
        followed = follow_spec(clients.lake, self.spec, here.view)
        self.absorbed.changes += followed.columns
        view = record_hash_key(clients.lake, self.spec, followed.view)
        return self.stands(self.sending.begin(clients, view))

    def evolved(
        self,
        clients: Clients,
        here: Standing,
        *,
        met: WriterSchemas,
        ahead: WriterSchemas,
        ledger: Standing,
    ) -> Standing:
        """Make a place for what known writers write. Raises IncompatibleSchemaError."""
        self.absorbed.excluded_by_group = excluded_schemas(ledger.view.properties) if self.spec.group else None
        view = evolve(
            clients.lake,
            clients.registry,
            self.spec,
            here.view,
            state=here.state,
            met=met,
            absorbed=self.absorbed,
            ahead=ahead,
        )
        return self.stands(view)

    def repartitioned(self, clients: Clients, here: Standing) -> Standing:
        return self.stands(follow_layout(clients.lake, self.spec, here.view))
