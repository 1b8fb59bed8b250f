"""Files of position deletes, one for each data file (Iceberg specification, "Position Delete Files", format version 2).

Each has the partition spec and the partition of its data file, and bounds that name only this file: a reader opens no
others for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestWriterV2,
)

from frazil.model.errors import CommitRejectedError
from frazil.model.ingested import DeletedRows

PATH_ID, POSITION_ID = 2_147_483_546, 2_147_483_545
"""The ids that the specification reserves for the two columns."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)

_OPTIONS = {"compression": "zstd", "store_schema": False, "use_dictionary": ["file_path"]}
"""A dictionary of positions, none of which occurs twice, would only add bytes."""


class DeleteManifestWriter(ManifestWriterV2):
    """A manifest of delete files; PyIceberg writes manifests of data files only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def names_one_file(deletes: DataFile) -> bool:
    """Return whether a file of position deletes names rows of one data file only, by its bounds."""
    lower, upper = ((bounds or {}).get(PATH_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return lower is not None and lower == upper


def files_named(
    io: FileIO, deletes: Sequence[DeletedRows], added: Iterable[DataFile], manifests: Iterable[ManifestFile]
) -> dict[str, DataFile]:
    """Return the data files that lose rows: among those that are added, else among the live ones.

    Raises CommitRejectedError if one is neither: another commit has rewritten or dropped it.
    """
    wanted = {each.path for each in deletes}
    found = {file.file_path: file for file in added if file.file_path in wanted}
    for manifest in manifests:
        if len(found) == len(wanted):
            break
        if manifest.content == ManifestContent.DATA:
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            found.update((e.data_file.file_path, e.data_file) for e in entries if e.data_file.file_path in wanted)
    missing = sorted(wanted - found.keys())
    if missing:
        raise CommitRejectedError(f"rows are deleted in {missing[0]}, which is no data file of the table any more")
    return found


def write_deletes(io: FileIO, path: str, deleted: DeletedRows, of: DataFile) -> DataFile:
    """Write the file of deletes `path`. Raises ValueError for positions that the data file does not have."""
    positions = np.asarray(deleted.positions, np.int64)
    if not len(positions) or positions[0] < 0 or positions[-1] >= of.record_count or np.any(np.diff(positions) < 1):
        raise ValueError(f"positions in {of.file_path} are not ascending within its {of.record_count} rows")
    names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [of.file_path]).cast(pa.string())
    output = io.new_output(path)
    with output.create() as stream, pq.ParquetWriter(stream, _SCHEMA, **_OPTIONS) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([names, pa.array(positions)], schema=_SCHEMA))
    return _delete_file(path, len(output), positions, of)


def _delete_file(path: str, size: int, positions: np.typing.NDArray[np.int64], of: DataFile) -> DataFile:
    name, rows = of.file_path.encode(), len(positions)
    made = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=of.partition,
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes=None,
        value_counts={PATH_ID: rows, POSITION_ID: rows},
        null_value_counts={PATH_ID: 0, POSITION_ID: 0},
        nan_value_counts=None,
        lower_bounds={PATH_ID: name, POSITION_ID: struct.pack("<q", positions[0])},
        upper_bounds={PATH_ID: name, POSITION_ID: struct.pack("<q", positions[-1])},
        split_offsets=None,
        key_metadata=None,
        equality_ids=None,
        sort_order_id=None,
    )
    made.spec_id = of.spec_id
    return made
