"""A table that was dropped from its catalog is listed again and continues from its state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from changelogs import Changelog

from frazil import recover as recovery
from frazil.adapters.iceberg.scan import metadata_location
from frazil.model.errors import CatalogError, Misuse
from frazil.model.settings import CatalogSettings
from frazil.recover import Recovered, recover


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    log = Changelog.at(tmp_path)
    log.send(("a", 1), ("b", 2), (None, 3))
    log.catch_up()
    log.send(("a", 4), ("c", 5))
    log.catch_up()
    return log


def dropped(log: Changelog) -> Path:
    """Drop the table and its dead letters from the catalog; the newest metadata file of the table."""
    newest = Path(metadata_location(log.view).removeprefix("file://"))
    for identifier in (log.spec.identifier, log.spec.dead_letters_identifier):
        log.world.lake.catalog.drop_table(identifier)
    assert log.world.lake.load(log.spec.identifier) is None
    return newest


def recovered(log: Changelog, metadata: str | None = None) -> list[Recovered]:
    return recover(CatalogSettings("jdbc", log.world.lake._settings.warehouse), log.spec, metadata=metadata)


def test_the_table_and_its_dead_letters_are_listed_again(log: Changelog) -> None:
    newest = dropped(log)

    done = recovered(log)

    assert [each.view.identifier for each in done] == [log.spec.identifier, log.spec.dead_letters_identifier]
    assert done[0].address.endswith(newest.name)
    log.check()
    log.send(("b", None))
    log.catch_up()
    log.check()
    assert recovered(log) == []


def test_a_damaged_file_is_passed_over_and_its_batch_is_read_again(log: Changelog) -> None:
    newest = dropped(log)
    newest.write_text(newest.read_text()[:1_000])

    done = recovered(log)

    assert [Path(each.address).name for each in done[0].passed_over] == [newest.name]
    log.catch_up()
    log.check()


def test_a_file_whose_list_of_manifests_is_gone_is_passed_over(log: Changelog) -> None:
    head = log.view.head_snapshot()
    assert head is not None
    newest = dropped(log)
    Path(head.manifest_list.removeprefix("file://")).unlink()

    done = recovered(log)

    assert newest.name in [Path(each.address).name for each in done[0].passed_over]
    log.catch_up()
    log.check()


def test_two_files_of_one_commit_are_a_choice_for_people(log: Changelog) -> None:
    newest = dropped(log)
    number, _, _ = newest.name.partition("-")
    lost = newest.with_name(f"{number}-00000000-0000-4000-8000-000000000000.metadata.json")
    shutil.copy(newest, lost)

    with pytest.raises(CatalogError, match="the others lost the race") as several:
        recovered(log)
    assert all(str(each) in str(several.value) for each in (newest, lost))

    assert recovered(log, str(newest))[0].address == str(newest)
    log.check()


def test_a_table_that_was_made_again_is_not_confused_with_the_one_before(log: Changelog) -> None:
    earlier = dropped(log)
    log.catch_up()
    newest = dropped(log)
    assert earlier.name > newest.name, "the earlier table has more commits"

    done = recovered(log)

    assert Path(done[0].address).name == newest.name
    assert earlier.name in [Path(each.address).name for each in done[0].passed_over]
    log.check()
    dropped(log)
    assert Path(recovered(log, str(earlier))[0].address) == earlier
    log.check()


def test_a_folder_without_metadata_says_what_is_left_to_do(log: Changelog) -> None:
    shutil.rmtree(dropped(log).parent)

    with pytest.raises(CatalogError, match="no metadata file of"):
        recovered(log)


def test_a_table_that_is_there_is_not_replaced(log: Changelog) -> None:
    with pytest.raises(Misuse, match="the catalog has the table"):
        recovered(log, metadata_location(log.view))


def test_each_folder_is_listed_once_and_each_file_read_once(log: Changelog, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped(log)
    listed: list[str] = []
    read: list[str] = []
    list_folder, read_file = recovery.metadata_files, recovery.described_by
    monkeypatch.setattr(recovery, "metadata_files", lambda *given: listed.append(given[1]) or list_folder(*given))
    monkeypatch.setattr(recovery, "described_by", lambda *given: read.append(given[2]) or read_file(*given))

    done = recovered(log)

    assert len(done) == 2
    assert len(listed) == len(set(listed)) == 2
    assert len(read) == len(set(read))
