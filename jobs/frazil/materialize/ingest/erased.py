"""Records whose row has a value that was erased from the table: those that are read again do not bring it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import NO_INDEXES, Indexes
from frazil.formats.masks.erased import erased_key
from frazil.formats.masks.hashes import hashed
from frazil.materialize.schema.former_names import FormerNames, present_path
from frazil.model.erasures import ErasedHash
from frazil.model.secret import NamedKey
from frazil.modes.identified import value_at


class ErasedRecords:
    """Finds them among the rows of one table, whose columns may have had other names when a value was erased.

    `generations` are those of the topics. `key` is that of all `hashes`; None if no record can have been read before.
    """

    def __init__(
        self,
        hashes: Sequence[ErasedHash],
        key: NamedKey | None,
        *,
        columns: pa.Schema,
        former_names: FormerNames,
        generations: Mapping[str, int],
    ) -> None:
        self._generations = generations
        self._key = None if key is None else erased_key(key)
        self._hashes: dict[str, list[ErasedHash]] = {}
        for each in () if key is None else hashes:
            path = present_path(each.column, former_names)
            if _can_hold(columns, path):
                self._hashes.setdefault(path, []).append(each)

    def among(self, topic: str, partition: int, rows: pa.RecordBatch, offsets: Indexes) -> Indexes:
        """Return the places of the rows that have such a value, ascending; `offsets` are those of the rows."""
        if self._key is None or not len(offsets):
            return NO_INDEXES
        found = np.zeros(len(offsets), np.bool_)
        for path, hashes in self._hashes.items():
            ends = {each.hash: each.end(topic, self._generations.get(topic, 0), partition) for each in hashes}
            ends = {text: end for text, end in ends.items() if end > offsets[0]}
            if ends:
                found |= self._has_one(value_at(rows, path), offsets, ends)
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
