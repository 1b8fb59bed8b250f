"""Which epochs an output has not sent, where snapshots expired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from frazil.model.errors import OutputHaltedError
from frazil.model.outputs import Marker, OutputSpec
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.summary import EPOCH
from frazil.outputs.unsent import unsent_epochs

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OUTPUT = OutputSpec("orders.clean", "clean")
MARKER = Marker(7, 70)


def table(*snapshots: tuple[int, int | None, int | None]) -> TableView:
    """Return a table with these snapshots, oldest first: the id, that of the parent, and the epoch if it has one."""
    made = [Snapshot(n, at, "append", {} if e is None else {EPOCH: str(e)}, NOW) for n, at, e in snapshots]
    return TableView(
        identifier="lake.orders", location="", head=made[-1].id, branches={}, tags={},
        snapshots={each.id: each for each in made}, properties={}, columns=(), format_version=2, schema_json="",
        partition_spec_json="", partition_fields=(), current=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("view", "epochs"),
    [
        (table((70, 60, 7)), []),
        (table((70, 60, 7), (75, 70, None), (80, 75, 8)), [8]),
        (table((80, 70, 8), (90, 80, 9)), [8, 9]),
    ],
)
def test_epochs_after_the_marker_are_unsent(view: TableView, epochs: Sequence[int]) -> None:
    assert [each.number for each in unsent_epochs(view, OUTPUT, MARKER)] == epochs


@pytest.mark.parametrize(
    ("view", "found", "epochs"),
    [
        (
            table((90, 80, 9), (100, 90, 10)),
            "expected epoch 8, found 9 as the oldest one after epoch 7, snapshot 70",
            "epochs 8 to 10",
        ),
        (
            table((80, 75, 8), (90, 80, 9)),
            "found epoch 8, but not the snapshots before it that lead back to epoch 7, snapshot 70",
            "epochs 8 to 9",
        ),
        (
            table((80, 75, 8)),
            "found epoch 8, but not the snapshots before it that lead back to epoch 7, snapshot 70",
            "epoch 8",
        ),
    ],
)
def test_expired_snapshots_are_named_with_the_epochs_that_the_topic_lacks(
    view: TableView, found: str, epochs: str
) -> None:
    """An output with another name begins at the present epoch: all up to that one are missing."""
    with pytest.raises(OutputHaltedError) as halted:
        unsent_epochs(view, OUTPUT, MARKER)

    assert found in halted.value.what
    assert halted.value.hint.endswith(f"read the rows of {epochs} from the table")
