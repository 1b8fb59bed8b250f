"""Rows and dead letters that Kafka does not have the record of any more, in a table that follows keys.

Compaction removes the record of a row once its key has a newer one. So a row without a record is right if the newer
records of its key are no rows, or not read yet; and else it is the row of a key that was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.progress import GroupPartition, TableState
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.proof.group import group_progress
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Discrepancy, FindingKind, first_named, listed_offsets
from frazil.verify.window import Compared


def check_rows(
    spec: TableSpec, ledger: TableState, where: TopicPartition, found: Compared, *, proven: bool, read_to_end: bool
) -> Discrepancy | None:
    """Return the finding that more rows lack their record than records can have followed them.

    It needs a partition that was `read_to_end`, whose sums are `proven`, and offsets that order the records.
    """
    rows = found.unchecked_rows
    if spec.write != "upsert" or spec.order or not (proven and read_to_end):
        return None
    others = _no_rows(ledger, where)
    if len(rows) <= others:
        return None
    offsets = first_named(rows)
    read = "all records of it that the table has read are rows or deletes"
    if others:
        neither = plural(others, "is neither", "are neither")
        read = f"of those that the table has read of it, only {neither} row nor delete"
    what = (
        f"{plural(len(rows), 'row')} without a record in Kafka: {listed_offsets(offsets, len(rows))}; compaction keeps"
        f" the newest record of each key in the partition unless it deletes the key, and {read}"
    )
    return Discrepancy(FindingKind.DELETED_KEY, f"{where[0]}-{where[1]}", what, offsets)


def notes(spec: TableSpec, where: TopicPartition, found: Compared, *, proven: bool) -> Iterator[str]:
    """Yield how many keys are unchecked, and how many dead letters have no record."""
    name, rows, letters = f"{where[0]}-{where[1]}", found.unchecked_rows, found.letters_not_in_kafka
    if rows:
        one, many = ("row", "rows") if spec.keeps_history else ("key with a row", "keys with a row")
        what = plural(len(rows), one, many)
        which = listed_offsets(first_named(rows), len(rows))
        since = "the table's sums prove that they were read, and Kafka has compacted them since"
        read = since if proven else "the table's sums do not prove that they were read"
        yield f"{name}: unchecked: {what} whose record Kafka no longer has: {which}; {read}"
    if letters:
        what = plural(len(letters), "dead letter")
        yield f"{name}: {what} without a record in Kafka: {listed_offsets(first_named(letters), len(letters))}"


def _no_rows(ledger: TableState, where: TopicPartition) -> int:
    """Return how many records of a partition are neither rows nor deletes, and leave the row of their key."""
    group = ledger.group
    counts = progress_by_source(ledger)[where].counts
    if group is not None:
        counts = group_progress(group).get(where, GroupPartition()).counts
    return counts.dead_letters + counts.skipped
