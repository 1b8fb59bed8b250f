"""The live rows of a snapshot are counted once, also if they cannot be known; a failure is not kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.adapters.iceberg import live_rows
from frazil.adapters.iceberg.live_rows import LiveRows

SNAPSHOT = cast("Any", SimpleNamespace(snapshot_id=1, manifest_list="snap-1.avro", manifests=lambda io: []))
IO = cast("Any", None)


def _answering(answers: list[int | Exception | None], monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: object) -> int | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(live_rows, "live_rows", count)


@pytest.mark.parametrize("found", [7, None])
def test_a_snapshot_is_counted_once(found: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    _answering([found], monkeypatch)
    rows = LiveRows()

    assert [rows.count(IO, SNAPSHOT) for _ in range(2)] == [found] * 2


@pytest.mark.parametrize("failure", [ValueError("no Avro file"), FileNotFoundError("gone")])
def test_a_snapshot_is_counted_again_after_a_failure(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    _answering([failure, 7], monkeypatch)
    rows = LiveRows()

    assert [rows.count(IO, SNAPSHOT) for _ in range(3)] == [None, 7, 7]
