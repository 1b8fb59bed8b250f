"""Which batches read which offsets: from the receipts in the snapshots, and checked against the state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from frazil.cli.app import run
from frazil.cli.chain_lines import chain_lines
from frazil.model.progress import Counts, PartitionProgress, TableState
from frazil.proof.chain import Chain, GapCauses
from frazil.proof.verification import Check, FindingKind, Verification
from frazil.verify.gap_causes import with_causes
from frazil.verify.ranges import with_chain
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake


def explained(lake: SmallLake) -> Verification:
    return with_chain(lake.lake, lake.spec, verify_table(lake.lake, lake.spec))


def ranges(verification: Verification) -> Check:
    (check,) = [each for each in verification.checks if each.name == "ranges"]
    return check


def chain(verification: Verification) -> Chain:
    assert verification.chain is not None
    return verification.chain


def test_batches_of_each_partition_follow_each_other(lake: SmallLake) -> None:
    found = explained(lake)

    assert found.clean
    first, second = chain(found).partitions
    assert [(link.start, link.end, link.batch.batch_id, link.gaps) for link in first.links] == [
        (0, 60, "batch1", 1),
        (60, 100, "batch2", 0),
    ]
    assert first.links[0].counts == Counts(read=59, rows=57, dead_letters=2)
    assert [(link.start, link.end, link.batch.epoch) for link in second.links] == [(0, 50, 1)]
    assert chain(found).others == ()
    assert ranges(found).says.startswith("2 batches in 2 partitions: each begins where the one before it ended")


def test_snapshots_that_expired_leave_a_range_that_the_counts_must_explain(lake: SmallLake) -> None:
    table, head = lake.table, lake.view.head
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([s.snapshot_id for s in table.snapshots() if s.snapshot_id != head])

    found = explained(lake)

    first, second = chain(found).partitions
    assert found.clean
    assert (first.is_whole, first.begins, first.before.read) == (False, 60, 59)
    assert (second.is_whole, second.begins, second.before.read) == (False, 50, 50)


def progress_of(state: TableState, change: Callable[[PartitionProgress], PartitionProgress]) -> TableState:
    (source,) = state.sources
    return replace(state, sources=(replace(source, partitions={**source.partitions, 0: change(source.partitions[0])}),))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Read("orders", 0, 110, 120), "offsets [100, 110) were not read: epoch 2 ended at 100, and epoch 3"),
        (Read("orders", 0, 90, 120), "offsets [90, 100) were read again: epoch 2 ended at 100, and epoch 3"),
    ],
)
def test_batch_that_begins_elsewhere_is_a_finding(lake: SmallLake, read: Read, expected: str) -> None:
    lake.batch(read)

    check = ranges(explained(lake))

    assert [finding.kind for finding in check.findings if expected in finding.what] == [FindingKind.BROKEN_CHAIN]


def test_records_that_no_batch_has_read_are_a_finding(lake: SmallLake) -> None:
    def more(before: PartitionProgress) -> PartitionProgress:
        return replace(before, counts=before.counts + Counts(read=3, rows=3))

    lake.batch(Read("orders", 0, 100, 110), damage_state=lambda state: progress_of(state, more))

    (finding,) = ranges(explained(lake)).findings

    assert (finding.kind, finding.where) == (FindingKind.BROKEN_CHAIN, "orders-0")
    assert finding.what.startswith("the batches whose snapshots are retained have read 109 of the 112 records")


def test_commits_of_others_are_listed_with_what_they_changed(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 77")
    lake.batch(Read("orders", 1, 50, 60))

    found = explained(lake)

    (other,) = chain(found).others
    assert (other.by, other.operation) == ("another writer", "overwrite")
    assert (other.rows_added, other.rows_removed) == (39, 40)
    assert ranges(found).passed


@dataclass
class Cluster:
    """What a cluster has of each partition: how many records, and from which offset on."""

    records: int
    first: int = 0
    is_compacted: bool = False

    def earliest(self, topic: str, partition: int) -> int:
        return self.first

    def count(self, topic: str, partition: int, start: int, end: int) -> int:
        return self.records

    def compacts(self, topic: str) -> bool:
        return self.is_compacted


@pytest.mark.parametrize(
    ("cluster", "causes", "text"),
    [
        (Cluster(59), GapCauses(markers=1), "1 transaction marker"),
        (Cluster(60), GapCauses(aborted=1), "1 record of aborted transactions"),
        (
            Cluster(40, is_compacted=True),
            GapCauses(compacted_or_markers=1),
            "1 removed by compaction or transaction markers",
        ),
        (
            Cluster(59, first=3),
            GapCauses(unknown=1),
            "1 of unknown cause: retention has deleted this part of the topic",
        ),
    ],
)
def test_cluster_shows_why_offsets_have_no_record(
    lake: SmallLake, cluster: Cluster, causes: GapCauses, text: str
) -> None:
    (found,) = with_causes([explained(lake)], cluster)

    first, second = chain(found).partitions[0].links
    assert (first.causes, second.causes) == (causes, None)
    assert str(first.causes) == text
    assert f"1 offset without a committed record ({text})" in "".join(chain_lines(chain(found)))


def test_command_shows_the_batches(
    config: str, lake: SmallLake, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (100, 110, 120):
        lake.batch(Read("orders", 0, start, start + 10))
    lake.table.delete("kafka_offset = 77")

    assert run(["verify", "orders", "--explain", "--config", config]) == 0

    out = capfd.readouterr().out
    assert "  ok   ranges: 5 batches in 2 partitions" in out
    assert "  orders-0 [0, 130): 5 batches, 129 read = 127 rows + 2 dead letters\n" in out
    assert ": 59 read = 57 rows + 2 dead letters; 1 offset without a committed record\n" in out
    assert "    [60, 130) epochs 2 to 5, batches batch2 to batch5, snapshots " in out
    assert " by another writer: rows 39 added, 40 removed\n" in out


def test_json_names_each_batch_and_the_snapshot(
    config: str, lake: SmallLake, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "--explain", "--json", "--config", config]) == 0

    (found,) = json.loads(capfd.readouterr().out)
    assert found["snapshot_id"] == lake.view.head
    first = found["chain"]["partitions"][0]
    assert [(each["start"], each["end"], each["gaps"]) for each in first["batches"]] == [(0, 60, 1), (60, 100, 0)]
    assert first["batches"][1]["snapshot_id"] == lake.view.head
    assert run(["verify", "--json", "--config", config]) == 0
    assert "chain" not in json.loads(capfd.readouterr().out)[0]
