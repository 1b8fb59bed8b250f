"""Tables that Frazil does not fill, or cannot write, are not maintained."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from test_maintenance import Orders, asked

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.maintenance.preview import preview
from frazil.model.errors import ForeignTableError, FormatVersionError


def test_a_table_of_others_keeps_its_files_and_snapshots(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    catalog, identifier = orders.world.lake.catalog, orders.spec.identifier
    catalog.create_namespace("lake")
    theirs = catalog.create_table(identifier, pa.schema([("n", pa.int64())]))
    for number in range(4):
        theirs.append(pa.table({"n": [number]}))
    head = orders.view.head

    for compact, expire in ((True, False), (False, True)):
        with pytest.raises(ForeignTableError, match="Frazil did not create it"):
            orders.perform(asked(compact=compact, expire=expire))
        with pytest.raises(ForeignTableError, match="Frazil did not create it"):
            preview(orders.run.clients, orders.spec, compact=compact, expire=expire)

    assert orders.view.head == head
    assert len(orders.view.snapshots) == 4


def test_a_table_that_was_upgraded_to_iceberg_v3_keeps_its_files(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.batches(4)
    lake = orders.world.lake
    metadata = Path(lake.catalog.load_table(orders.spec.identifier).metadata_location.removeprefix("file://"))
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "format-version": 3, "next-row-id": 0}))
    orders.world.lake = IcebergLake(lake._settings)  # the first one caches metadata

    with pytest.raises(FormatVersionError, match="has Iceberg format version 3, expected 2"):
        orders.perform(asked())

    assert orders.rows_of_files() == [2, 2, 2, 2]
