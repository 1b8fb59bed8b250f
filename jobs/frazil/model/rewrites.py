"""Data files that are to be written again without their deleted rows (docs/decisions/0042)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.model.ingested import WriteTarget, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.secret import SettingValue


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Files that one task writes again, into files of about `target_bytes` whose names begin with `prefix`.

    Rows are put in the z-order of columns, if any are given.
    """

    target: WriteTarget
    files: Sequence[StoredFile]
    prefix: str
    target_bytes: int
    storage: Mapping[str, SettingValue]
    z_order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a task wrote, and how many rows it left out because they are deleted."""

    files: Sequence[WrittenFile]
    deleted: int
