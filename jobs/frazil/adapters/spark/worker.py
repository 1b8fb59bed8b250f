"""The process of a task, with clients that are opened once and kept for later tasks."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark import TaskContext as SparkTask

from frazil.adapters.allocators import peak_given_back
from frazil.adapters.iceberg.probe import probe
from frazil.adapters.iceberg.rewrite_files import rewrite_files
from frazil.adapters.iceberg.update_rows import update_rows
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.registry import Registry, open_registry
from frazil.adapters.spark.task_progress import FOLDER_PROPERTY, CountingReader
from frazil.formats.native import native_available
from frazil.materialize.ingest.task import ingest
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.model.updates import UpdateTask
from frazil.ports import RecordReader

_Key = tuple[tuple[str, SettingValue], ...]

_readers: dict[_Key, KafkaReader] = {}
_registries: dict[_Key, Registry] = {}
"""The last one opened of each: what was opened with a secret that has changed since is closed.

A reader is also closed after a failure: its connections may be what failed.
"""


def run(task: IngestTask) -> TaskResult | FrazilError:
    """Carry out one task. A named failure is a value, so that it reaches the driver as it is."""
    trim()
    context = task.context
    reader = _reader(context.kafka)
    try:
        return ingest(task, reader=_counted(reader), registry=_registry(context.registry))
    except FrazilError as failure:
        _close_all(_readers)
        return failure


def find(task: ProbeTask) -> list[FoundRows] | FrazilError:
    """Search files for rows. A named failure is a value, as in `run`."""
    trim()
    try:
        return probe(task)
    except FrazilError as failure:
        return failure


def update(task: UpdateTask) -> list[WrittenFile] | FrazilError:
    """Write rows anew. A named failure is a value, as in `run`."""
    trim()
    try:
        with peak_given_back():
            return update_rows(task)
    except FrazilError as failure:
        return failure


def rewrite(task: RewriteTask) -> Rewritten | FrazilError:
    """Write files again without their deleted rows. A named failure is a value, as in `run`."""
    trim()
    try:
        with peak_given_back():
            return rewrite_files(task)
    except FrazilError as failure:
        return failure


def describe_worker(_: object) -> tuple[str, bool]:
    """Return the name of this machine, and whether it has the native decoder. That it imports is what is checked."""
    return socket.gethostname(), native_available()


def _counted(reader: RecordReader) -> RecordReader:
    """The reader, with its progress where the driver asks for it."""
    context = SparkTask.get()
    folder = None if context is None else context.getLocalProperty(FOLDER_PROPERTY)
    if context is None or folder is None:
        return reader
    return CountingReader(reader, Path(folder) / str(context.taskAttemptId()))


def _reader(settings: Mapping[str, SettingValue]) -> KafkaReader:
    key = _key(settings)
    if key not in _readers:
        _close_all(_readers)
        _readers[key] = KafkaReader(settings)
    return _readers[key]


def _registry(settings: RegistrySettings | None) -> Registry:
    key = () if settings is None else _key({"url": settings.url, **_glue(settings), **settings.properties})
    if key not in _registries:
        _close_all(_registries)
        _registries[key] = open_registry(settings)
    return _registries[key]


def _glue(settings: RegistrySettings) -> Mapping[str, str]:
    return {} if settings.glue is None else {"registry_name": settings.glue.registry_name}


def _close_all(opened: dict[_Key, KafkaReader] | dict[_Key, Registry]) -> None:
    while opened:
        opened.popitem()[1].close()


def _key(settings: Mapping[str, SettingValue]) -> _Key:
    return tuple(sorted(settings.items(), key=lambda item: item[0]))


def trim() -> None:
    """Spark's worker re-reads `pyspark.zip` before each task and collects garbage after it, 0.1 s of CPU in all.

    What was imported so far is frozen, and the zip's importers are forgotten, so that both find nothing to do.
    """
    for path in [path for path in sys.path_importer_cache if ".zip" in path]:
        del sys.path_importer_cache[path]
    _freeze()


@cache
def _freeze() -> None:
    """Freeze once in a process and those forked from it; asking for the count of what is frozen takes 10 ms a task."""
    gc.collect()
    gc.freeze()
