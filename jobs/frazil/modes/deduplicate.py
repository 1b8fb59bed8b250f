"""`write: deduplicate`: the first record of each identity is its row, for ever (docs/decisions/0036).

First is the one that was published first. Of the records of one batch it is the one with the least timestamp, partition
and offset, in this order. All others are duplicates. Their rows are in no snapshot: they are taken out of the batch's
own files by the snapshot that adds these.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from frazil.model.ingested import FollowedRecords, WrittenFile
from frazil.modes.deletes import deleted_rows, figures_of
from frazil.modes.mode import BatchChange, Find, Late, Mode, Written
from frazil.modes.truncation import OutOfTable
from frazil.modes.wanted import Numbers, as_numbers
from frazil.proof.rows import prove_rows
from frazil.proof.tally import each_partition, sums_of


def keep_the_first(written: Written, find: Find) -> BatchChange:
    """Return the change that adds the first record of each identity that has no row yet.

    A file of which every row is a duplicate is not added.
    """
    records = [each.records for each in written.followed]
    later = _later(records, find)
    position = np.concatenate([np.empty(0, np.int64), *(np.arange(len(each)) for each in records)])[later]
    file = np.repeat(np.arange(len(records)), [len(each) for each in records])[later]
    paths = [each.path for each in written.followed]
    counts = {each.path: each.rows for each in written.files}
    deletes = [each for each in deleted_rows(paths, file, position) if len(each.positions) < counts[each.path]]
    files = tuple(_with_rows(written.files, paths, file))
    added = Written(files, sum(each.rows for each in files))
    late = _duplicates(_joined(each.partition for each in records)[later], _joined(e.offset for e in records)[later])
    return BatchChange(files, figures_of(added.rows, (), deletes), deletes, late=late)


DEDUPLICATE = Mode("deduplicate", change=keep_the_first, prove_rows=prove_rows)


def _later(records: list[FollowedRecords], find: Find) -> npt.NDArray[np.bool_]:
    """Return which records are not the first ones of their identities."""
    first, second = _joined(each.first for each in records), _joined(each.second for each in records)
    order = [_joined(each.order[number] for each in records) for number in range(_columns_of(records))]
    where = (_joined(each.offset for each in records), _joined(each.partition for each in records))
    ascending = _ascending(first, second, *order, *reversed(where))
    first, second = first[ascending], second[ascending]
    begins = np.ones(len(ascending), np.bool_)
    begins[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    is_new = np.ones(int(begins.sum()), np.bool_)
    for found in find(first[begins], second[begins]) if len(ascending) else ():
        is_new[as_numbers(found.place)] = False
    later = np.ones(len(ascending), np.bool_)
    later[ascending[begins][is_new]] = False
    return later


def _ascending(first: Numbers, *others: Numbers) -> Numbers:
    """Return the order of rows by all columns. Few have the same `first`: only those are sorted by the others."""
    order = np.argsort(first)
    is_equal = np.diff(first[order]) == 0
    tied = np.flatnonzero(np.append(is_equal, False) | np.insert(is_equal, 0, False)) if len(order) else order
    among = order[tied]
    order[tied] = among[np.lexsort([column[among] for column in (*reversed(others), first)])]
    return order


def _columns_of(records: list[FollowedRecords]) -> int:
    return len(records[0].order) if records else 0


def _with_rows(files: Iterable[WrittenFile], paths: list[str], gone: Numbers) -> Iterator[WrittenFile]:
    """Yield the files that keep a row; `gone` has the number of the file of each row that does not stay."""
    left_out = dict(zip(paths, np.bincount(gone, minlength=len(paths)).tolist(), strict=True))
    yield from (file for file in files if left_out[file.path] < file.rows)


def _duplicates(partition: Numbers, offset: Numbers) -> dict[int, Late]:
    parts = ((number, offset if where is None else offset[where]) for number, where in each_partition(partition))
    return {number: Late(OutOfTable(len(each), sums_of(each)), 0) for number, each in parts if len(each)}


def _joined(parts: Iterable[array[int]]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *map(as_numbers, parts)])
