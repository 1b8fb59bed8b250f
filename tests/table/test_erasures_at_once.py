"""Erasures beside others: two runs, a pause by an operator, another expiry, and letters of no known table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFile

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.forget.perform import Erasure
from frazil.forget.snapshots import delete_expired_files
from frazil.materialize.pause.by_operator import pause
from frazil.materialize.pause.pausing import Pause, pause_of
from frazil.model.expiry import Expiry
from frazil.verify.table import verify_table
from tests.table.small_lake import SmallLake, dead_letters

NOW = datetime(2026, 2, 1, tzinfo=UTC)
_NUMBERS = count()


def erasure(lake: SmallLake, text: str) -> Erasure:
    sought = sought_in(lake.view, "kafka_key", text)
    return Erasure(lake.lake, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}")


def at_step(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    seen = count()

    def acted(name: str) -> None:
        if name == step and next(seen) == 0:
            act()

    return acted


def paused(lake: SmallLake) -> Pause | None:
    return pause_of(lake.view.properties)


def test_an_erasure_pauses_the_table_again_if_a_later_one_ends_before_it(lake: SmallLake) -> None:
    earlier, later = erasure(lake, "98"), erasure(lake, "99")
    at_rows: list[Pause | None] = []
    end_the_later = at_step("rewrite", later.perform)

    def step(name: str) -> None:
        end_the_later(name)
        if name == "rows":
            at_rows.append(paused(lake))

    earlier.step = step
    done = earlier.perform()

    assert (done.rows, done.is_complete) == (1, True)
    assert at_rows[-1] is not None
    assert paused(lake) is None


def test_the_end_of_the_earlier_erasure_leaves_the_pause_of_the_later(lake: SmallLake) -> None:
    earlier, later = erasure(lake, "98"), erasure(lake, "99")
    earlier.step = at_step("delete", later._pause)

    earlier.perform()

    assert paused(lake) is not None
    assert later.perform().rows == 1
    assert paused(lake) is None


def test_a_pause_by_an_operator_meanwhile_stays(lake: SmallLake) -> None:
    paused_by: list[Pause | None] = []
    run = erasure(lake, "99")
    run.step = at_step(
        "rows",
        lambda: paused_by.append(pause(lake.lake, lake.spec, by="ann", why="a migration", at=NOW)),
    )

    assert run.perform().is_complete

    kept = paused(lake)
    assert paused_by == [None]
    assert kept is not None
    assert (kept.by, kept.why) == ("ann", "a migration")


def test_a_file_that_another_expiry_deletes_while_it_is_read_counts_as_gone(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table.delete("kafka_key = '99'")
    before = lake.view
    kept = {path for each in [lake.table.current_snapshot()] if each for path in manifests_of(lake, each)}
    lake.lake.expire(before, Expiry(tuple(each for each in before.snapshots if each != before.head)))
    opened, deleted = PyArrowFile.open, list[str]()

    def open_what_is_gone(file: PyArrowFile, seekable: bool = True) -> Any:
        path = file.location.removeprefix("file://")
        if "-m" in path and path.endswith(".avro") and path not in kept:
            deleted.append(path)
            Path(path).unlink()
        return opened(file, seekable)

    monkeypatch.setattr(PyArrowFile, "open", open_what_is_gone)

    delete_expired_files(lake.view)

    assert deleted


def manifests_of(lake: SmallLake, snapshot: Any) -> list[str]:
    return [each.manifest_path.removeprefix("file://") for each in snapshot.manifests(lake.table.io)]


def test_a_dead_letter_that_names_no_table_is_erased_by_its_text(lake: SmallLake) -> None:
    dead = lake.dead_view.current
    theirs = dead_letters("orders", 0, (500,), "b1", table_uuid=None)
    dead.append(pa.Table.from_pylist(theirs.to_pylist(), schema=dead.schema().as_arrow()))

    done = erasure(lake, "500").perform()

    assert (done.dead_letters, done.is_complete) == (1, True)
    assert sorted(lake.dead_view.current.scan().to_arrow()["key"].to_pylist()) == [b"10", b"21"]
    assert verify_table(lake.lake, lake.spec).findings == ()
