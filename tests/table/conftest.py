"""A small table and a project that describes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.table.small_lake import Read, SmallLake, spec_of


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    """Two partitions and two batches, with a gap and dead letters: rows 0..99 of partition 0 but 10, 21 and 50."""
    small = SmallLake(tmp_path / "warehouse", spec_of("orders"))
    small.batch(Read("orders", 0, 0, 60, dead=(10, 21), gaps=(50,)), Read("orders", 1, 0, 50))
    small.batch(Read("orders", 0, 60, 100))
    return small


@pytest.fixture
def empty_lake(tmp_path: Path) -> SmallLake:
    """A table without batches."""
    return SmallLake(tmp_path / "warehouse", spec_of("orders"))


@pytest.fixture
def config(tmp_path: Path, lake: SmallLake) -> str:
    """A `frazil.yaml` for the small table; the path as a command's argument."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "orders.yaml").write_text("topic: orders\nkey: string\n")
    path = tmp_path / "frazil.yaml"
    path.write_text(
        "kafka: {bootstrap.servers: 127.0.0.1:1}\n"
        "schema_registry: {url: http://127.0.0.1:1}\n"
        f"catalog: {{type: jdbc, warehouse: {lake.folder}}}\n"
    )
    return str(path)
