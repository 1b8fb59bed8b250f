"""What the versions of a Delta log removed, from their JSON files: delta-rs has no interface for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyiceberg.io import FileIO, load_file_io

from frazil.adapters.iceberg.expiry import delete_files
from frazil.adapters.iceberg.listing import list_objects
from frazil.model.delta import Removals
from frazil.model.errors import CatalogError
from frazil.model.secret import SettingValue, revealed
from frazil.model.spelling import plural

READ_AT_ONCE = 16
NUMBERED = re.compile(r"([0-9]{20})[.].*")
"""The name of a version, or of a checkpoint or a part of one, which begins with the version."""


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


def delete_before(storage: Mapping[str, SettingValue], location: str, version: int) -> None:
    """Delete the files of all versions before one, and their checkpoints. Raises CatalogError if any is left."""
    folder = f"{location.rstrip('/')}/_delta_log"
    io = load_file_io(dict(revealed(storage)), location)
    found = (NUMBERED.fullmatch(each.address.rpartition("/")[2]) for each in list_objects(io, folder))
    earlier = [f"{folder}/{each[0]}" for each in found if each is not None and int(each[1]) < version]
    deleted = delete_files(io, earlier, [])
    if deleted.left:
        raise CatalogError(
            f"{plural(deleted.left, 'file')} of the Delta log of {location} could not be deleted:"
            f" {', '.join(deleted.problems)}",
            hint="check the permissions, and run the command again",
        )


def _of_version(io: FileIO, path: str) -> Removals | None:
    """Return None if the version was deleted: versions are, once a checkpoint has them."""
    try:
        with io.new_input(path).open() as stream:
            actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
            written_at = _written_at(stream, path)
    except FileNotFoundError:
        return None
    removed = tuple(unquote(each["remove"]["path"]) for each in actions if "remove" in each)
    times = [each for each in (_stated(actions), written_at) if each is not None]
    return Removals(max(times, default=datetime.max.replace(tzinfo=UTC)), removed)


def _stated(actions: list[Any]) -> datetime | None:
    """Return the time that the version states, by the clock of its writer."""
    said = [each["commitInfo"].get("timestamp") for each in actions if "commitInfo" in each]
    stated = next((each for each in said if each is not None), None)
    return None if stated is None else datetime.fromtimestamp(stated / 1000, UTC)


def _written_at(stream: Any, path: str) -> datetime | None:
    """Return when the storage wrote the file that is open, without another request."""
    said: bytes | None = stream.metadata().get("Last-Modified")
    if said is not None:
        return datetime.fromisoformat(said.decode())
    local = path.removeprefix("file://")
    return None if "://" in local else datetime.fromtimestamp(Path(local).stat().st_mtime, UTC)
