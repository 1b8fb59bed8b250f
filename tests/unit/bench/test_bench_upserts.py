"""The benchmark of upserts: its changelog, and what it reports."""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from itertools import islice

import fastavro
import pytest

from bench.frazil_upserts import RewriteLog
from bench.keyed_orders import PARTITIONS, Changelog, zigzag
from bench.measure import Cost
from bench.updates import Updates
from bench.upsert_scans import Scans, memory, report_alone
from bench.upserts import TARGET_SIZE, Found, difference, shares, smaller, targets

OURS = Found(Updates(Cost("frazil", 10, 1.0, 1.0, 1, 1), [0.5, 0.5]), 4, {"a": 1, "b": 2}, 1.0, 1.0)


def test_a_changelog_has_each_order_once_then_batches_of_distinct_stored_orders() -> None:
    changelog = Changelog(stored=40, batch=20, batches=3)

    for partition in range(PARTITIONS):
        numbers = changelog.numbers(partition)
        stored = list(islice(numbers, 10))
        batches = [list(islice(numbers, 5)) for _ in range(3)]

        assert stored == list(range(partition, 40, PARTITIONS))
        assert [len(set(batch) & set(stored)) for batch in batches] == [5, 5, 5]
        assert not list(numbers)


def test_a_changelog_that_does_not_divide_by_its_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="of 42 orders in 4 equal partitions"):
        Changelog(stored=42, batch=20, batches=1)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 8_191, 8_192, 10_000_000])
def test_a_number_is_encoded_as_avro_does(number: int) -> None:
    assert fastavro.schemaless_reader(io.BytesIO(zigzag(number)), "long") == number


def test_tables_are_equal_by_the_columns_of_both() -> None:
    theirs = replace(OURS, checksums={"a": 1})

    assert difference(OURS, theirs) == "Both tables have the same 4 rows, by checksums of 1 columns."
    assert difference(OURS, replace(OURS, checksums={"a": 1, "b": 3})) == "**The tables differ in b.**"
    assert difference(OURS, replace(OURS, rows=5)) == "**The tables have 4 and 5 rows.**"


def test_missed_targets_are_marked() -> None:
    met = [line.split(" | ")[-1] for line in targets(OURS, OURS)]

    assert met == ["**no** |", "**no** |", "yes |"]


def test_a_run_of_another_size_than_the_targets_says_so() -> None:
    assert not smaller(TARGET_SIZE)
    assert "100 batches and 10,000,000 stored orders" in smaller(replace(TARGET_SIZE, batches=20))[0]


def test_what_no_step_took_is_the_rest() -> None:
    updates = replace(OURS.updates, steps=[{"ingest": 0.3, "stage": 0.1}, {"ingest": 0.3, "stage": 0.1}])

    assert shares(updates) == "ingest 60%, stage 20%, rest 20%"
    assert shares(replace(updates, rewrites=[{"seconds": 0.2}])) == "ingest 60%, stage 20%, rewriting 20%"


def test_scans_of_snapshots_are_compared_with_those_of_the_compacted_table_beside_them() -> None:
    scans = Scans({1: [(1.5, 1.0), (2.4, 2.0)], 2: [(1.0, 1.0), (3.0, 2.0)]}, deleted=[0.05, 0.1], files=[3, 7])
    rewrites = [{"files": 3, "copied_rows": 30, "seconds": 0.25}]
    memory_at_end = [{"driver": 1, "JVM": 2, "worker": size} for size in (5, 9)]
    updates = replace(OURS.updates, rewrites=rewrites, memory=memory_at_end)

    text = report_alone(TARGET_SIZE, updates, scans, load=(0.0, 0.0))

    assert "| 1 thread, CPU time | 1.50 | 1.35 | 1.20 | 1.50 | ≤ 1.3 times | **no** |" in text
    assert "| 2 threads, wall time | 1.50 | 1.25 | 1.00 | 1.50 | ≤ 1.3 times | yes |" in text
    assert "3 to 7 data files, and 5% to 10% deleted rows" in text
    assert "copied 3.0 rows for each update and took 25% of the wall time" in text


def test_memory_is_told_for_the_first_batches_and_for_the_last_half() -> None:
    sizes = [{"driver": n, "JVM": 2 * n, "worker": 3 * n} for n in range(1, 101)]

    found = memory(replace(OURS.updates, memory=sizes))

    assert found == (
        "in the first 20 batches and in the last 50, driver 1 to 20 and 51 to 100, JVM 2 to 40 and 102 to 200,"
        " worker 3 to 60 and 153 to 300"
    )


def test_what_is_logged_of_a_rewrite_is_kept() -> None:
    log = logging.getLogger("test.rewrites")
    log.setLevel(logging.INFO)
    handler = RewriteLog()
    log.addHandler(handler)

    log.info("files_rewritten", extra={"files": 2, "deleted_rows": 5, "copied_rows": 7, "seconds": 0.5})
    log.info("something_else")

    assert handler.rewrites == [{"files": 2, "copied_rows": 7, "seconds": 0.5}]
