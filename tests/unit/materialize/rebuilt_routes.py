"""Tables of routes that are rebuilt: a process that does it, and one that dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from changelogs import NAMES
from grouped_tables import GroupWorld, specs
from rebuilt_tables import KilledError

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.rebuild.perform import Rebuild
from frazil.model.snapshot import REBUILD_PREFIX, TableView
from frazil.model.spec import TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together


def rebuilding(world: GroupWorld, *tables: TableSpec, **more: Any) -> Rebuild:
    """A new process, for these specs."""
    first, *others = tables or specs()
    run = world.driver(first, *others)
    world.lake.catalog  # noqa: B018 - the other lake shares it once it is open
    built = RebuildLake(world.lake, (first.dead_letters_identifier, *(each.identifier for each in (first, *others))))
    given = {"wait": lambda seconds: None, "clock": lambda: 0.0, "report": lambda progress: None, **more}
    return Rebuild(first, run.clients, built, f"r{next(NAMES)}", others=others, **given)


def generations(world: GroupWorld, *names: str) -> list[int]:
    return [world.stands(table).state.generation for table in names or ("orders", "refunds")]


def findings(world: GroupWorld, tables: Sequence[TableSpec] = ()) -> list[str]:
    """What the proof finds, against Kafka."""
    side = KafkaSide(world.topics, world, world.registry)  # type: ignore[arg-type]
    proofs = verify_together(world.lake, tables or specs(), kafka=side)
    return [str(finding) for proof in proofs for finding in proof.findings]


def check_rebuilt(world: GroupWorld, generation: int = 1) -> None:
    """Both tables are rebuilt, are proven, and have nothing left of the rebuild."""
    assert generations(world) == [generation] * 2
    world.assert_exactly_once()
    assert findings(world) == []
    check_nothing_left(world)


def check_nothing_left(world: GroupWorld, *names: str) -> None:
    for table in names or ("orders", "refunds"):
        view = world.stands(table).view
        assert not [name for name in (*view.branches, *view.tags) if name.startswith(REBUILD_PREFIX)]
        assert not [name for name in view.properties if name.startswith("frazil.rebuild")]


def rebuild_dies_before_refunds(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is replaced, and the process dies before the other table is."""

    def taking(lake: IcebergLake, view: TableView, **more: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(IcebergLake, "take_rebuilt", taking)
        rebuilding(world).perform()
    assert generations(world) == [1, 0]
