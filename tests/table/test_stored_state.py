"""The state in the header of a manifest list: read from storage, and never guessed at when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.materialize.state import standing
from frazil.model.errors import StateLostError
from frazil.model.summary import receipt_in
from tests.table.small_lake import Read, SmallLake, spec_of


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path, spec_of())
    made.batch(Read("orders", 0, 0, 5), Read("orders", 1, 3, 9))
    return made


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
