"""The benchmark of upserts: its changelog, and what it reports."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import islice

import fastavro
import pytest

from bench.keyed_orders import PARTITIONS, Changelog, zigzag
from bench.measure import Cost
from bench.updates import Updates
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
