"""Which column says how old a row is."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.model.partitioning import TIMES, PartitionField, partition_field


def age_of_rows(partition_by: Iterable[str]) -> PartitionField | None:
    """Return the first field of `partition_by` that is a time of a column, such as `day(kafka_timestamp)`."""
    return next((each for each in map(partition_field, partition_by) if each.transform in TIMES), None)
