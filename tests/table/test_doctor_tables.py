"""What the doctor says of a table's state, each brought about in a real table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from frazil.cli import app
from frazil.doctor.finding import Finding
from frazil.doctor.tables import look_at_tables
from frazil.materialize.branches import STAGE_PREFIX
from frazil.materialize.dead_letters import PREPARED_PREFIX
from frazil.materialize.pause.by_operator import pause
from tests.table.small_lake import NOON, Read, SmallLake, spec_of

LATER = datetime.now(UTC) + timedelta(days=2)


def look(lake: SmallLake, *, now: datetime | None = None) -> list[Finding]:
    views = {view.identifier: view for view in (lake.view, lake.dead_view)}
    return list(look_at_tables([lake.spec], views, now=now or datetime.now(UTC)))


def failed(lake: SmallLake, *, now: datetime | None = None) -> dict[str, str]:
    return {each.what: each.found for each in look(lake, now=now) if each.verdict == "failed"}


def test_a_sound_table_stands_at_its_epoch(lake: SmallLake) -> None:
    assert look(lake) == [Finding("tables", "state of lake.orders", "ok", "epoch 2")]


def test_a_paused_table_says_by_whom_and_why(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="ada", why="a migration", at=NOON)

    assert failed(lake) == {"pause of lake.orders": "paused by ada at 2026-01-31T12:00:00Z: a migration"}


def test_a_table_of_another_pipeline_is_told(lake: SmallLake) -> None:
    lake.spec = spec_of("others")

    found = failed(lake)

    assert "is owned by the pipeline lake.orders<-orders" in found["state of lake.orders"]


def test_a_state_that_cannot_be_reached_is_told(lake: SmallLake) -> None:
    for _ in range(2):
        with lake.table.transaction() as transaction:
            transaction.update_snapshot().fast_append().commit()
    head = lake.view.head_snapshot()
    assert head is not None and head.parent_id is not None
    lake.table.maintenance.expire_snapshots().by_id(head.parent_id).commit()

    assert "its state is unreachable" in failed(lake)["state of lake.orders"]


def test_a_table_that_was_rolled_back_goes_on_and_is_told(lake: SmallLake) -> None:
    before = lake.view.head_snapshot()
    assert before is not None and before.parent_id is not None
    lake.table.manage_snapshots().rollback_to_snapshot(before.parent_id).commit()

    (finding,) = look(lake)

    assert (finding.verdict, finding.found) == ("ok", "epoch 1, rolled back: the next batch continues from there")


def test_branches_that_were_left_behind_are_named_once_they_are_old(lake: SmallLake) -> None:
    head, dead_head = lake.view.head, lake.dead_view.head
    assert head is not None and dead_head is not None
    lake.table.manage_snapshots().create_branch(head, f"{STAGE_PREFIX}w_1").commit()
    dead = lake.lake.catalog.load_table(lake.spec.dead_letters_identifier)
    dead.manage_snapshots().create_branch(dead_head, f"{PREPARED_PREFIX}w_1").commit()

    assert failed(lake) == {}
    assert failed(lake, now=LATER) == {
        "branches of lake.orders": "staged more than a day ago and never published: frazil_stage_w_1",
        "branches of lake.orders__dead_letters": "staged more than a day ago and never published: frazil_prepared_w_1",
    }


def test_tables_are_looked_at_when_neither_kafka_nor_registry_answer(lake: SmallLake, config: str, capsys) -> None:  # type: ignore[no-untyped-def]
    lake.batch(Read("orders", 0, 100, 110))

    status = app.run(["doctor", "--config", config])

    said = capsys.readouterr().out
    assert status == 1
    assert "failed     broker: way to 127.0.0.1:1: no TCP connection" in said
    assert "not asked  broker: topic orders: no broker can be reached" in said
    assert "not asked  registry: subject orders-value: it cannot be reached" in said
    assert "ok         tables: state of lake.orders: epoch 3" in said
