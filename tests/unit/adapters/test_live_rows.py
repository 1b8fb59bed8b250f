"""The live rows of a snapshot are counted once, also if they cannot be known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.adapters import iceberg_live
from frazil.adapters.iceberg_live import LiveRows


@pytest.mark.parametrize("found", [7, None, ValueError("no Avro file"), FileNotFoundError("gone")])
def test_a_snapshot_is_counted_once(found: int | Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def count(*_: object) -> int | None:
        counted.append(1)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(iceberg_live, "live_rows", count)
    snapshot = cast("Any", SimpleNamespace(snapshot_id=1, manifest_list="snap-1.avro", manifests=lambda io: []))
    rows = LiveRows()

    answers = [rows.count(cast("Any", None), snapshot) for _ in range(2)]

    assert answers == [found if isinstance(found, int) else None] * 2
    assert len(counted) == 1
