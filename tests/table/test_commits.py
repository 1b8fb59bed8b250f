"""Commits to a catalog without a server: what they copy, read, write and leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from frazil.adapters.iceberg import commits
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.model.columns import Column, Scalar
from frazil.model.errors import CommitError, CommitRejectedError
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.table.small_lake import SmallLake, spec_of


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    made = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    made.create("lake.t", [Column("n", Scalar("long"))], partition_by=(), properties=TABLE_PROPERTIES, summary={})
    return made


def view_of(lake: IcebergLake) -> TableView:
    view = lake.load("lake.t")
    assert view is not None
    return view


def publish(lake: IcebergLake) -> None:
    head = view_of(lake).head or 0
    lake.stage(view_of(lake), base=head, branch="b", files=(), summary={"frazil.epoch": "1"})
    lake.publish(view_of(lake), branch="b", tag="t", drop=["b"])


def test_a_commit_shares_what_it_leaves_alone(lake: IcebergLake) -> None:
    before: TableMetadata = view_of(lake).current.metadata

    publish(lake)

    after: TableMetadata = view_of(lake).current.metadata
    assert len(after.snapshots) == 2
    assert after.snapshots[0] is before.snapshots[0]
    assert after.schemas[0] is before.schemas[0]


def test_metadata_that_this_process_wrote_is_not_read_again(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    unread = commits.Recent.put

    def put(self: object, key: str, value: object, *, weight: int) -> None:
        read.append(key)
        unread(self, key, value, weight=weight)  # type: ignore[arg-type]

    view_of(lake)
    monkeypatch.setattr(commits.Recent, "put", put)
    publish(lake)
    publish(lake)
    view_of(lake)

    assert len(read) == 4, "one for each commit: two that stage, two that publish"


def test_a_commit_by_others_is_seen(lake: IcebergLake, tmp_path: Path) -> None:
    view_of(lake)
    publish(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))

    assert len(view_of(lake).snapshots) == 2


def test_a_commit_on_what_others_have_changed_is_refused_and_nothing_is_written_over(
    lake: IcebergLake, tmp_path: Path
) -> None:
    stale = view_of(lake)
    publish(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    there = view_of(lake).head

    with pytest.raises(CommitRejectedError):
        lake.begin(stale, {}, document=b"", tag="t")
    with pytest.raises(CommitError):
        lake.stage(stale, base=stale.head or 0, branch="late", files=(), summary={})

    assert (view_of(lake).head, set(view_of(lake).branches)) == (there, {"main"})


def test_properties_are_set_although_another_commit_comes_first(
    lake: IcebergLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, load, loads = IcebergLake(CatalogSettings("jdbc", str(tmp_path))), lake.catalog.load_table, iter(range(9))

    def overtaken_at_the_second(identifier: str | tuple[str, ...]) -> Table:
        found = load(identifier)
        if next(loads) == 1:
            other.set_properties("lake.t", put={"theirs": "1"})
        return found

    monkeypatch.setattr(lake.catalog, "load_table", overtaken_at_the_second)

    lake.set_properties("lake.t", put={"ours": "1"})

    properties = view_of(other).properties
    assert (properties["ours"], properties["theirs"]) == ("1", "1")


def test_old_metadata_files_are_removed_and_the_log_is_bounded(lake: IcebergLake) -> None:
    lake.set_properties("lake.t", put={"write.metadata.previous-versions-max": "3"})
    for _ in range(5):
        publish(lake)

    metadata: TableMetadata = view_of(lake).current.metadata
    folder = Path(metadata.location.removeprefix("file://")) / "metadata"
    named = {Path(entry.metadata_file).name for entry in metadata.metadata_log}
    current = Path(view_of(lake).current.metadata_location).name
    assert len(named) == 3
    assert {path.name for path in folder.glob("*.metadata.json")} == {*named, current}


def test_the_table_of_dead_letters_removes_old_metadata_files_as_well(tmp_path: Path) -> None:
    assert TABLE_PROPERTIES.items() <= SmallLake(tmp_path, spec_of()).dead_view.properties.items()


def test_a_namespace_that_another_table_creates_meanwhile_is_used(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([False])
    there = lake.catalog.namespace_exists
    monkeypatch.setattr(lake.catalog, "namespace_exists", lambda namespace: next(looks, True) and there(namespace))

    made = lake.create(
        "lake.u", [Column("n", Scalar("long"))], partition_by=(), properties=TABLE_PROPERTIES, summary={}
    )

    assert made.head is not None
    assert next(looks, None) is None, "the look before the creation was not the one that was wrong"
