"""Dead letters belong to one table of rows: a table that is made again neither retracts nor counts the old ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.types import BooleanType

from frazil.adapters.iceberg.scan import TableScan
from frazil.dead_letters import Chosen, list_dead_letters
from frazil.materialize.dead_letter_checks import ACCEPT_LOST_PROPERTY
from frazil.materialize.dead_letters import PREPARED_PREFIX, drop_others, ensure_dead_letters
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.errors import ForeignTableError, StateLostError
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake


@pytest.fixture
def dropped(lake: SmallLake) -> SmallLake:
    """The small lake after its table of rows was dropped and made again: dead letters 10 and 21 are the old one's."""
    return lake.make_rows_again()


def dead(lake: SmallLake) -> list[tuple[str, int]]:
    """The batch and offset of each visible dead letter."""
    found = [row for batch in TableScan(lake.dead_view, columns=("batch_id", "offset")).batches()
             for row in batch.to_pylist()]  # fmt: skip
    return sorted((row["batch_id"], row["offset"]) for row in found)


def expire_all(lake: SmallLake, identifier: str) -> None:
    """Every snapshot that no branch or tag points to."""
    view = lake.load(identifier)
    kept = {*view.branches.values(), *view.tags.values()}
    expiring = lake.lake.catalog.load_table(identifier).maintenance.expire_snapshots()
    for snapshot_id in view.snapshots.keys() - kept:
        expiring = expiring.by_id(snapshot_id)
    expiring.commit()


OLD = [("batch1", 10), ("batch1", 21)]


@pytest.mark.parametrize("expired", [False, True])
def test_dead_letters_of_a_dropped_table_stay_when_it_is_made_again(lake: SmallLake, *, expired: bool) -> None:
    if expired:
        expire_all(lake, lake.spec.dead_letters_identifier)
    again = lake.make_rows_again()

    again.batch(Read("orders", 0, 0, 60, dead=(10, 21, 30)))

    assert dead(again) == [("again1", 10), ("again1", 21), ("again1", 30), *OLD]
    proof = verify_table(again.lake, again.spec)
    assert proof.clean, [str(each) for each in proof.findings]
    assert "not counted: 2 dead letters of a replaced table or topic" in proof.notes


def test_a_list_counts_the_letters_of_the_table_that_has_the_name_now(dropped: SmallLake) -> None:
    dropped.batch(Read("orders", 0, 0, 60, dead=(10, 30)))

    listed = list_dead_letters(dropped.lake, dropped.spec, limit=9)
    shown = list_dead_letters(
        dropped.lake, dropped.spec, limit=9, chosen=Chosen(record=("orders", 0, 10)), replayed=True
    )

    assert ([each.offset for each in listed.newest], listed.total, listed.former) == ([30, 10], 2, 2)
    assert sorted(each.of_former_table for each in shown.newest) == [False, True]


def test_a_batch_without_dead_letters_leaves_those_of_the_dropped_table(dropped: SmallLake) -> None:
    before = dropped.dead_view.head

    dropped.batch(Read("orders", 0, 0, 60))

    assert dropped.dead_view.head == before
    assert dead(dropped) == OLD
    assert verify_table(dropped.lake, dropped.spec).clean


def test_a_rolled_back_table_that_was_made_again_retracts_its_own_dead_letters_only(dropped: SmallLake) -> None:
    dropped.batch(Read("orders", 0, 0, 60, dead=(10, 30)))
    first = dropped.state
    dropped.batch(Read("orders", 0, 60, 90, dead=(70,)))
    expire_all(dropped, dropped.spec.dead_letters_identifier)
    dropped.table.manage_snapshots().rollback_to_snapshot(dropped.view.head_snapshot().parent_id).commit()
    dropped.state = first
    dropped.batch_name = "anew"

    dropped.batch(Read("orders", 0, 60, 100, dead=(71,)))

    assert dead(dropped) == [("again1", 10), ("again1", 30), ("anew2", 71), *OLD]
    assert verify_table(dropped.lake, dropped.spec).clean


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_restored_table_that_is_rolled_back_retracts_from_under_the_other_tables(
    lake: SmallLake, *, rewritten: bool
) -> None:
    lake.batch(Read("orders", 0, 100, 120, dead=(110,)))
    metadata = lake.table.metadata_location
    again = lake.make_rows_again()
    again.batch(Read("orders", 0, 0, 60, dead=(10,)))
    again.lake.catalog.drop_table(again.spec.identifier)
    lake.lake.catalog.register_table(lake.spec.identifier, metadata)
    lake.table.manage_snapshots().rollback_to_snapshot(lake.view.head_snapshot().parent_id).commit()
    lake.state = lake.state_before
    lake.batch_name = "anew"
    if rewritten:
        letters = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
        letters.overwrite(letters.scan().to_arrow())
        expire_all(lake, lake.spec.dead_letters_identifier)

    lake.batch(Read("orders", 0, 100, 130, dead=(111,)))

    assert dead(lake) == [("again1", 10), ("anew3", 111), *OLD]
    assert verify_table(lake.lake, lake.spec).clean


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_driver_that_wakes_late_takes_no_dead_letters_of_its_successor_out(
    lake: SmallLake, *, rolled_back: bool
) -> None:
    lake.batch(Read("orders", 0, 100, 120, dead=(110,)), show=False)
    late = lake.state
    if rolled_back:
        lake.table.manage_snapshots().rollback_to_snapshot(lake.view.head_snapshot().parent_id).commit()
        lake.state = lake.state_before
        lake.batch_name = "anew"
        lake.batch(Read("orders", 0, 100, 130, dead=(111,)))
    else:
        lake.batch(Read("orders", 0, 120, 130, dead=(121,)))
    before = dead(lake)

    lake.reveal(late)

    assert dead(lake) == before
    assert verify_table(lake.lake, lake.spec).clean is rolled_back, "nobody has revealed those of the late driver"


def test_a_writer_of_the_dropped_table_leaves_what_the_new_one_has_prepared(dropped: SmallLake) -> None:
    old_uuid = "00000000-0000-0000-0000-000000000000"
    state = replace(dropped.state, epoch=8)
    plan = BatchPlan(dropped.spec.identifier, "batch9", 1, state, (), WriterSchemas({}, {}), (), table_uuid=old_uuid)
    dropped.batch(Read("orders", 0, 0, 60, dead=(30,)), show=False)

    drop_others(dropped.lake, dropped.spec.dead_letters_identifier, plan=plan)
    dropped.reveal()

    assert dead(dropped) == [("again1", 30), *OLD]
    assert not [name for name in dropped.dead_view.branches if name.startswith(PREPARED_PREFIX)]
    assert dropped.dead_view.tags[CHECKPOINT_TAG] == dropped.dead_view.head


def test_a_dropped_table_of_dead_letters_is_not_made_again(lake: SmallLake) -> None:
    metadata = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier).metadata_location
    lake.lake.catalog.drop_table(lake.spec.dead_letters_identifier)

    for accepted in ("", "1"):
        lake.lake.set_properties(lake.spec.identifier, put={ACCEPT_LOST_PROPERTY: accepted})
        with pytest.raises(StateLostError, match="was dropped, with the 2 dead letters that the state of"):
            ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))

    assert lake.lake.load(lake.spec.dead_letters_identifier) is None
    lake.lake.catalog.register_table(lake.spec.dead_letters_identifier, metadata)
    ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))
    assert dead(lake) == OLD


def test_a_renamed_column_of_dead_letters_is_named_before_a_batch_is_read(lake: SmallLake) -> None:
    table = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    with table.update_schema() as update:
        update.rename_column("offset", "position")
        update.add_column("triaged", BooleanType())

    with pytest.raises(ForeignTableError, match=r"which holds the dead letters, lacks the column offset, which"):
        ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))

    with table.refresh().update_schema() as update:
        update.rename_column("position", "offset")
    ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))


def test_an_operator_accepts_the_loss_of_dead_letters_and_verify_goes_on_naming_it(lake: SmallLake) -> None:
    lake.lake.catalog.drop_table(lake.spec.dead_letters_identifier)
    lake.lake.set_properties(lake.spec.identifier, put={ACCEPT_LOST_PROPERTY: "2"})

    ensure_dead_letters(lake.lake, lake.spec, standing(lake.view, pipeline=lake.spec.pipeline))

    assert dead(lake) == []
    assert not verify_table(lake.lake, lake.spec).clean
