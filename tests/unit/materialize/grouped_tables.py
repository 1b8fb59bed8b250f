"""A topic of orders, refunds and other records, which a group of two tables takes, in memory and in a real catalog."""

from __future__ import annotations

import shutil
import uuid
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import Observer
from frazil.materialize.outcome import Published
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import TableRun
from frazil.materialize.state import Standing, standing
from frazil.model.errors import FrazilError
from frazil.model.plan import NothingToDo
from frazil.model.progress import OffsetSums
from frazil.model.routes import Group, Route
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, SubjectSettings, TableSpec, Trigger
from frazil.ports import Lake
from frazil.proof.verification import Verification
from frazil.verify.group import verify_together
from frazil.verify.ranges import with_chains
from tests.fakes.clients_in_memory import a_field, record

ORDER = record(a_field("n", "int"), name="shop.Order")
REFUND = record(a_field("n", "int"), a_field("why", "string"), name="shop.Refund")
OTHER = record(a_field("n", "int"), name="shop.Other")
SCHEMAS = {"order": (1, ORDER), "refund": (2, REFUND), "other": (3, OTHER)}
ROUTES = (Route("orders", "shop.Order"), Route("refunds", "shop.Refund"))
DEAD_LETTERS = "lake.events__dead_letters"
BATCHES = 20


def specs(*routes: Route, **changes: Any) -> tuple[TableSpec, ...]:
    """The tables of a group, the ledger first."""
    group = Group("lake", "events", routes or ROUTES)
    given: dict[str, Any] = {
        "topics": ("events",),
        "value_subject": SubjectSettings("record"),
        "bad_record_limit": BadRecordLimit.off(),
        "trigger": Trigger(spec().trigger.every, rows=6, bytes=10**6),
        "group": group,
    }
    return tuple(spec(table=route.table, **{**given, **changes}) for route in group.routes)


@dataclass
class GroupWorld(World):
    """Records are sent by name; those that no route takes are dead letters."""

    @staticmethod
    def at(folder: Path) -> GroupWorld:
        world = GroupWorld(IcebergLake(CatalogSettings("jdbc", str(folder / "warehouse"))), names=("events",))
        for _, text in SCHEMAS.values():
            world.registry.register("events-value", text)
        return world

    def send(self, *names: str) -> None:
        for name in names:
            schema_id, text = SCHEMAS[name]
            more = {"why": "x"} if name == "refund" else {}
            self.values.append(framed(schema_id, text, {"n": len(self.values), **more}))

    def driver(
        self,
        *tables: TableSpec,
        observe: Observer | None = None,
        lake: Lake | None = None,
    ) -> TableRun:
        """A new process."""
        first, *others = tables or specs()
        run = replace(self.table(first), writer=uuid.uuid4().hex[:8], others=tuple(others))
        clients = replace(run.clients, lake=lake or self.lake, observe=observe or run.clients.observe)
        run.clients = replace(clients, new_id=lambda: uuid.uuid4().hex[:8])
        return run

    def catch_up(self, run: TableRun | None = None) -> list[Published]:
        run, published = run or self.driver(), []
        for _ in range(BATCHES):
            outcome = run.batch()
            if isinstance(outcome, NothingToDo):
                return published
            published += [outcome] if isinstance(outcome, Published) else []
        raise AssertionError(f"not caught up: {outcome}")

    def check_all(self) -> list[FrazilError]:
        return list(problems(specs(), lake=self.lake, topics=self.topics, registry=self.registry))

    def stands(self, table: str) -> Standing:
        view = self.lake.load(f"lake.{table}")
        assert view is not None
        return standing(view, pipeline=specs()[0].pipeline)

    def offsets(self, identifier: str, column: str = "kafka_offset") -> list[int]:
        table = self.lake.catalog.load_table(identifier)
        return sorted(table.scan(selected_fields=(column,)).to_arrow()[column].to_pylist())

    def named(self, name: str) -> list[int]:
        """The offsets of the records that were sent with a name."""
        schema_id = SCHEMAS[name][0]
        return [offset for offset, value in enumerate(self.values) if value[4] == schema_id]

    def assert_exactly_once(self, *, read: int | None = None) -> None:
        """Check that each record is in the table that takes it, or a dead letter, and that all states agree."""
        end = len(self.values) if read is None else read
        orders, refunds, others = ([n for n in self.named(name) if n < end] for name in SCHEMAS)
        assert self.offsets("lake.orders") == orders
        assert self.offsets("lake.refunds") == refunds
        assert self.offsets(DEAD_LETTERS, "offset") == others
        ledger, other = self.stands("orders").state, self.stands("refunds").state
        assert ledger.itself == other.itself
        assert other.group is None and ledger.group is not None
        for state, taken in ((ledger, orders), (other, refunds)):
            ((number, progress),) = state.sources[0].partitions.items()
            assert (number, progress.next, progress.counts.read, progress.counts.rows) == (
                0,
                end,
                len(taken),
                len(taken),
            )
            assert progress.sums == OffsetSums(sum(taken), sum(n * n for n in taken))
        lines = {line.table: line.read.get("events", {}).get(0, 0) for line in ledger.group.lines}
        assert lines == {"orders": len(orders), "refunds": len(refunds)}
        total = ledger.group.total()
        assert (total.read, total.rows, total.dead_letters) == (end, len(orders) + len(refunds), len(others))
        assert total.balanced
        assert [finding for proof in self.verified() for finding in proof.findings] == []

    def verified(self) -> tuple[Verification, ...]:
        return with_chains(self.lake, specs(), verify_together(self.lake, specs()))


@dataclass(frozen=True)
class SavedGroup:
    """A group whose first batches many tests begin with: they run once, and each test gets its own state of files."""

    world: GroupWorld

    @classmethod
    def of(cls, world: GroupWorld) -> SavedGroup:
        warehouse = Path(world.lake._settings.warehouse)
        shutil.copytree(warehouse, _saved(warehouse))
        return cls(world)

    def restored(self) -> GroupWorld:
        """Return the group as it was saved, in a new process. Tables have absolute paths, so it is at the same one."""
        settings = self.world.lake._settings
        warehouse = Path(settings.warehouse)
        shutil.rmtree(warehouse)
        shutil.copytree(_saved(warehouse), warehouse)
        return deepcopy(self.world, {id(self.world.lake): IcebergLake(settings)})


def _saved(warehouse: Path) -> Path:
    return warehouse.with_name(f"{warehouse.name}-saved")
