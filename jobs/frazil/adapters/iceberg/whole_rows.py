"""Whole rows of a table's data files, of any schema that it had, as they are to be written now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from frazil.adapters.iceberg.deleted_positions import DeletedPositions
from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.probe import NAME_MAPPING
from frazil.adapters.iceberg.rows_at import rows_at, rows_without
from frazil.adapters.iceberg.scan import reading
from frazil.formats.arrow import project
from frazil.materialize.ingest.storage import open_storage
from frazil.materialize.ingest.stored_schema import iceberg_schema
from frazil.model.ingested import WriteTarget
from frazil.model.probe import StoredFile
from frazil.model.secret import SettingValue
from frazil.modes.wanted import Numbers


@dataclass(frozen=True, slots=True)
class WholeRows:
    """The data files of a table, with the schema and the name mapping that the table has now."""

    identifier: str
    io: FileIO
    schema: Schema
    mapping: NameMapping | None

    @classmethod
    def of(cls, target: WriteTarget, storage: Mapping[str, SettingValue]) -> WholeRows:
        mapping = target.properties.get(NAME_MAPPING)
        return cls(
            target.identifier,
            open_storage(storage, target.location, table_properties=target.properties),
            iceberg_schema(target.schema_json),
            None if mapping is None else parse_mapping_from_json(mapping),
        )

    def read(
        self, paths: Sequence[str], file: Numbers, position: Numbers, projection: Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these places, which are in ascending order; `file` has numbers of `paths`."""
        numbers, starts = np.unique(file, return_index=True)
        for number, positions in zip(numbers.tolist(), np.split(position, starts[1:]), strict=False):
            rows = rows_at(self.io, paths[number], positions, projection, self.mapping)
            yield from self._as_written(rows, projection)

    def deleted_in(self, file: StoredFile) -> Positions:
        """Return the positions of a file's deleted rows, ascending. Raises CatalogError."""
        with reading(self.identifier):
            return DeletedPositions(self.io, file).all

    def read_without(self, path: str, deleted: Positions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that are not at these ascending positions."""
        yield from self._as_written(rows_without(self.io, path, deleted, self.schema, self.mapping), self.schema)

    def read_only(self, path: str, positions: Positions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that are at these ascending positions."""
        yield from self._as_written(rows_at(self.io, path, positions, self.schema, self.mapping), self.schema)

    def _as_written(self, rows: Iterator[pa.RecordBatch], projection: Schema) -> Iterator[pa.RecordBatch]:
        types = schema_to_pyarrow(projection)
        with reading(self.identifier):
            for batch in rows:
                yield project(batch, types)
