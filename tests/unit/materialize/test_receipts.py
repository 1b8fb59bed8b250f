"""The receipt of a batch names what changed in the table's schema."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.receipt_lines import lines
from frazil.materialize.outcome import Published
from frazil.model.settings import CatalogSettings
from frazil.model.spec import MetadataColumns


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values.append(framed(1, LONG, {"n": 1}))
    return made


def test_a_receipt_lists_the_metadata_columns_that_the_spec_renamed(world: World) -> None:
    keep = ("partition", "offset")
    world.table(spec(metadata=MetadataColumns("kafka_", keep))).batch()
    world.values.append(framed(1, LONG, {"n": 2}))
    table = world.table(spec(metadata=MetadataColumns("meta_", keep)))

    outcome = table.batch()

    assert isinstance(outcome, Published)
    assert outcome.receipt.schema_changes == (
        "rename kafka_partition to meta_partition",
        "rename kafka_offset to meta_offset",
    )
    world.values.append(framed(1, LONG, {"n": 3}))
    table.clients = replace(table.clients, topics=world.topics)
    again = table.batch()
    assert isinstance(again, Published)
    assert again.receipt.schema_changes == ()


def test_a_receipt_counts_undeclared_fields(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    registered = world.registry.register("orders-value", schema, schema_format="JSON")
    world.values.append(registered.id.to_bytes(5, "big") + b'{"n": 1, "x": 2, "y": null}')

    outcome = world.table(spec(value="json_schema")).batch()

    assert isinstance(outcome, Published)
    assert outcome.receipt.undeclared_fields == 2
    assert "  2 undeclared fields kept in _extra" in list(lines(outcome.receipt))
