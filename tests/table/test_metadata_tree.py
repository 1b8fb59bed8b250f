"""`frazil explain --metadata`: every file of a table is found where the table names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frazil.adapters.iceberg.metadata_tree import MetadataTree, metadata_tree
from frazil.cli.app import run
from frazil.cli.metadata_tree import lines
from frazil.model.ingested import DeletedRows
from frazil.model.snapshot import TableView
from tests.table.small_lake import Read, SmallLake, spec_of

Captured = pytest.CaptureFixture[str]


def test_the_tree_names_the_files_on_disk(lake: SmallLake) -> None:
    tree = read(lake)

    named = [file for manifest in tree.manifests for file in manifest.files]
    assert {Path(each.path.removeprefix("file://")).stat().st_size for each in named} == {each.size for each in named}
    assert sum(each.rows for each in named) == 147
    assert {each.bounds for each in named} == {(0, 59), (60, 99)}, "one file a batch"


def test_the_tree_is_drawn_from_the_catalog_to_the_rows(config: str, lake: SmallLake, capsys: Captured) -> None:
    assert run(["explain", "orders", "--metadata", "--config", config]) == 0

    out = capsys.readouterr().out.splitlines()
    head = lake.view.head_snapshot()
    assert head is not None
    assert out[0] == "lake.orders"
    assert out[1].startswith("└─ catalog (jdbc): names the newest metadata file")
    assert ".metadata.json, " in out[2]
    assert ", 3 snapshots, " in out[2]
    assert f"snapshot {head.id}, epoch 2, append of 40 rows: 147 rows then (main, " in out[3]
    assert sum("kafka_offset" in line for line in out) == 2
    assert sum("─ snapshot " in line for line in out) == 3


def test_what_is_not_drawn_is_counted(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders"))
    for batch in range(6):
        lake.batch(Read("orders", 0, 10 * batch, 10 * batch + 10))

    drawn = drawn_of(lake)

    assert sum(".parquet, " in line for line in drawn) == 3
    assert any(line.endswith("… and 3 more manifests, 3 files") for line in drawn)
    assert any("… and 3 more snapshots, " in line for line in drawn)


def test_files_of_deletes_and_partitions_are_told(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", replace(spec_of("orders"), partition_by=("day(kafka_timestamp)",)))
    lake.batch(Read("orders", 0, 0, 10))
    (file,) = lake.lake.stored_files(lake.view)
    assert lake.view.head is not None
    deletes = [DeletedRows(file.path, [7])]
    lake.lake.stage(lake.view, base=lake.view.head, branch="other", files=(), summary={}, deletes=deletes)
    lake.lake.publish(lake.view, branch="other", tag="other", drop=["other"])

    drawn = drawn_of(lake)

    assert any("1 file of deletes" in line for line in drawn)
    assert any("1 deleted row, kafka_timestamp_day=20" in line for line in drawn)


def test_a_table_without_a_batch_has_a_tree(empty_lake: SmallLake) -> None:
    drawn = drawn_of(empty_lake)

    assert any("append of 0 rows: 0 rows then" in line for line in drawn)


def test_a_missing_table_says_how_to_make_it(config: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "tables" / "absent.yaml").write_text("topic: absent\n")

    assert run(["explain", "absent", "--metadata", "--config", config]) != 0

    assert "frazil materialize absent --create-only" in capsys.readouterr().err


def read(lake: SmallLake) -> MetadataTree:
    return metadata_tree(lake.view, bounds_of="kafka_offset")


def drawn_of(lake: SmallLake) -> list[str]:
    view: TableView = lake.view
    return list(lines(view, read(lake), catalog="catalog (jdbc)", bounds_of="kafka_offset"))
