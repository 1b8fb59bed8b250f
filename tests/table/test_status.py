from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from frazil import status as status_module
from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.standing import LogStanding
from frazil.maintain.figures import Throughput, throughput_of
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, pause_property
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import Standing
from frazil.model.changes import RenameColumn
from frazil.model.errors import BrokerError, CatalogError
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import Counts, ForeignChanges
from frazil.model.snapshot import TableView
from frazil.model.spec import Maintain, Start, TableSpec
from frazil.monitoring.history import read_histories, read_history
from frazil.monitoring.remarks import remarks
from frazil.status import PartitionLag, TableStatus, table_statuses
from tests.table.small_lake import NOON, Read, SmallLake, spec_of


@dataclass(slots=True)
class Broker:
    """A broker whose partitions end where they are said to; without `ends` it does not answer."""

    ends: Mapping[int, int] | None = None
    topic_id: str = "id-orders"
    asked: list[str] = field(default_factory=list)

    def describe(self, topic: str) -> TopicFacts | None:
        self.asked.append(topic)
        if self.ends is None:
            raise BrokerError("the Kafka cluster does not answer", hint="start it")
        return TopicFacts(topic, self.topic_id, {n: PartitionFacts(0, end) for n, end in self.ends.items()})

    def names(self) -> list[str]:
        return ["orders", "returned"]

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        raise NotImplementedError


def status_of(lake: SmallLake, broker: Broker, spec: TableSpec | None = None) -> TableStatus:
    (found,) = statuses_of(lake, broker, spec or lake.spec)
    return found


def statuses_of(lake: SmallLake, broker: Broker, *specs: TableSpec) -> list[TableStatus]:
    now = NOON + timedelta(minutes=5)
    return list(table_statuses(lake.lake, broker, specs, delta_logs=lambda: DeltaRsLogs(lake.lake.storage), now=now))


def test_lag_is_what_is_left_of_every_partition_new_ones_too(lake: SmallLake) -> None:
    found = status_of(lake, Broker({0: 130, 1: 50, 2: 7}))

    assert found.partitions == (
        PartitionLag("orders", 0, 100, 130),
        PartitionLag("orders", 1, 50, 50),
        PartitionLag("orders", 2, 0, 7),
    )
    assert (found.lag, found.state) == (37, "behind")


def test_table_that_is_caught_up(lake: SmallLake) -> None:
    found = status_of(lake, Broker({0: 100, 1: 50}))

    assert (found.state, found.lag, found.epoch, found.rows) == ("caught up", 0, 2, 147)
    assert found.counts == Counts(read=149, rows=147, dead_letters=2)
    assert (found.complete_through, found.age_seconds) == (NOON, 300.0)
    assert found.last_batch is not None
    assert (found.last_batch.batch_id, found.last_batch.seconds) == ("batch2", 0.3)


def test_without_kafka_all_but_the_lag_is_told_and_it_is_asked_once(lake: SmallLake) -> None:
    broker = Broker()

    first, second = statuses_of(lake, broker, lake.spec, spec_of("orders", table="orders"))

    assert (first.state, first.lag, first.rows) == ("lag unknown", None, 147)
    assert first.kafka_problem == second.kafka_problem == "the Kafka cluster does not answer; start it"
    assert broker.asked == ["orders"]


def test_paused_table_says_why(lake: SmallLake) -> None:
    said = pause_property(by="ann", why="repairs", at=NOON)
    lake.lake.set_properties(lake.spec.identifier, put={PAUSED_PROPERTY: said})

    found = status_of(lake, Broker({0: 100, 1: 50}))

    assert found.state == "paused"
    assert str(found.pause) == "by ann at 2026-01-31T12:00:00Z: repairs"


def test_foreign_commits_are_named(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 77")

    found = status_of(lake, Broker({0: 100, 1: 50}))

    assert (found.rows, found.foreign.rows_removed - found.foreign.rows_added) == (146, 1)


def test_rolled_back_table_says_so(lake: SmallLake) -> None:
    parent = lake.view.snapshots[lake.view.head or 0].parent_id or 0
    lake.table.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()

    found = status_of(lake, Broker({0: 100, 1: 50}))

    assert (found.rolled_back, found.epoch, found.lag) == (True, 1, 40)


def test_a_topic_that_the_spec_does_not_name_any_more_is_listed(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "several", spec_of("orders", "returned"))
    lake.batch(Read("orders", 0, 0, 100), Read("returned", 0, 0, 7))
    lake.spec = spec_of("orders")

    found = status_of(lake, Broker({0: 100}))

    assert (found.state, found.removed_topics, found.rows) == ("caught up", ("returned",), 107)
    assert found.to_json()["removed_topics"] == ("returned",)
    assert list(remarks([found])) == [
        "lake.orders: not read any more, because the spec does not name it: topic returned; its rows stay"
    ]


def test_topic_made_anew_is_trouble(lake: SmallLake) -> None:
    found = status_of(lake, Broker({0: 0, 1: 0}, topic_id="another"))

    assert found.state == "in trouble"
    assert found.problem is not None
    assert "the topic orders was re-created" in found.problem
    assert found.lag is None


def test_a_partition_that_ends_before_the_next_offset_has_no_lag_and_is_trouble(lake: SmallLake) -> None:
    found = status_of(lake, Broker({0: 40, 1: 50}))

    assert (found.state, found.lag, [each.lag for each in found.partitions]) == ("in trouble", None, [None, 0])
    assert found.problem == "lake.orders: orders-0 was read up to offset 100, but ends at 40"


def test_missing_table_and_foreign_owner_are_told(lake: SmallLake) -> None:
    broker = Broker({0: 100})

    assert status_of(lake, broker, spec_of("orders", table="sales")).state == "no table"
    assert status_of(lake, broker, spec_of("returns")).state == "in trouble"


def test_a_table_whose_files_cannot_be_read_hides_no_other(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: Standing) -> ForeignChanges:
        raise CatalogError("the rows of snapshot 7 cannot be counted", hint="check the network")

    monkeypatch.setattr(status_module, "count_foreign", unreadable)

    found = statuses_of(lake, Broker({0: 100}), lake.spec, spec_of("other"))

    first, second = (str(each.problem) for each in found)
    assert first == "the rows of snapshot 7 cannot be counted"
    assert second.startswith("the table lake.orders is owned by")


def test_json_holds_all_of_it(lake: SmallLake) -> None:
    value = status_of(lake, Broker({0: 130, 1: 50})).to_json()

    assert (value["state"], value["lag"], value["partitions"][0]["lag"]) == ("behind", 30, 30)
    assert value["complete_through"] == "2026-01-31T12:00:00Z"


def test_a_delta_log_is_current_behind_or_withheld(lake: SmallLake) -> None:
    broker, in_both = Broker({0: 100, 1: 50}), replace(lake.spec, formats=("iceberg", "delta"))
    first, head = status_of(lake, broker, in_both).delta, lake.view.head
    announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)
    second = status_of(lake, broker, in_both).delta
    lake.table.append(lake.table.scan(limit=1).to_arrow())
    third = status_of(lake, broker, in_both).delta
    lake.lake.change_schema(lake.view, [RenameColumn("kafka_key", "who")], {})
    fourth = status_of(lake, broker, in_both).delta

    assert (first, second) == (LogStanding("behind"), LogStanding("current", 0, head))
    assert third == LogStanding("behind", 0, head)
    assert fourth is not None
    assert str(fourth).startswith(
        f"Delta log version 0 of snapshot {head}, withheld: the column kafka_key was renamed to who, and "
    )
    assert status_of(lake, broker).delta is None


def test_a_delta_log_that_does_not_answer_is_told(lake: SmallLake) -> None:
    (lake.folder / "lake" / "orders" / "_delta_log").mkdir(parents=True)
    (lake.folder / "lake" / "orders" / "_delta_log" / f"{0:020}.json").write_text("{}{")

    found = status_of(lake, Broker({0: 100, 1: 50}), replace(lake.spec, formats=("iceberg", "delta")))

    assert found.rows == 147
    assert found.delta is not None
    assert found.delta.state == "unreadable"
    assert str(found.delta).startswith(f"Delta log: the Delta log of {lake.view.location} cannot be read")


def test_fields_without_a_column_are_told(lake: SmallLake) -> None:
    lake.lake.set_properties(lake.spec.identifier, put={"frazil.left-out": '["ping", "order.empty"]'})

    found = status_of(lake, Broker({0: 100, 1: 50}))

    assert found.left_out == ("ping", "order.empty")
    said = "lake.orders: fields left out because their types hold no data: ping, order.empty"
    assert said in list(remarks([found]))


def test_status_counts_files_snapshots_and_rows_of_the_last_hour(lake: SmallLake) -> None:
    few, many = replace(lake.spec, maintain=Maintain(8)), replace(lake.spec, maintain=Maintain(512 << 20))

    with_small_target, found = status_of(lake, Broker({0: 130, 1: 50}), few), status_of(lake, Broker({0: 130}), many)

    assert found.files is not None
    assert (found.files.data, found.files.deletes, found.files.small, found.files.examined) == (2, 0, 2, 2)
    assert found.files.bytes == sum(path.stat().st_size for path in lake.files())
    assert with_small_target.files is not None
    assert with_small_target.files.small == 0
    assert found.snapshots == len(lake.view.snapshots) == 3


def test_throughput_is_that_of_the_last_hour_of_batches(lake: SmallLake) -> None:
    view = lake.view
    newest = view.head_snapshot()
    assert newest is not None
    lake.table.append(lake.table.scan(limit=1).to_arrow())

    at = newest.committed_at + timedelta(minutes=30)
    found = throughput_of(lake.view, now=at)
    long_after = throughput_of(lake.view, now=at + timedelta(days=1))

    assert found is not None
    assert (found.rows, round(found.seconds / 60)) == (147, 30)
    assert found.rows_per_second == 147 / found.seconds
    assert long_after == Throughput(0, 3_600.0)


def test_sizes_are_those_of_the_files_that_were_added_last(lake: SmallLake) -> None:
    head = lake.view.head_snapshot()
    assert head is not None

    newest_first = [path.stat().st_size for path in sorted(lake.files(), key=lambda path: -path.stat().st_mtime_ns)]

    assert list(head.newest_file_sizes(10)) == newest_first
    assert list(head.newest_file_sizes(1)) == newest_first[:1]


def test_status_says_less_of_files_that_cannot_be_read(lake: SmallLake) -> None:
    for manifest in lake.folder.rglob("*-m0.avro"):
        manifest.write_bytes(b"no Avro file")

    files = status_of(lake, Broker({0: 100, 1: 50})).files

    assert files is not None
    assert (files.data, files.examined) == (2, 0)


def test_a_table_that_is_behind_lags_by_its_age_and_one_that_is_caught_up_by_nothing(lake: SmallLake) -> None:
    behind, caught_up = status_of(lake, Broker({0: 130, 1: 50})), status_of(lake, Broker({0: 100, 1: 50}))

    assert (behind.lag_seconds, caught_up.lag_seconds) == (300.0, 0.0)
    assert status_of(lake, Broker()).lag_seconds is None
    assert behind.to_json()["lag_seconds"] == 300.0


def test_the_past_of_a_table_comes_from_its_snapshots(lake: SmallLake) -> None:
    lake.compact()
    batches = [each for each in lake.view.ancestry(lake.view.head) if each.operation == "append"]

    found = read_history(lake.lake, lake.spec)

    assert [each.at for each in found.batches][1:] == [
        each.committed_at for each in batches[::-1] if each.figure("added-records")
    ]
    assert [each.rows for each in found.batches] == [0, 107, 40]
    assert found.batches[-1].delay_seconds == (batches[0].committed_at - NOON).total_seconds()
    assert sum(each.records for each in found.rejects) == 2
    assert sorted(found.file_sizes) == sorted(path.stat().st_size for path in lake.files())
    assert found.since == found.batches[0].at


def test_the_past_of_a_table_that_was_looked_at_is_not_loaded_again(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: dict[str, TableView] = {}
    now = NOON + timedelta(minutes=5)
    broker, logs = Broker({0: 100}), lambda: DeltaRsLogs(lake.lake.storage)
    list(table_statuses(lake.lake, broker, [lake.spec], delta_logs=logs, now=now, views=views))
    expected = read_histories(lake.lake, [lake.spec])
    load, loaded = lake.lake.load, []
    monkeypatch.setattr(lake.lake, "load", lambda name: (loaded.append(name), load(name))[1])

    assert read_histories(lake.lake, [lake.spec], views) == expected
    assert loaded == [lake.spec.dead_letters_identifier]


def test_a_table_that_does_not_exist_has_no_past(lake: SmallLake) -> None:
    missing = spec_of("orders", table="sales")

    assert read_histories(lake.lake, [missing, lake.spec]).keys() == {"lake.sales", "lake.orders"}
    assert read_history(lake.lake, missing).since is None
