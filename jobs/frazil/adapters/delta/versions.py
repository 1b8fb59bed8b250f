"""What the versions of a Delta log removed, from their JSON files: delta-rs has no interface for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from pyiceberg.io import FileIO, load_file_io

from frazil.model.delta import Removals
from frazil.model.secret import SettingValue, revealed

READ_AT_ONCE = 16


def removals(storage: Mapping[str, SettingValue], location: str, newest: int) -> Iterator[Removals]:
    """Yield what each version removed, newest first, down to the first one whose file is gone.

    Versions are read as they are taken, some at once.
    """
    folder = f"{location.rstrip('/')}/_delta_log"
    io = load_file_io(dict(revealed(storage)), location)
    numbers = range(newest, -1, -1)
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        for start in range(0, len(numbers), READ_AT_ONCE):
            for found in pool.map(lambda n: _of_version(io, f"{folder}/{n:020}.json"), numbers[start:][:READ_AT_ONCE]):
                if found is None:
                    return
                yield found


def _of_version(io: FileIO, path: str) -> Removals | None:
    """Return None if the version was deleted: versions are, once a checkpoint has them."""
    try:
        with io.new_input(path).open() as stream:
            actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
    except FileNotFoundError:
        return None
    removed = tuple(unquote(each["remove"]["path"]) for each in actions if "remove" in each)
    return Removals(_committed_at(actions), removed)


def _committed_at(actions: list[Any]) -> datetime:
    """Return the time that the version states; one that states none counts as recent."""
    said = [each["commitInfo"].get("timestamp") for each in actions if "commitInfo" in each]
    stated = next((each for each in said if each is not None), None)
    return datetime.max.replace(tzinfo=UTC) if stated is None else datetime.fromtimestamp(stated / 1000, UTC)
