"""Write data files again without their deleted rows, in one task (docs/decisions/0042)."""

from __future__ import annotations

from frazil.adapters.iceberg.nested_values import keep_nested_values
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.rewrites import RewriteTask, Rewritten

SORTED_BYTES = 256 << 20
"""Rows of several files that are sorted together, in memory. To sort them, the task needs as much again."""


def rewrite_files(task: RewriteTask) -> Rewritten:
    """Return the files of the rows that are left. Raises CatalogError where files cannot be read."""
    keep_nested_values()
    written = DataFileWriter(
        task.target,
        storage=task.storage,
        prefix=task.prefix,
        target_bytes=task.target_bytes,
        sorted_bytes=SORTED_BYTES,
        z_order=task.z_order,
    )
    source = WholeRows.of(task.target, task.storage)
    deleted = 0
    for file in task.files:
        positions = source.deleted_in(file)
        deleted += len(positions)
        for rows in source.read_without(file.path, positions):
            written.add(rows)
    return Rewritten(written.close(), deleted)
