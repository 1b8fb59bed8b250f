"""Tables that follow keys: whole batches, held against a model of the topic in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changelogs import SENT, Changelog, Sent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain.rewriting import NEVER
from frazil.materialize.pause.by_operator import resume
from frazil.model import probe
from frazil.model.dead_letter import Reason
from frazil.model.errors import CountMismatchError, IncompatibleSchemaError, SpecChangeError, SpecError
from frazil.model.ingested import DeletedRows, Deletion
from frazil.model.probe import MERGED_FROM
from frazil.model.snapshot import TableView
from frazil.modes.identity import FIRST
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import combined, examples


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return Changelog.at(tmp_path)


def test_the_newest_record_of_a_key_is_its_row_and_a_tombstone_deletes_it(changelog: Changelog) -> None:
    changelog.send(("a", 1), ("b", 2), ("a", 3), ("c", 4))
    changelog.catch_up()
    changelog.send(("b", None), ("c", 5), ("d", None))
    changelog.catch_up()

    changelog.check()
    assert changelog.rows() == {"a": 2, "c": 5}


def test_a_key_that_was_deleted_can_come_back(changelog: Changelog) -> None:
    for value in (1, None, 2):
        changelog.send(("a", value))
        changelog.catch_up()
        changelog.check()


def test_a_record_without_a_key_is_a_dead_letter(changelog: Changelog) -> None:
    changelog.send((None, 1), ("a", 1), (None, None))
    changelog.catch_up()

    changelog.check()
    view = changelog.world.lake.load(changelog.spec.dead_letters_identifier)
    assert view is not None
    letters = [
        row
        for part in changelog.world.lake.read(view, columns=["offset", "reason"], equal={})
        for row in part.to_pylist()
    ]
    assert letters == [{"offset": n, "reason": Reason.NULL_IDENTITY.value} for n in (0, 2)]


def test_a_batch_is_one_snapshot_and_readers_see_no_state_in_between(changelog: Changelog) -> None:
    changelog.send(("a", 1), ("b", 1), ("c", 1))
    changelog.catch_up()
    before = changelog.world.lake.load(changelog.spec.identifier)
    changelog.send(("a", 2), ("b", None))
    changelog.catch_up()

    after = changelog.world.lake.load(changelog.spec.identifier)
    assert before is not None and after is not None
    head = after.head_snapshot()
    assert head is not None and head.parent_id == before.head
    assert head.operation == "overwrite"
    assert (head.figure("added-records"), head.figure("added-position-deletes")) == (1, 2)


def test_a_file_without_a_row_is_dropped(changelog: Changelog) -> None:
    changelog.send(("a", 1), ("b", 1))
    changelog.catch_up()
    for key in "ab":
        changelog.send((key, 2))
        changelog.catch_up()
        changelog.check()

    assert [file.deletes for file in changelog.files()] == [(), ()]


def test_a_data_file_with_few_deleted_rows_has_one_file_of_deletes(changelog: Changelog) -> None:
    changelog.send(*((key, 1) for key in "abcdefgh"))
    changelog.catch_up()
    for key in "abc":
        changelog.send((key, 2))
        changelog.catch_up()
        changelog.check()

    assert sorted(len(file.deletes) for file in changelog.files()) == [0, 0, 0, 1]
    head = changelog.view.head_snapshot()
    assert head is not None and head.figure("total-position-deletes") == 3


def test_files_of_deletes_become_one_before_a_data_file_has_many(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "FEW_DELETED", 0)
    maintain = replace(changelog.spec.maintain, rewrite_deleted=NEVER)
    changelog.spec = replace(changelog.spec, maintain=maintain)
    keys = "abcdefghijklmn"
    changelog.send(*((key, 1) for key in keys))
    changelog.catch_up()
    most = 0
    for key in keys[1:]:
        changelog.send((key, 2))
        changelog.catch_up()
        changelog.check()
        most = max(most, *(len(file.deletes) for file in changelog.files()))

    assert most == MERGED_FROM
    head = changelog.view.head_snapshot()
    assert head is not None
    assert head.figure("total-position-deletes") == len(keys) - 1


def test_a_row_that_another_engine_has_deleted_is_not_looked_for(changelog: Changelog) -> None:
    changelog.send(("a", 1), ("b", 1))
    changelog.catch_up()
    view = changelog.world.lake.load(changelog.spec.identifier)
    assert view is not None
    (file,) = changelog.world.lake.stored_files(view)
    changelog.others(deletes=[DeletedRows(file.path, [0])])
    changelog.send(("a", 2))
    changelog.catch_up()

    changelog.check()


@pytest.mark.parametrize(
    ("sort_by", "partition_by"),
    combined([("kafka_offset desc nulls last",), ()], [(), ("bucket(3, kafka_key)",), ("truncate(4, kafka_offset)",)]),
)
def test_rows_are_found_however_they_are_laid_out(
    tmp_path: Path, partition_by: tuple[str, ...], sort_by: tuple[str, ...]
) -> None:
    changelog = Changelog.at(tmp_path, partition_by=partition_by, sort_by=sort_by)
    for value in range(3):
        changelog.send(*((key, value) for key in "abcdcba"), ("b", None))
        changelog.catch_up()

        changelog.check()


@settings(max_examples=examples(6, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(SENT, min_size=1, max_size=8), max_size=5))
def test_any_changelog_in_any_batches_is_the_model(tmp_path: Path, batches: list[list[Sent]]) -> None:
    changelog = Changelog.at(tmp_path)
    for batch in batches:
        changelog.send(*batch)
        changelog.catch_up()

        changelog.check()


@pytest.mark.parametrize(("changes", "key"), [({"key": "bytes"}, "key"), ({"topics": ("orders", "more")}, "topics")])
def test_the_identity_and_the_order_stay(changelog: Changelog, changes: dict[str, object], key: str) -> None:
    changelog.send(("a", 1))
    changelog.catch_up()
    changelog.spec = replace(changelog.spec, **changes)  # type: ignore[arg-type]
    changelog.world.names = changelog.spec.topics

    with pytest.raises(SpecChangeError, match=f"{key}:"):
        changelog.catch_up()


def in_keys(*fields: dict[str, object]) -> str:
    return record(*fields, name="Key")


def test_a_key_with_another_part_pauses_the_table(changelog: Changelog) -> None:
    changelog.spec = replace(changelog.spec, key="avro")
    changelog.world.registry.register("orders-key", in_keys(a_field("id")))
    changelog.catch_up()
    changelog.world.registry.register("orders-key", in_keys(a_field("id"), a_field("region", ["null", "string"])))

    with pytest.raises(IncompatibleSchemaError, match=r"region.*would change the identity of every row"):
        changelog.catch_up()


def test_a_key_with_a_float_is_refused(changelog: Changelog) -> None:
    changelog.spec = replace(changelog.spec, key="avro")
    changelog.world.registry.register("orders-key", in_keys(a_field("id", "double")))

    with pytest.raises(SpecError, match=r"kafka_key\.id: is double, and cannot be a part of the identity"):
        changelog.catch_up()


def test_a_dropped_identity_pauses_the_table(changelog: Changelog) -> None:
    changelog.send(("a", 1))
    changelog.catch_up()
    view = changelog.world.lake.load(changelog.spec.identifier)
    assert view is not None
    with view.current.update_schema() as update:
        update.delete_column(FIRST)
    changelog.send(("a", 2))

    with pytest.raises(IncompatibleSchemaError, match=f"{FIRST}.*was dropped by another tool"):
        changelog.catch_up()


class DeletesOtherRows(IcebergLake):
    """Stages a batch without its last deletes, and says nothing."""

    def stage(self, view: TableView, *, deletes: Sequence[Deletion] = (), **more: Any) -> int:
        return super().stage(view, deletes=deletes[:-1], **more)


def test_a_delete_that_is_lost_between_the_tasks_and_the_snapshot_is_never_visible(changelog: Changelog) -> None:
    """Otherwise the key would have two rows."""
    changelog.send(("a", 1), ("b", 1))
    changelog.catch_up()
    before = changelog.rows()
    changelog.send(("a", 2))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changelog.world.lake, "__class__", DeletesOtherRows)
        with pytest.raises(CountMismatchError, match=r"0 added-position-deletes.*expected .*1 added-position-deletes"):
            changelog.catch_up()

    assert changelog.rows() == before
    resume(changelog.world.lake, changelog.spec)
    changelog.catch_up()
    changelog.check()
