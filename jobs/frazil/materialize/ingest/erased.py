"""Records that were erased from the table: those that are read again do not bring a value or a dead letter back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import NO_INDEXES, Indexes
from frazil.formats.masks.erased import erased_key
from frazil.formats.masks.hashes import hashed
from frazil.materialize.schema.former_names import FormerNames, present_path
from frazil.model.erasures import ErasedHash, erased_hashes, erased_letters
from frazil.model.secret import NamedKey
from frazil.modes.identified import value_at


class ErasedRecords:
    """Finds them among the rows of one table, whose columns may have had other names when a value was erased.

    `properties` are the table's. `generations` are those of the topics. `key` is that of all hashes; None if no record
    can have been read before.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        key: NamedKey | None,
        *,
        columns: pa.Schema,
        former_names: FormerNames,
        generations: Mapping[str, int],
    ) -> None:
        self._generations = generations
        self._key = None if key is None else erased_key(key)
        self._hashes: dict[str, list[ErasedHash]] = {}
        self._letters = erased_letters(properties)
        for each in () if key is None else erased_hashes(properties):
            for path in {present_path(name, former_names) for name in (each.column, *each.former)}:
                if _can_hold(columns, path):
                    self._hashes.setdefault(path, []).append(each)

    @property
    def has_any(self) -> bool:
        """Return whether records of this task can have been erased."""
        return bool(self._hashes or self._letters)

    def among(self, topic: str, partition: int, rows: pa.RecordBatch, offsets: Indexes) -> Indexes:
        """Return the places of the rows that have such a value, ascending; `offsets` are those of the rows."""
        if self._key is None or not len(offsets):
            return NO_INDEXES
        found = np.zeros(len(offsets), np.bool_)
        for path, hashes in self._hashes.items():
            ends: dict[str, int] = {}
            for each in hashes:  # a value may have been erased by a former name of the column, too
                end = each.end(topic, self._generations.get(topic, 0), partition)
                if end > offsets[0]:
                    ends[each.hash] = max(end, ends.get(each.hash, 0))
            if ends:
                found |= self._has_one(value_at(rows, path), offsets, ends)
        return np.flatnonzero(found)

    def letters_among(self, topic: str, partition: int, offsets: Indexes) -> Indexes:
        """Return the places of the records that were dead letters and were erased, ascending."""
        erasures = self._letters.get((topic, self._generations.get(topic, 0), partition), ())
        found = np.zeros(len(offsets), np.bool_)
        for spans in erasures if len(offsets) else ():
            bounds = np.array(spans, np.int64).ravel()  # first, end, first, end: between them is an odd place
            found |= np.searchsorted(bounds, offsets, side="right") % 2 == 1
        return np.flatnonzero(found)

    def _has_one(self, values: pa.Array, offsets: Indexes, ends: Mapping[str, int]) -> npt.NDArray[np.bool_]:
        assert self._key is not None  # noqa: S101 - there are hashes
        places = pc.index_in(hashed(values, self._key), pa.array(list(ends), pa.large_string()))
        is_before = offsets < np.array(list(ends.values()), np.int64)[places.fill_null(0).to_numpy()]
        is_one: npt.NDArray[np.bool_] = places.is_valid().to_numpy(zero_copy_only=False).copy()
        is_one &= is_before
        return is_one


def _can_hold(columns: pa.Schema, path: str) -> bool:
    """Return whether a column has texts or whole numbers now, as all have from which values are erased."""
    fields = {field.name: field for field in columns}
    *around, last = path.split(".")
    for name in around:
        kind = fields[name].type if name in fields else pa.null()
        fields = {field.name: field for field in kind.fields} if pa.types.is_struct(kind) else {}
    kind = fields[last].type if last in fields else pa.null()
    return any(is_one(kind) for is_one in (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string))
