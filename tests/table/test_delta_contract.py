"""The contract of `ports.DeltaLogs`: the adapter and its twin in memory pass the same tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.model.delta import AddFile, BeginLog, DeltaMetadata, ExtendLog, LoggedFile, LogWrite, RemoveFile, ReplaceLog
from frazil.model.errors import CommitRejectedError
from frazil.ports import DeltaLogs
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

VENUE = Field("venue", PrimitiveType("string"), metadata={"frazil.fieldId": 2})
NARROW = Schema([Field("n", PrimitiveType("long"), metadata={"frazil.fieldId": 1})])
ONE = DeltaMetadata(NARROW.to_json())
TWO = DeltaMetadata(Schema([*NARROW.fields, VENUE]).to_json())
BEGIN = BeginLog(7, ONE, (AddFile("data/a", 1, 1, "{}"),))
EXTEND = ExtendLog(8, 0, ONE, (AddFile("data/b", 2, 1, "{}"),), (RemoveFile("data/a", 1, 1),))


@pytest.fixture(params=[DeltaLogsInMemory, lambda: DeltaRsLogs({})], ids=["in memory", "real"])
def logs(request: pytest.FixtureRequest) -> DeltaLogs:
    made: DeltaLogs = request.param()
    return made


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "trades")


def test_there_is_none_before_it_is_begun(logs: DeltaLogs, location: str) -> None:
    assert logs.read(location) is None


@pytest.mark.parametrize(
    ("write", "files"),
    [
        (BEGIN, ()),
        (EXTEND, (LoggedFile("data/b", 2),)),
        (ExtendLog(8, 0, TWO, (), (), (VENUE.to_json(),)), (LoggedFile("data/a", 1),)),
        (ReplaceLog(8, 0, TWO, (AddFile("data/c", 3, 1, "{}"),)), (LoggedFile("data/c", 3),)),
    ],
    ids=["begin", "extend", "new columns", "replace"],
)
def test_what_is_written_is_read(
    logs: DeltaLogs, location: str, write: LogWrite, files: tuple[LoggedFile, ...]
) -> None:
    logs.write(location, BEGIN)
    if write is not BEGIN:
        logs.write(location, write)

    log = logs.read(location)

    assert log is not None
    assert (log.version, log.snapshot_id) == (write.version, write.snapshot_id)
    assert log.files == (files or (LoggedFile("data/a", 1),))
    assert Schema.from_json(log.metadata.schema) == Schema.from_json(write.metadata.schema)


@pytest.mark.parametrize("late", [BEGIN, EXTEND], ids=["begin", "extend"])
def test_a_version_that_is_there_is_never_written_again(logs: DeltaLogs, location: str, late: LogWrite) -> None:
    logs.write(location, BEGIN)
    logs.write(location, EXTEND)

    with pytest.raises(CommitRejectedError):
        logs.write(location, late)

    log = logs.read(location)
    assert log is not None
    assert (log.version, log.snapshot_id) == (1, 8)


@pytest.mark.parametrize(
    "path", ["data/p=a+b%2Fc/f.parquet", "data/a b#c?d.parquet", "data/ä日😀.parquet", "data/100%/*[x]{y}'\".parquet"]
)
def test_any_path_is_read_as_it_was_written_and_can_be_removed(logs: DeltaLogs, location: str, path: str) -> None:
    logs.write(location, BeginLog(7, ONE, (AddFile(path, 1, 1, "{}"), AddFile("data/a", 2, 1, "{}"))))
    begun = logs.read(location)
    logs.write(location, ExtendLog(8, 0, ONE, (), (RemoveFile(path, 1, 1),)))
    extended = logs.read(location)

    assert begun is not None
    assert extended is not None
    assert set(begun.files) == {LoggedFile(path, 1), LoggedFile("data/a", 2)}
    assert extended.files == (LoggedFile("data/a", 2),)
    assert logs.removed(location) == {path}


def test_each_version_says_what_it_removed_newest_first(logs: DeltaLogs, location: str) -> None:
    again = RemoveFile("data/b 100%", 2, 1)
    logs.write(location, BEGIN)
    logs.write(location, ExtendLog(8, 0, ONE, (AddFile(again.path, 2, 1, "{}"),), (RemoveFile("data/a", 1, 1),)))
    logs.write(location, ExtendLog(9, 1, ONE, (AddFile("data/c", 2, 1, "{}"),), (again,)))
    logs.write(location, ReplaceLog(10, 2, TWO, (AddFile("data/d", 3, 1, "{}"),)))

    assert [each.paths for each in logs.removals(location, newest=3)] == [("data/c",), (again.path,), ("data/a",), ()]
    assert [each.paths for each in logs.removals(location, newest=1)] == [("data/a",), ()]


def test_what_any_version_removed_is_known_but_for_what_was_added_again(logs: DeltaLogs, location: str) -> None:
    before = logs.removed(location)
    logs.write(location, BEGIN)
    for number in range(1, 13):  # also in a checkpoint
        add = AddFile(f"data/{number}", 1, 1, "{}")
        remove = (RemoveFile("data/a", 1, 1),) if number == 1 else ()
        logs.write(location, ExtendLog(7 + number, number - 1, ONE, (add,), remove))
    gone = logs.removed(location)
    logs.write(location, ExtendLog(20, 12, ONE, (AddFile("data/a", 1, 1, "{}"),), (RemoveFile("data/3", 1, 1),)))

    assert (before, gone, logs.removed(location)) == (frozenset(), {"data/a"}, {"data/3"})


def test_a_path_that_another_writer_encoded_differently_is_told_apart(location: str) -> None:
    logs = DeltaRsLogs({})
    logs.write(location, BEGIN)
    add = {"path": "data/%7Ea", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    version = Path(location) / "_delta_log" / f"{1:020}.json"
    version.write_text(json.dumps({"add": add}) + "\n")

    log = logs.read(location)

    assert log is not None
    assert set(log.files) == {LoggedFile("data/a", 1), LoggedFile("data/~a", 1, is_removable=False)}
