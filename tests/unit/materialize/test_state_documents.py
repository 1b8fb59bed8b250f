"""A table's state and receipt are stored in a snapshot and read from it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from values_of_tables import NOW, progress, state

from frazil.model import summary
from frazil.model.columnar import pack, unpack
from frazil.model.errors import StateLostError
from frazil.model.progress import (
    Counts,
    Fitted,
    ForeignChanges,
    GroupPartition,
    GroupState,
    Observation,
    ObservedTopic,
    OffsetSums,
    PartitionProgress,
    RouteLine,
    SourceProgress,
    TableState,
)
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.routes import FieldCondition, HeaderCondition, Route
from frazil.model.snapshot import Snapshot
from frazil.model.summary import (
    FORMAT_VERSION,
    STATE_BYTES,
    STATE_CHECKSUM,
    VERSION,
    StoredState,
    checksum,
    receipt_in,
    state_in,
    store,
)

STORED = Path(__file__).parent / "stored"

FULL = TableState(
    pipeline="lake.orders<-orders,returns",
    epoch=12,
    writer="w",
    batch_id="b",
    sources=(
        SourceProgress(
            "orders",
            "id",
            2,
            {
                11: PartitionProgress(3, 5, 2**62, Counts(9, 1, 2, 3, 2, 1), OffsetSums(2**64 - 1, 7), 4, 214),
                2: PartitionProgress(0, 0, 0),
            },
        ),
        SourceProgress("returns", None, 0, {}),
    ),
    complete_through=NOW,
    observations=(
        Observation(NOW, (ObservedTopic("orders", 2, {2: 9, 11: 2**40}), ObservedTopic("returns", 0, {0: 1}))),
        Observation(NOW + timedelta(microseconds=1), ()),
    ),
    schema_ids=(1, 2**31),
    key_schema_ids=(3,),
    fitted=Fitted("a1", {1: "b2", 2**31: "c3"}, {3: "d4"}),
    skipped_by_reason={"tombstone": 4},
    foreign=ForeignChanges(2, 5, 6, ("append 1", "delete 2"), 4, 3),
)


GROUP = GroupState(
    routes=(
        Route("orders", "shop.Order"),
        Route("refunds", None, (HeaderCondition("type", "refund"),), (FieldCondition("kind", ("a", "b")),)),
    ),
    partitions={"orders": {11: GroupPartition(Counts(9, 6, 0, 0, 2, 1), 4), 2: GroupPartition()}, "returns": {}},
    lines=(RouteLine("orders", {"orders": {11: 5}}), RouteLine("gone", {}), RouteLine("refunds", {"orders": {11: 1}})),
    untaken_schema_ids=(7,),
)


RECEIPT = Receipt(
    table="lake.orders",
    epoch=1,
    batch_id="b",
    ranges=(RangeReceipt("orders", 0, 1, 2, Counts(1, 1), 0), RangeReceipt("orders", 1, 5, 7, Counts(2, 2), 1)),
    counts=Counts(3, 3),
    skipped_by_reason={},
    dead_letters_by_reason={"truncated": 1},
    payload_bytes=1,
    file_bytes=2,
    files=1,
    truncated_nanos=0,
    complete_through=NOW,
    foreign=("append 1",),
    seconds={"ingest": 0.25},
)


def carrier(stored: StoredState) -> Snapshot:
    return Snapshot(1, None, "append", stored.summary, NOW, "snap.avro", lambda: stored.document)


@pytest.mark.parametrize(
    "kept",
    [
        FULL,
        replace(FULL, unnamed_topic="orders"),
        replace(FULL, group=GROUP),
        state({0: progress(0, 7)}),
        state(topic_id=None),
    ],
)
def test_a_state_survives_storing(kept: TableState) -> None:
    stored = store(kept)

    assert state_in(carrier(stored)) == kept
    assert receipt_in(carrier(stored)) is None
    assert all(isinstance(value, str) for value in stored.summary.values())


def test_a_receipt_survives_storing() -> None:
    assert receipt_in(carrier(store(FULL, RECEIPT))) == RECEIPT


@pytest.mark.parametrize("partitions", [1, 1000])
def test_the_summary_takes_a_few_hundred_bytes_whatever_the_number_of_partitions(partitions: int) -> None:
    figures = (PartitionProgress(n, n, 2**40 + n, Counts(n, n), OffsetSums(n**6, n**7)) for n in range(partitions))
    stored = store(replace(FULL, sources=(SourceProgress("orders", "id", 0, dict(enumerate(figures))),)), RECEIPT)

    assert len(json.dumps(dict(stored.summary))) < 400


def stored_by_a_release(version: str) -> StoredState:
    """What a release wrote: never to be changed, since users' tables hold such documents."""
    there = json.loads((STORED / f"state-{version}.json").read_text())
    document = zlib.compress(json.dumps(there["document"]).encode())
    size = {STATE_BYTES: str(len(document)), STATE_CHECKSUM: checksum(document)}
    return StoredState({**there["summary"], **size}, document)


@pytest.mark.parametrize("version", ["2"])
def test_the_state_that_a_release_stored_is_read_for_ever(version: str) -> None:
    snapshot = carrier(stored_by_a_release(version))

    assert state_in(snapshot) == FULL
    assert receipt_in(snapshot) == RECEIPT


def test_a_state_from_before_groups_were_stored_has_none() -> None:
    assert "group" not in json.loads((STORED / "state-2.json").read_text())["document"]["state"]
    assert state_in(carrier(stored_by_a_release("2"))).group is None


def test_a_state_is_read_by_the_reader_of_its_own_format_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def reader_of_ten(document: bytes) -> NoReturn:
        raise AssertionError("read as format version 10")

    earlier = carrier(stored_by_a_release("2"))
    monkeypatch.setattr(summary, "FORMAT_VERSION", "10")
    monkeypatch.setattr(summary, "_READERS", {2: summary._READERS[2], 10: reader_of_ten})

    assert state_in(earlier) == FULL
    assert store(FULL).summary[VERSION] == "10"
    with pytest.raises(AssertionError, match="read as format version 10"):
        state_in(carrier(store(FULL)))


def test_every_format_version_has_a_stored_example() -> None:
    assert FORMAT_VERSION in {path.stem.removeprefix("state-") for path in STORED.glob("state-*.json")}


def test_a_name_that_this_release_does_not_know_is_refused_and_not_left_out() -> None:
    """A newer release wrote it, or a field was renamed: without it the state would say zero."""
    there = json.loads((STORED / "state-2.json").read_text())
    counts = there["document"]["state"]["sources"]["partitions"][0]["values"]["counts"]
    counts["rows_added"] = counts.pop("rows")
    document = zlib.compress(json.dumps(there["document"]).encode())
    size = {STATE_BYTES: str(len(document)), STATE_CHECKSUM: checksum(document)}

    with pytest.raises(StateLostError, match="Counts has no field rows_added") as refused:
        state_in(carrier(StoredState({**there["summary"], **size}, document)))

    assert "or a newer one" in refused.value.hint


@dataclass(frozen=True)
class Older:
    number: int


@dataclass(frozen=True)
class Newer:
    number: int
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class Several:
    """Instances on their own, in a sequence, and in a mapping."""

    one: Newer
    many: tuple[Newer, ...]
    by_id: Mapping[int, Newer]


def test_a_field_with_a_default_can_be_added_to_what_is_stored() -> None:
    column = pack(tuple[Older, ...], (Older(1), Older(2)))
    packed = {"one": pack(Older, Older(1)), "many": column, "by_id": pack(Mapping[int, Older], {7: Older(1)})}

    assert unpack(Several, packed) == Several(Newer(1), (Newer(1), Newer(2)), {7: Newer(1)})
