"""The dead letters of a partition as a table has them: decrypted, and without those that a replay made rows of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.dead_letter_marks import (
    EPOCH_COLUMN,
    MARK_READ,
    LiveReplays,
    Source,
    has_marks,
    is_unmarked,
    marked_offsets,
)
from frazil.materialize.letter_encryption import decrypted_batch, key_id_of
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey
from frazil.model.snapshot import TableView
from frazil.proof.tally import TopicPartition

TEXT_KEYED_HEADERS = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
"""The headers of one record as a table has them: their keys are text."""

LETTER = pa.schema(
    [
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", TEXT_KEYED_HEADERS),
        ("reason", pa.string()),
        ("path", pa.string()),
        ("detail", pa.string()),
        ("schema_id", pa.int32()),
        ("schema_uuid", pa.string()),
        ("sealed_with", pa.string()),
        ("spoiled", pa.string()),
    ]
)
"""What is compared of a dead letter.

`sealed_with` is the id of the key that a letter is encrypted with, if it is not the configured one; `spoiled` says why
one cannot be decrypted with the configured key. The key, value and headers of both are still encrypted.
"""

_UUID = "schema_uuid"


@dataclass(frozen=True, slots=True)
class LetterScan:
    """A scan of dead letters that yields those that are no rows."""

    scan: TableScan
    key: NamedKey | None
    replayed: Mapping[Source, BitMap64] = field(default_factory=dict)

    def between(self, column: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield rows as `TableScan.between` does, with the columns of `LETTER` and `offset`."""
        for batch in self.scan.between(column, start, end):
            letters = batch.filter(pa.array(is_unmarked(batch, self.replayed)))
            yield _with_unread(*decrypted_batch(letters, self.key), self.key)


def _with_unread(letters: pa.RecordBatch, unread: Mapping[int, SettingError], key: NamedKey | None) -> pa.RecordBatch:
    """Add the columns that say why a letter is not decrypted, and the one that older tables lack."""
    if _UUID not in letters.schema.names:
        letters = letters.append_column(_UUID, pa.nulls(letters.num_rows, pa.string()))
    sealed_with: list[str | None] = [None] * letters.num_rows
    spoiled = list(sealed_with)
    for index, problem in unread.items():
        key_id = key_id_of(letters.column("detail")[index].as_py())
        if key is not None and key_id == key.id:
            spoiled[index] = problem.what
        else:
            sealed_with[index] = key_id
    letters = letters.append_column("sealed_with", pa.array(sealed_with, pa.string()))
    return letters.append_column("spoiled", pa.array(spoiled, pa.string()))


def dead_letter_scan(
    view: TableView, where: TopicPartition, *, generation: int, rows_uuid: str, snapshot_id: int | None
) -> TableScan:
    """The dead letters of a partition and their marks, without fields that others added to their headers."""
    source = ("table_uuid", "topic", "generation", "partition", "offset", *((EPOCH_COLUMN,) if has_marks(view) else ()))
    record = ("timestamp", "key", "value", "headers.element.key", "headers.element.value", "detail")
    uuid = (_UUID,) if any(column.name == _UUID for column in view.columns) else ()
    judged = ("reason", "path", "schema_id", *uuid)
    equal = {"table_uuid": rows_uuid, "topic": where[0], "generation": generation, "partition": where[1]}
    return TableScan(view, columns=(*source, *record, *judged), equal=equal, snapshot_id=snapshot_id)


def replayed_offsets(
    view: TableView,
    where: TopicPartition,
    *,
    generation: int,
    rows_uuid: str,
    snapshot_id: int | None,
    replays: LiveReplays,
) -> Mapping[Source, BitMap64]:
    """The dead letters of a partition that a replay made rows of."""
    if not has_marks(view):
        return {}
    equal = {"table_uuid": rows_uuid, "topic": where[0], "generation": generation, "partition": where[1]}
    scan = TableScan(view, columns=MARK_READ, equal=equal, present=(EPOCH_COLUMN,), snapshot_id=snapshot_id)
    return marked_offsets(scan.slices(), replays)
