"""Stacks that are written once for each configuration of a run: tests of one configuration read copies of them."""

from __future__ import annotations

import atexit
import functools
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from infra import app
from infra.app import EXPORTS, TABLES, Purpose
from infra.artefacts.artefact import Artefacts
from infra.components.key_rotation import NOT_PACKED, Code
from infra.settings.model import EnvironmentSettings

_kept: dict[str, tuple[tuple[str, ...], Path]] = {}
"""The names of the stacks and the folder that they are in."""


def build(
    settings: EnvironmentSettings,
    out: Path,
    artefacts: Artefacts | None,
    *,
    tables: Path = TABLES,
    listed: Collection[str] | None = None,
    code: Code = NOT_PACKED,
    purpose: Purpose = "apply",
) -> tuple[str, ...]:
    """Do what `infra.app.build` does; stacks of the same configuration are copies. What it refuses is not kept."""
    specs = [_texts(folder) for folder in (tables, tables.with_name("transforms"), EXPORTS)]
    tables_in_glue = None if listed is None else sorted(listed)
    key = repr((replace(settings, source_file=""), artefacts, specs, tables_in_glue, code, purpose))
    if key not in _kept:
        there = _folder() / str(len(_kept))
        shutil.rmtree(there, ignore_errors=True)  # of a configuration that was refused
        names = app.build(settings, there, artefacts, tables=tables, listed=listed, code=code, purpose=purpose)
        _kept[key] = (names, there)
    names, kept = _kept[key]
    shutil.copytree(kept, out, dirs_exist_ok=True)
    return names


@functools.cache
def _folder() -> Path:
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _texts(folder: Path) -> list[tuple[str, bytes]]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return [(str(file.relative_to(folder)), file.read_bytes()) for file in files]
