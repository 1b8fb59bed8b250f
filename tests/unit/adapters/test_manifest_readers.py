"""Manifests are read as PyIceberg reads them, and their reader is made once for each schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg import manifest as library
from pyiceberg.avro import file
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from frazil.adapters.iceberg import manifest_readers
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.recent import Recent
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings

ROWS = pa.table({"n": pa.array([1, 2], pa.int64()), "name": ["a", None]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits; the last one has another partition spec, and so another schema of its manifest."""
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    columns = (Column("n", Scalar("long")), Column("name", Scalar("string")))
    lake.create("lake.parts", columns, partition_by=(), properties={}, summary={})
    made = lake.catalog.load_table("lake.parts")
    made.append(ROWS)
    made.append(ROWS)
    with made.update_spec() as update:
        update.add_field("n", IdentityTransform())
    made.append(ROWS)
    return made


def manifests(table: Table) -> tuple[list[ManifestFile], list[ManifestEntry]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = list(library.read_manifest_list(table.io.new_input(snapshot.manifest_list)))
    return found, [entry for each in found for entry in each.fetch_manifest_entry(table.io)]


def values(read: tuple[list[ManifestFile], list[ManifestEntry]]) -> list[list[object]]:
    entries = [[*entry._data[:-1], *entry.data_file._data] for entry in read[1]]
    return [each._data for each in read[0]] + entries


def test_manifests_are_read_as_by_the_library(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = manifests(table), manifests(table)
    monkeypatch.setattr(library, "AvroFile", AvroFile)

    expected = manifests(table)

    assert len(expected[1]) == 4
    assert values(first) == values(again) == values(expected)


def test_a_reader_is_made_once_for_each_schema(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = manifest_readers.resolve_reader
    monkeypatch.setattr(manifest_readers, "_known", Recent(1 << 20))
    monkeypatch.setattr(manifest_readers, "resolve_reader", lambda *given: made.append(given) or plain(*given))

    for _ in range(3):
        manifests(table)

    assert len(made) == 3, "one for lists, and one for the manifests of each partition spec"


def test_no_reader_of_headers_is_made_for_a_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = file.construct_reader
    monkeypatch.setattr(file, "construct_reader", lambda *given: made.append(given) or plain(*given))

    manifests(table)

    assert made == []


def test_a_file_without_a_schema_is_refused(table: Table, tmp_path: Path) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    spoiled = tmp_path / "spoiled.avro"
    spoiled.write_bytes(
        Path(snapshot.manifest_list.removeprefix("file://")).read_bytes().replace(b"avro.schema", b"avro.absent")
    )

    with pytest.raises(ValueError, match="No schema found"):
        list(library.read_manifest_list(table.io.new_input(str(spoiled))))
