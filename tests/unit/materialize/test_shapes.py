"""Shapes: a log, the present state and the history from one read, held against a model of the topic."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shaped_tables import TABLES, Sent, Shapes
from test_groups import KilledError, kill

from frazil.maintain import rewriting
from frazil.materialize import epoch_tags
from frazil.materialize.branches import stage_branches
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.maintenance.perform import perform
from frazil.materialize.maintenance.request import new_request
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.rewrite_files import Rewriting
from frazil.model.errors import GroupApartError, MaintenanceError, PausedError, SourceChangedError, SpecChangeError
from frazil.model.plan import OffsetRange
from frazil.model.progress import Counts
from frazil.model.routes import Group, Route
from frazil.model.summary import BATCH_ID, EPOCH, state_in
from frazil.proof.verification import FindingKind
from frazil.records import Records
from tests.fakes.watched_lake import Commit, WatchedLake, at_commit
from tests.sampling import examples, sampled

SOME: tuple[Sent, ...] = (
    ("a", 1, 10, 0),
    ("b", 1, 11, 1),
    (None, 1, 12, 0),
    ("a", "no JSON", 13, 0),
    ("a", 2, 20, 1),
    ("b", None, 21, 1),
)
LATE: tuple[Sent, ...] = (("a", 3, 15, 0), ("b", 2, 18, 0), ("c", None, 9, 0), (None, None, 30, 1), ("c", 1, 8, 1))


@pytest.fixture
def shapes(tmp_path: Path) -> Shapes:
    return Shapes.at(tmp_path)


@pytest.fixture
def begun(shapes: Shapes) -> Shapes:
    """All was read, and a batch is there to be read."""
    shapes.send(*SOME)
    shapes.catch_up()
    shapes.send(*LATE[:4])
    return shapes


def killed_before(shapes: Shapes, table: str) -> None:
    """The ledger has the next batch, and the process dies before this table gets it."""

    def around(name: str, commit: Commit) -> object:
        publishes = lake.doing == "publish" and shapes.stands("log").state.epoch > epoch
        if publishes and shapes.stands(TABLES[TABLES.index(table) - 1]).state.epoch > epoch:
            raise KilledError
        return commit()

    epoch = shapes.stands("log").state.epoch
    lake = WatchedLake(shapes.world.lake._settings, around=around)
    with pytest.raises(KilledError):
        shapes.driver(lake=lake).batch()
    assert shapes.stands("log").state.epoch == epoch + 1
    assert shapes.stands(table).state.epoch == epoch


def test_each_shape_accounts_for_every_record(shapes: Shapes) -> None:
    shapes.send(*SOME)
    shapes.catch_up()
    shapes.send(*LATE)
    shapes.catch_up()

    shapes.check()
    total, taken = len(SOME) + len(LATE), len(SOME) + len(LATE) - len(shapes.refused)
    group = shapes.stands("log").state.group
    assert group is not None
    assert group.total() == Counts(total, taken, dead_letters=len(shapes.refused))
    counts = {table: shapes.stands(table).state.total() for table in TABLES}
    assert {table: each.read for table, each in counts.items()} == dict.fromkeys(TABLES, taken)
    assert counts["history"] == Counts(taken, taken - 2, deletes=2)
    assert shapes.verified()[-1].counts == group.total()


def test_the_topic_is_read_once_for_all_shapes(shapes: Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    chunks = shapes.world._chunks

    def counted(wanted: OffsetRange) -> Iterator[Records]:
        read.extend((wanted.partition, offset) for offset in range(wanted.start, wanted.end))
        return chunks(wanted)

    monkeypatch.setattr(shapes.world, "_chunks", counted)
    for records in (SOME, LATE):
        shapes.send(*records)
        shapes.catch_up()

    shapes.check()
    assert sorted(read) == [(number, n) for number, there in shapes.world.records.items() for n in range(len(there))]


def test_a_record_that_one_shape_refuses_is_in_none(shapes: Shapes) -> None:
    shapes.send((None, 1, 10, 0), ("a", 1, 11, 0))
    shapes.catch_up()

    assert [shapes.rows(table, "kafka_offset") for table in TABLES] == [[(1,)]] * 3
    shapes.check()


@settings(max_examples=examples(2, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from("abc") | st.none(),
                st.integers(0, 9) | st.none() | st.just("no JSON"),
                st.integers(1, 12),
                st.integers(0, 1),
            ),
            min_size=1,
            max_size=7,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_records_in_any_batches_are_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Sent]]
) -> None:
    shapes = Shapes.at(tmp_path_factory.mktemp("lake"))
    for batch in batches:
        shapes.send(*batch)
        shapes.catch_up()

    shapes.check()
    assert [str(finding) for each in shapes.against_kafka() for finding in each.findings] == []


@pytest.mark.parametrize("table", ["now", "history"])
def test_the_next_run_completes_a_batch_before_its_plan(begun: Shapes, table: str) -> None:
    killed_before(begun, table)
    assert [str(finding) for each in begun.verified() for finding in each.findings] == []
    begun.send(LATE[4])

    begun.catch_up()

    begun.check()


@pytest.mark.parametrize("before", [True, False])
def test_a_process_may_die_at_any_commit(begun: Shapes, *, before: bool) -> None:
    for number in sampled(range(1, 10), keep=[7].__contains__):
        begun.send(("a", number, 40 - number, 0), ("b", None, 20 + number, 1), ("c", number, 30 - number, number % 2))
        lake = WatchedLake(begun.world.lake._settings, around=at_commit(number, kill, before=before))

        with suppress(KilledError):
            begun.driver(lake=lake).batch()
        assert [str(finding) for each in begun.verified() for finding in each.findings] == []
        begun.catch_up()

        begun.check()


def test_remembered_deletes_are_completed_with_their_batch(begun: Shapes) -> None:
    killed_before(begun, "now")
    begun.catch_up()

    for table in ("now", "history"):
        remembered = begun.stands(table).state.remembered
        assert remembered is not None
        view = begun.stands(table).view
        paths = {each.snapshot_id: each.statistics_path for each in view.current.metadata.statistics}
        assert paths[view.head] == remembered.file.path


def test_remembered_deletes_of_a_batch_that_rests_are_files_of_its_snapshots(begun: Shapes) -> None:
    """Else `remove_orphan_files` of another engine takes them, days after a process died."""
    killed_before(begun, "now")

    for table in ("now", "history"):
        view = begun.stands(table).view
        (branch,) = stage_branches(view)
        remembered = state_in(view.snapshots[view.branches[branch]]).remembered
        assert remembered is not None
        paths = {each.snapshot_id: each.statistics_path for each in view.current.metadata.statistics}
        assert paths[view.branches[branch]] == remembered.file.path


def roll_back(shapes: Shapes, epoch: int) -> None:
    for table in TABLES:
        view = shapes.stands(table).view
        at = next(each.id for each in view.ancestry(view.head) if each.summary.get(EPOCH) == str(epoch))
        with shapes.world.lake.catalog.load_table(f"lake.{table}").manage_snapshots() as manage:
            manage.set_current_snapshot(at)


def rewrite_by_others(shapes: Shapes, table: str) -> None:
    loaded = shapes.world.lake.catalog.load_table(f"lake.{table}")
    loaded.overwrite(loaded.scan().to_arrow())


def test_a_table_that_follows_keys_and_was_changed_meanwhile_halts_the_group(begun: Shapes) -> None:
    killed_before(begun, "now")
    rewrite_by_others(begun, "now")

    with pytest.raises(GroupApartError, match=r"lake\.now was changed by another writer"):
        begun.driver().batch()
    assert any("cannot bring" in str(finding) for each in begun.verified() for finding in each.findings)

    roll_back(begun, 2)
    begun.catch_up()

    begun.check()


def test_files_are_not_rewritten_under_a_batch_that_another_driver_is_publishing(
    begun: Shapes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun.catch_up()
    begun.send(("d", 1, 50, 0))
    view, clients = begun.stands("now").view, begun.driver().clients
    killed_before(begun, "now")
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)

    with caplog.at_level(logging.INFO):
        Rewriting(begun.tables[1], "slow").between_batches(clients, view)

    assert "rewrite_overtaken" in caplog.messages
    begun.catch_up()
    begun.check()


def test_a_batch_is_staged_again_while_its_process_lives(begun: Shapes) -> None:
    done = False

    def around(name: str, commit: Commit) -> object:
        nonlocal done
        if lake.doing == "publish" and not done:
            done = True
            rewrite_by_others(begun, "now")
        return commit()

    lake = WatchedLake(begun.world.lake._settings, around=around)
    begun.catch_up(begun.driver(lake=lake))

    assert done
    assert begun.rows("now", "kafka_offset") == sorted(
        (max(each)[0][2],) for each in begun.by_key.values() if max(each)[1]
    )
    assert len({begun.stands(table).state.itself for table in TABLES}) == 1


def test_one_paused_shape_pauses_all(shapes: Shapes) -> None:
    by_offset = tuple(replace(each, order_by=None) for each in shapes.tables)
    shapes.send(("a", 1, 10, 0))
    shapes.catch_up(shapes.driver(tables=by_offset))
    shapes.send(("a", 2, 20, 1))

    with pytest.raises(SourceChangedError, match=r"lake\.now.*records in two partitions"):
        shapes.driver(tables=by_offset).batch()
    assert {shapes.stands(table).state.epoch for table in TABLES} == {1}


def test_the_pause_of_the_log_is_that_of_the_group(begun: Shapes) -> None:
    begun.world.lake.set_properties("lake.log", put={PAUSED_PROPERTY: "by hand"})
    before = {table: begun.stands(table).state.epoch for table in TABLES}

    with pytest.raises(PausedError):
        begun.driver().batch()
    assert {table: begun.stands(table).state.epoch for table in TABLES} == before


def batch_at(shapes: Shapes, table: str, epoch: int) -> str:
    view = shapes.stands(table).view
    return view.snapshots[view.tags[f"frazil_epoch_{epoch}"]].summary[BATCH_ID]


def test_the_last_epochs_have_a_tag_in_each_table(shapes: Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_tags, "KEPT", 3)
    for n in range(5):
        shapes.send(("a", n, n + 1, 0))
        shapes.catch_up()

    for table in TABLES:
        assert {each for each in shapes.stands(table).view.tags if "epoch" in each} == {
            "frazil_epoch_3",
            "frazil_epoch_4",
            "frazil_epoch_5",
        }
    loaded = shapes.world.lake.catalog.load_table("lake.log")
    for epoch in (3, 4, 5):
        assert len({batch_at(shapes, table, epoch) for table in TABLES}) == 1
        then = loaded.scan(snapshot_id=loaded.refs()[f"frazil_epoch_{epoch}"].snapshot_id)
        assert len(then.to_arrow()) == epoch


def test_a_completed_batch_has_its_tag(begun: Shapes) -> None:
    epoch = begun.stands("log").state.epoch + 1
    killed_before(begun, "history")
    begun.catch_up()

    assert len({batch_at(begun, table, epoch) for table in TABLES}) == 1


def test_tags_of_epochs_that_were_rolled_back_are_dropped(begun: Shapes) -> None:
    begun.catch_up()
    roll_back(begun, 1)
    begun.send(("z", 1, 50, 0))
    begun.driver().batch()

    for table in TABLES:
        assert "frazil_epoch_3" not in begun.stands(table).view.tags
        assert begun.stands(table).view.tags["frazil_epoch_2"] == begun.stands(table).carrier.id


def test_shapes_cannot_be_changed(begun: Shapes) -> None:
    group = Group("lake", "customers", (Route("log"), Route("now")))
    fewer = tuple(replace(each, group=group) for each in begun.tables[:2])

    with pytest.raises(SpecChangeError, match="shapes"):
        begun.driver(tables=fewer).batch()


@pytest.mark.parametrize("table", TABLES)
def test_verify_names_the_shape_that_lacks_a_row(begun: Shapes, table: str) -> None:
    begun.catch_up()
    begun.check()
    loaded = begun.world.lake.catalog.load_table(f"lake.{table}")
    file = next(task.file.file_path for task in loaded.scan().plan_files())
    Path(file.removeprefix("file://")).unlink()

    found = {each.table: {finding.kind for finding in each.findings} for each in begun.verified()}

    assert {name for name, kinds in found.items() if kinds} == {f"lake.{table}"}
    assert FindingKind.MISSING_FILE in found[f"lake.{table}"]


@pytest.mark.parametrize("table", TABLES)
def test_kafka_names_the_shape_whose_row_was_changed(begun: Shapes, table: str) -> None:
    begun.catch_up()
    loaded = begun.world.lake.catalog.load_table(f"lake.{table}")
    rows = loaded.scan().to_arrow()
    at, column = rows.schema.get_field_index("value"), rows.schema.field("value")
    changed = pa.array(["{}"] * len(rows), column.type)
    loaded.overwrite(rows.set_column(at, column, changed))

    kinds = {(finding.kind, table in finding.what) for finding in begun.against_kafka()[-1].findings}

    assert kinds == {(FindingKind.DIFFERENT_ROW, True)}


def test_a_command_rewrites_no_file_of_a_table_that_lacks_a_batch_of_its_group(begun: Shapes) -> None:
    killed_before(begun, "now")
    clients = begun.driver().clients
    request = new_request(id="r1", by="ada", at=clients.now(), compact=True, expire=False)
    _, now, _ = begun.tables

    with pytest.raises(MaintenanceError, match=r"lake.now lacks batch \w+, which lake.log has"):
        perform(Housekeeping(now, "maintenance"), clients, now.identifier, request, seconds=10)

    begun.catch_up()
    assert not perform(Housekeeping(now, "maintenance"), clients, now.identifier, request, seconds=10).more
    begun.check()
