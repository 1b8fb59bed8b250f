"""What is collected of the records in Kafka that are no rows, by their key, to be compared with the table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.added_partitions import offsets_first
from frazil.model.identity_columns import column_at
from frazil.model.spec import TableSpec
from frazil.modes.followed import FollowedColumns
from frazil.modes.validity import NAMES
from frazil.proof.sources import source_columns
from frazil.proof.tally import TopicPartition, bitmap_of
from frazil.proof.verification import Discrepancy, FindingKind
from frazil.verify.first_offsets import OffsetsFirst
from frazil.verify.history_ends import DeleteComparison, HistoryEnds
from frazil.verify.identities import HALVES
from frazil.verify.judging import Judge
from frazil.verify.keys import KeyComparison, NewestRecords
from frazil.verify.proven import ComparedTable
from frazil.verify.row_comparison import RowComparison
from frazil.verify.window import Compared

Collected = NewestRecords | HistoryEnds


def compares_together(spec: TableSpec) -> bool:
    """Return whether the partitions of all topics are compared together: the records of a key may be in several.

    Those of a history are compared together because it is read for all of them.
    """
    return bool(spec.order) or spec.keeps_history or spec.write == "deduplicate"


def collected_of(table: ComparedTable) -> Collected | None:
    """Return where records are collected; None unless the table follows keys."""
    if not table.spec.follows_keys:
        return None
    numbers = table.at.state.partition_numbers
    columns = FollowedColumns.of(table.spec, numbers)
    if table.spec.keeps_history:
        source = source_columns(table.spec, table.at.state)
        rows = TableScan(table.at.view, columns=(*HALVES, *source.names, *NAMES))
        return HistoryEnds(rows, source, numbers, by_time=table.spec.order_by is not None, first=_first(table))
    first_stays = table.spec.write == "deduplicate"
    columns = replace(columns, order=()) if first_stays else columns
    rows = TableScan(table.at.view, columns=NewestRecords.read_from(columns))
    return NewestRecords(numbers, rows, columns, first_stays=first_stays, offsets_first=_first(table))


def lacking_order(table: ComparedTable) -> tuple[Discrepancy, ...]:
    """Return the columns that order the records of a key and that another tool renamed or dropped.

    A table without rows may not have got its columns yet.
    """
    view, spec = table.at.view, table.spec
    key = "order_by" if spec.order_by is not None else "cdc_order"
    absent = [path for path in spec.order if column_at(path, view.columns, {}) is None]
    if not absent or TableScan(view, columns=()).rows == 0:
        return ()
    what = f"by which `{key}` orders: its records cannot be compared; restore it, or run `frazil rebuild`"
    return tuple(
        Discrepancy(FindingKind.NO_COLUMN, view.identifier, f"the table has no column {name}, {what}")
        for name in absent
    )


def _first(table: ComparedTable) -> OffsetsFirst:
    """Return the records that offsets order, in a table that a column orders since partitions were added."""
    return OffsetsFirst(offsets_first(table.spec, table.at) if table.spec.order_by is not None else {})


def comparison_of(
    collected: Collected, where: TopicPartition, tables: Sequence[RowComparison], judge: Judge
) -> KeyComparison | DeleteComparison:
    """Return what collects the records of a partition."""
    if isinstance(collected, HistoryEnds):
        return DeleteComparison(where, tables, collected, judge)
    return KeyComparison(where, tables, collected, judge)


def add_compared(collected: Collected, found: Mapping[TopicPartition, Compared]) -> None:
    """Compare what is collected, and add it to what was found in each partition that could be read."""
    if isinstance(collected, HistoryEnds):
        for ends in collected.compared():
            if ends.source in found:
                found[ends.source].add_ends(ends)
    else:
        for keys in collected.compared():
            if keys.source in found:
                found[keys.source].add_keys(keys)
            for where, offsets in keys.rows():
                if where in found:
                    found[where].differing_keys |= bitmap_of(offsets)
