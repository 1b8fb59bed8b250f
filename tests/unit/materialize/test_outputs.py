"""An output topic has each row of its table once, whatever breaks between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from output_worlds import TOPIC, OutputWorld

from frazil.materialize.clients import STEPS, Step
from frazil.materialize.outcome import Published
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import (
    FencedError,
    OutputHaltedError,
    OutputSchemaError,
    TopicMissingError,
    TransactionTimedOutError,
)
from frazil.model.outputs import Marker, OutputSpec, Part, record_in
from frazil.outputs.follow import RENEW_EVERY
from tests.fakes.output_topics_in_memory import MOMENTS
from tests.sampling import combined


@pytest.fixture
def world(tmp_path: Path) -> OutputWorld:
    return OutputWorld.at(tmp_path)


class Broken(Exception):  # noqa: N818 - what a test breaks with
    """The process ends here."""


def break_once(at: str) -> Callable[[str], None]:
    wanted = at

    def reach(moment: str) -> None:
        nonlocal wanted
        if moment == wanted:
            wanted = ""
            raise Broken(moment)

    return reach


def test_each_row_is_a_record_with_the_key_of_its_record(world: OutputWorld) -> None:
    world.produce(5)

    world.drain()

    assert world.sent()[0] == (b"key-0", {"n": 0, "symbol": "S0"})
    assert world.numbers() == [0, 1, 2, 3, 4]


def test_each_epoch_is_one_transaction(world: OutputWorld) -> None:
    world.produce(7)

    world.drain()

    assert world.cluster.transactions == [0, 3, 3, 1], "the first one has the marker alone"


def test_a_process_without_news_takes_nothing_over(world: OutputWorld) -> None:
    world.produce(2)
    running = world.drain()
    owner = dict(world.cluster.owners)
    idle = world.run()

    idle.batch()
    world.produce(1)
    world.drain(running)

    assert world.cluster.owners == owner
    assert world.numbers() == [0, 1, 2]


@pytest.mark.parametrize("moment", MOMENTS)
def test_broken_at_each_moment_of_a_send_each_row_is_sent_once(world: OutputWorld, moment: str) -> None:
    world.produce(4)
    world.drain()
    world.produce(4)
    world.cluster.reach = break_once(moment)
    run = world.run()

    with pytest.raises(Broken):
        world.drain(run)
    world.drain()

    assert world.numbers() == list(range(8))


def test_a_transaction_that_a_process_left_open_is_ended_at_once(world: OutputWorld) -> None:
    world.produce(2)
    world.drain()
    world.produce(2)
    world.cluster.left_open = True

    world.drain()

    assert not world.cluster.left_open
    assert world.numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize("moment", MOMENTS)
def test_broken_at_each_moment_of_its_beginning_each_row_is_sent_once(world: OutputWorld, moment: str) -> None:
    world.produce(4)
    world.cluster.reach = break_once(moment)

    with pytest.raises(Broken):
        world.drain()
    world.drain()

    assert world.numbers() == list(range(4))


@pytest.mark.parametrize(("when", "step"), combined(["before", "after"], STEPS))
def test_broken_at_each_step_of_a_batch_each_row_is_sent_once(world: OutputWorld, when: str, step: Step) -> None:
    world.produce(4)
    reach = break_once(f"{when} {step}")
    run = world.run()
    run.clients = replace(run.clients, observe=lambda now, here: reach(f"{now} {here}"))

    with pytest.raises(Broken):
        world.drain(run)
    world.produce(1)
    world.drain()

    assert world.numbers() == list(range(5))


def test_a_second_driver_fences_the_first_one(world: OutputWorld) -> None:
    world.produce(3)
    first = world.drain()
    world.produce(3)

    def second() -> None:
        world.cluster.reach = lambda moment: None
        world.drain()

    def reach(moment: str) -> None:
        if moment == "produced":
            second()

    world.cluster.reach = reach
    world.refreshed(first).batch()

    assert isinstance(first.output_failure, FencedError)
    assert world.numbers() == list(range(6))


@pytest.mark.parametrize("moment", MOMENTS[2:])
def test_a_transaction_that_times_out_is_sent_again_at_once(world: OutputWorld, moment: str) -> None:
    world.produce(4)
    world.cluster.reach = time_out_at(moment, times=1)

    run = world.drain()

    assert run.output_failure is None
    assert world.numbers() == list(range(4))


def test_transactions_that_time_out_again_and_again_stop_neither_the_table_nor_the_process(world: OutputWorld) -> None:
    world.produce(3)
    world.cluster.reach = time_out_at("commit", times=2)
    run = world.run()

    (report,) = run_once([run], Stopping())
    world.drain(world.refreshed(run))

    assert type(report.failure) is TransactionTimedOutError
    assert report.batches == 1
    assert world.numbers() == list(range(3))


def time_out_at(wanted: str, *, times: int) -> Callable[[str], None]:
    left = times

    def reach(moment: str) -> None:
        nonlocal left
        if moment == wanted and left:
            left -= 1
            raise TransactionTimedOutError("the transaction took longer than 600 s", hint="its records are sent again")

    return reach


def test_an_output_begins_with_the_next_epoch_of_a_table_that_has_rows(world: OutputWorld) -> None:
    wanted, world.spec = world.spec, replace(world.spec, outputs=())
    world.produce(3)
    world.drain()
    world.spec = wanted
    world.produce(2)

    world.drain()

    assert world.numbers() == [3, 4]
    record = record_in(world.view.properties, wanted.outputs[0])
    assert record is not None
    assert (record.started, record.first.epoch) == (True, 1)


def test_a_lost_marker_halts_the_output_and_not_the_table(world: OutputWorld) -> None:
    world.produce(3)
    world.drain()
    world.cluster.offsets.clear()
    world.produce(3)

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert "expected the marker of epoch 1 or a later one, found none" in str(run.output_failure)
    assert world.view.head_snapshot().summary["frazil.epoch"] == "2"  # type: ignore[union-attr]
    assert world.numbers() == [0, 1, 2]


def test_a_lower_marker_halts(world: OutputWorld) -> None:
    world.produce(6)
    world.drain()
    (place,) = world.cluster.offsets
    first = record_in(world.view.properties, world.spec.outputs[0])
    assert first is not None
    world.cluster.offsets[place] = first.first
    world.produce(1)

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert f"expected the marker of epoch 2 or a later one, found {first.first}" in str(run.output_failure)
    assert world.numbers() == list(range(6))


def test_a_table_that_was_rolled_back_halts(world: OutputWorld) -> None:
    world.produce(6)
    world.drain()
    parent = world.view.snapshots[world.view.head or 0].parent_id
    table = world.source.lake.catalog.load_table(world.spec.identifier)
    table.manage_snapshots().rollback_to_snapshot(parent or 0).commit()

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert "rolled back or rebuilt" in str(run.output_failure)
    assert world.numbers() == list(range(6))


def test_a_rolled_back_epoch_of_which_a_part_was_sent_halts(world: OutputWorld) -> None:
    world.produce(3)
    world.drain()
    (place,) = world.cluster.offsets
    sent = world.cluster.offsets[place]
    world.cluster.offsets[place] = replace(sent, part=Part(sent.snapshot_id + 1, 2))
    world.produce(1)

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert f"and 2 records of snapshot {sent.snapshot_id + 1}" in str(run.output_failure)
    assert world.numbers() == [0, 1, 2]


def test_epochs_that_expired_before_they_were_sent_halt(world: OutputWorld) -> None:
    world.produce(3)
    world.drain()
    world.cluster.partitions_of.clear()
    world.produce(6)
    world.drain()
    table = world.source.lake.catalog.load_table(world.spec.identifier)
    table.maintenance.expire_snapshots().by_id(world.view.snapshots[world.view.head or 0].parent_id or 0).commit()
    world.cluster.partitions_of[TOPIC] = 4

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert "expected epoch 2, found 3" in str(run.output_failure)
    assert world.numbers() == [0, 1, 2]


def test_a_missing_topic_leaves_the_rows_for_later(world: OutputWorld) -> None:
    world.cluster.partitions_of.clear()
    world.produce(4)

    (report,) = run_once([world.run()], Stopping())
    world.cluster.partitions_of[TOPIC] = 1
    (again,) = run_once([world.run()], Stopping())

    assert isinstance(report.failure, TopicMissingError)
    assert (report.batches, again.failure) == (2, None)
    assert world.numbers() == [0, 1, 2, 3]


def test_an_incompatible_schema_is_told_before_anything_is_sent(world: OutputWorld) -> None:
    world.schemas.refused.add(f"{TOPIC}-value")
    world.produce(4)

    run = world.drain()

    assert isinstance(run.output_failure, OutputSchemaError)
    assert (world.cluster.committed, world.cluster.offsets) == ({}, {})


def test_another_key_of_a_known_output_halts(world: OutputWorld) -> None:
    world.produce(3)
    world.drain()
    world.spec = replace(world.spec, outputs=(OutputSpec(TOPIC, TOPIC, key=("symbol",)),))
    world.produce(3)

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert world.numbers() == [0, 1, 2]


def test_keys_of_several_columns_are_avro_records(tmp_path: Path) -> None:
    world = OutputWorld.at(tmp_path, OutputSpec(TOPIC, TOPIC, key=("symbol", "n"), columns=("n", "kafka_offset")))
    world.produce(2)

    world.drain()

    (first, value), _ = world.sent()
    assert first is not None
    assert (world.decoded(first), value) == ({"symbol": "S0", "n": 0}, {"n": 0, "kafka_offset": 0})
    assert {subject for subject, _ in world.schemas.texts} == {f"{TOPIC}-key", f"{TOPIC}-value"}


def test_an_output_that_left_the_spec_keeps_no_snapshots_and_continues_when_it_is_back(world: OutputWorld) -> None:
    wanted = world.spec
    world.produce(2)
    world.drain()
    world.spec = replace(wanted, outputs=())
    world.produce(3)
    world.drain()
    tags = set(world.view.tags)

    world.spec = wanted
    world.drain()

    assert not [tag for tag in tags if tag.startswith("frazil_output_")]
    assert world.numbers() == list(range(5))


SHARDED = OutputSpec(TOPIC, TOPIC, key=("kafka_key",), shards=3)


@pytest.mark.parametrize(("output", "times"), combined([SHARDED, replace(SHARDED, key=())], [1, 2, 3]))
def test_broken_between_the_transactions_of_shards_each_row_is_sent_once(
    tmp_path: Path, output: OutputSpec, times: int
) -> None:
    world = OutputWorld.at(tmp_path, output)
    world.drain()
    world.produce(9)
    seen: list[str] = []

    def reach(moment: str) -> None:
        if moment == "committed":
            seen.append(moment)
            if len(seen) == times:
                raise Broken(moment)

    run = world.drain()
    world.produce(9)
    world.cluster.reach = reach
    with pytest.raises(Broken):
        world.drain(run)
    world.cluster.partitions_of[TOPIC] = 7
    world.drain()

    assert sorted(world.numbers()) == list(range(18))


def test_more_shards_than_partitions_halt(tmp_path: Path) -> None:
    world = OutputWorld.at(tmp_path, replace(SHARDED, shards=5))
    world.produce(1)

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert "5 shards" in str(run.output_failure)


def test_markers_of_an_idle_table_are_committed_again(world: OutputWorld) -> None:
    world.produce(3)
    run = world.drain()
    before = len(world.cluster.transactions)
    later = run.clients.now() + RENEW_EVERY
    run.clients = replace(run.clients, now=lambda: later)

    outcome = run.batch()

    assert not isinstance(outcome, Published)
    assert world.cluster.transactions[before:] == [0]
    assert list(world.cluster.offsets.values()) == [Marker(1, world.view.head or 0)]
