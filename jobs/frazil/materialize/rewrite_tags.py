"""Tags of snapshots in which files were written again: no expiry may break the chain from `main` to the state."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.snapshot import TableView

REWRITE_PREFIX = "frazil_rewrite_"
"""The prefix of the tags, followed by the id of the snapshot. It has no state: that is in one before it."""


def rewrite_tags(view: TableView) -> Iterator[str]:
    """Yield the tags to drop when a batch is published, which has the state itself."""
    return (name for name in view.tags if name.startswith(REWRITE_PREFIX))
