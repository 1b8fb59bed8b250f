"""The state in the header of a manifest list: read from storage, and never guessed at when it is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frazil.materialize import dead_letters
from frazil.materialize.state import standing
from frazil.model.errors import StateLostError
from frazil.model.summary import BATCH_ID, EPOCH, PIPELINE, VERSION, receipt_in
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake, spec_of


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path, spec_of())
    made.batch(Read("orders", 0, 0, 5), Read("orders", 1, 3, 9))
    return made


def test_tables_whose_owner_was_stored_with_its_topics_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = spec_of()
    with monkeypatch.context() as as_before:
        as_before.setattr(dead_letters, "_summary", _summary_with_topics)
        lake = SmallLake(tmp_path, earlier)
        lake.state = replace(lake.state, pipeline="lake.orders<-orders")
        lake.batch(Read("orders", 0, 0, 5, dead=(2,)))
    assert verify_table(lake.lake, earlier).clean
    assert [s.summary["frazil.pipeline"] for s in lake.dead_view.snapshots.values()] == ["lake.orders<-orders"] * 2

    lake.state = replace(lake.state, pipeline=earlier.pipeline.name)
    lake.batch(Read("orders", 0, 5, 9, dead=(7,)))

    proof = verify_table(restarted(lake).lake, earlier)
    assert proof.clean, [str(each) for each in proof.findings]
    assert proof.counts.dead_letters == 2
    assert standing(lake.view, pipeline=earlier.pipeline).carrier.summary["frazil.pipeline"] == "lake.orders"


def _summary_with_topics(pipeline: str, *, epoch: int, batch_id: str) -> dict[str, str]:
    return {VERSION: "2", PIPELINE: "lake.orders<-orders", EPOCH: str(epoch), BATCH_ID: batch_id}


def manifest_list(lake: SmallLake) -> Path:
    view = lake.view
    return Path(view.snapshots[view.head or 0].manifest_list.removeprefix("file://"))


def restarted(lake: SmallLake) -> SmallLake:
    lake.restart()
    return lake


def test_another_process_reads_the_state_and_the_receipt_back(lake: SmallLake) -> None:
    here = standing(restarted(lake).view, pipeline=lake.spec.pipeline)

    receipt = receipt_in(here.carrier)
    assert here.state == lake.state
    assert receipt is not None
    assert (receipt.batch_id, receipt.counts.rows) == ("batch1", 11)


def test_a_state_is_read_from_storage_once(lake: SmallLake) -> None:
    standing(restarted(lake).view, pipeline=lake.spec.pipeline)
    manifest_list(lake).unlink()

    assert standing(lake.view, pipeline=lake.spec.pipeline).state == lake.state


@pytest.mark.parametrize("damage", ["missing", "rewritten without the state", "cut short", "another byte"])
def test_a_damaged_manifest_list_is_state_lost_and_is_named(lake: SmallLake, damage: str) -> None:
    file = manifest_list(lake)
    whole = file.read_bytes()
    key = whole.index(b"frazil.state") + len(b"frazil.state") + 2
    match damage:
        case "missing":
            file.unlink()
        case "rewritten without the state":
            file.write_bytes(whole.replace(b"frazil.state", b"frazil.other"))
        case "cut short":
            file.write_bytes(whole[: key + 20])
        case _:
            flipped = b"B" if whole[key + 40 : key + 41] == b"A" else b"A"
            file.write_bytes(whole[: key + 40] + flipped + whole[key + 41 :])

    with pytest.raises(StateLostError) as lost:
        standing(restarted(lake).view, pipeline=lake.spec.pipeline)

    assert str(file) in lost.value.what
    assert "is damaged: expected" in lost.value.what
    assert ("found none" in lost.value.what) == (damage != "another byte")
    assert "restore that file" in lost.value.hint
