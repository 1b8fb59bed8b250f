"""Merged groups take the place of the stored rows that they were merged with."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import numpy as np

from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.materialize.ingest.distribute import write_target
from frazil.model.probe import FoundRows
from frazil.model.secret import SettingValue
from frazil.model.snapshot import TableView
from frazil.modes.deletes import deletions, figures_of
from frazil.modes.mode import BatchChange
from frazil.modes.wanted import as_array
from frazil.transforms.queries import MergedGroups


def replaced_groups(target: TableView, storage: Mapping[str, SettingValue], groups: MergedGroups) -> BatchChange:
    """Return the change that adds the merged groups and takes the stored ones out, in one snapshot.

    Raises CatalogError if files of deletes cannot be read.
    """
    found = list(_found(target, storage, groups))
    numbers = {number: place for place, number in enumerate(np.unique(groups.file).tolist())}
    file = np.array([numbers[n] for n in groups.file.tolist()], np.int64)
    deletes = list(deletions(found, file, groups.position))
    rows = sum(each.rows for each in groups.files)
    return BatchChange(groups.files, figures_of(rows, found, deletes), deletes)


def _found(target: TableView, storage: Mapping[str, SettingValue], groups: MergedGroups) -> Iterator[FoundRows]:
    """Yield the files that lose rows, with what is deleted in them already if their deletes become one file."""
    whole = WholeRows.of(write_target(target), storage)
    for number in np.unique(groups.file).tolist():
        file = groups.stored[number]
        deleted = as_array(whole.deleted_in(file)) if file.is_crowded else array("q")
        none = array("q")
        yield FoundRows(file, file.left, deleted, position=none, place=none, partition=none, offset=none)
