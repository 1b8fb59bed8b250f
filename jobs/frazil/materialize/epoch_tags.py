"""Tags of the last epochs of tables that publish equal ranges, for reads of one moment (docs/decisions/0044)."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

EPOCH_PREFIX = "frazil_epoch_"
"""The prefix of the tags, followed by the number of the epoch."""

KEPT = 100
"""So many epochs have a tag, which keeps their snapshots from expiry."""


def has_epoch_tags(spec: TableSpec) -> bool:
    """Return whether the epochs of the table have tags: those of a group with shapes have the same records."""
    return spec.group is not None and spec.group.has_shapes


def epoch_tag(epoch: int) -> str:
    return f"{EPOCH_PREFIX}{epoch}"


def outdated(view: TableView, epoch: int) -> Iterator[str]:
    """Yield the tags to drop when an epoch is published: old ones, and after a rollback those of lost epochs."""
    for name in view.tags:
        number = name.removeprefix(EPOCH_PREFIX)
        if number != name and number.isdecimal() and not epoch - KEPT < int(number) <= epoch:
            yield name
