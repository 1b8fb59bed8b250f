"""Exports of a table: windows, late rows, corrections, and what is left where a run ended early."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.storage.export_folder import ExportFolder
from frazil.cli.export import lines
from frazil.exports.checks import problems
from frazil.exports.editions import INCREMENTS, Editions
from frazil.exports.manifest import Manifest, written
from frazil.exports.perform import Export, Exported, always
from frazil.exports.periods import last_period, period_between
from frazil.maintain.expire import expiry_of
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import ContendedError, ExportError, FormatVersionError, Misuse
from frazil.model.exports import EXPORT_TAG, ExportSpec, ExportWindow, Period
from frazil.model.progress import TableState
from frazil.model.spec import KeepSnapshots
from frazil.model.transforms import TransformSpec
from frazil.transforms.commit import keep_from
from frazil.transforms.unread import head_position
from tests.table.small_lake import Read, SmallLake

MONDAY = datetime(2026, 2, 9, 6, tzinfo=UTC)
WEEKLY = ExportWindow("kafka_timestamp", "week", "UTC")
WEEK = last_period(WEEKLY, MONDAY)
IN_WEEK = sorted({(0, n) for n in range(36, 100) if n != 50} | {(1, n) for n in range(36, 50)})
"""The rows of the small lake in ISO week 6: row n is of the hour n after noon of January 31."""

Write = Callable[..., Exported]


@pytest.fixture
def spec(tmp_path: Path) -> ExportSpec:
    return ExportSpec("exports/weekly.yaml", "weekly", "lake.orders", str(tmp_path / "out"), WEEKLY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out" / "weekly" / "2026-W06"


def run(lake: SmallLake, spec: ExportSpec, period: Period | None = WEEK, **more: Any) -> Exported:
    def open_folder(address: str) -> ExportFolder:
        return ExportFolder(lake.lake.storage, address)

    return Export(spec, lake.lake, open_folder, **{"now": lambda: MONDAY, **more}).run(period)


def with_next_of(before: TableState) -> Callable[[TableState], TableState]:
    """Return a change of a state that gives it the next offsets of the state before: nothing was read."""

    def change(state: TableState) -> TableState:
        (source,), (was,) = state.sources, before.sources
        partitions = {n: replace(p, next=was.partitions[n].next) for n, p in source.partitions.items()}
        return replace(state, sources=(replace(source, partitions=partitions),))

    return change


def tags_of(lake: SmallLake) -> dict[str, int]:
    """Return the tags of exports, with their snapshots."""
    return {tag: at for tag, at in lake.view.tags.items() if tag.startswith(EXPORT_TAG)}


def rows_in(folder: Path, manifest: Manifest | None) -> list[tuple[int, int]]:
    """Return the partition and offset of each row in the CSV files of a manifest, which must have the right hash."""
    assert manifest is not None
    found = []
    for part in manifest.parts:
        content = (folder / part.name).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (part.sha256, part.bytes)
        rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
        assert len(rows) == part.rows
        found += [(int(row["kafka_partition"]), int(row["kafka_offset"])) for row in rows]
    assert len(found) == manifest.rows
    return sorted(found)


def test_an_export_has_the_rows_of_its_week(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    done = run(lake, spec)

    assert rows_in(folder, done.written) == IN_WEEK
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "weekly_2026-W06_part_1.csv"]
    assert done.finished[0].snapshot_id == lake.view.head
    assert tags_of(lake) == {done.finished[0].tag: lake.view.head}
    assert done.finished[0].tag.startswith("frazil_export_weekly_2026-W06_0_")


def test_a_repeated_window_is_not_written_again(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    first = run(lake, spec)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    again = run(lake, spec)

    assert again.written is None
    assert again.finished == first.finished
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_rows_that_come_late_are_a_numbered_correction(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    run(lake, spec)
    lake.batch(Read("orders", 1, 50, 60))
    first = run(lake, spec)
    lake.batch(Read("orders", 2, 40, 42))
    second = run(lake, spec)
    again = run(lake, spec)

    assert rows_in(folder, first.written) == [(1, n) for n in range(50, 60)]
    assert rows_in(folder, second.written) == [(2, 40), (2, 41)]
    assert [each.contents for each in again.finished] == ["all rows", "late rows", "late rows"]
    assert again.written is None
    assert (folder / "weekly_2026-W06_correction_2_part_1.csv").exists()


def test_later_rows_of_other_weeks_are_no_correction(lake: SmallLake, spec: ExportSpec) -> None:
    run(lake, spec)
    lake.batch(Read("orders", 0, 300, 320))

    done = run(lake, spec)

    assert (done.written, len(done.finished)) == (None, 1)
    assert [*tags_of(lake)] == [done.finished[0].tag]


def test_late_rows_are_found_after_compaction_by_others(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    run(lake, spec)
    lake.batch(Read("orders", 1, 50, 60))
    lake.compact()

    done = run(lake, spec)

    assert done.written is not None and done.written.contents == "late rows"
    assert rows_in(folder, done.written) == [(1, n) for n in range(50, 60)]


def test_rows_with_earlier_offsets_make_the_export_anew(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    """As by a replay of dead letters: their offsets are below those of the snapshot, their rows are not in it."""
    run(lake, spec)
    lake.batch(Read("orders", 0, 50, 51), damage_state=with_next_of(lake.state))

    done = run(lake, spec)

    assert done.written is not None and done.written.contents == "all rows again"
    assert rows_in(folder, done.written) == sorted([*IN_WEEK, (0, 50)])


def test_an_empty_window_has_a_manifest_without_rows(lake: SmallLake, spec: ExportSpec) -> None:
    done = run(lake, spec, last_period(WEEKLY, datetime(2020, 1, 1, tzinfo=UTC)))

    assert done.written is not None
    assert (done.written.rows, done.written.parts) == (0, ())


def test_the_snapshot_of_an_export_never_expires(lake: SmallLake, spec: ExportSpec) -> None:
    pinned = run(lake, spec).finished[0].snapshot_id
    for n in range(5):
        lake.batch(Read("orders", 3, n, n + 1))

    gone = expiry_of(lake.view, KeepSnapshots(count=1, daily=0), now=datetime.now(UTC), checkpoint=CHECKPOINT_TAG)

    assert gone.snapshots
    assert pinned not in gone.snapshots


def test_files_are_split_by_rows_and_by_size(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    by_rows = run(lake, replace(spec, part_rows=20)).written
    by_size = run(lake, replace(spec, name="small", part_bytes=1)).written

    assert by_rows is not None and by_size is not None
    assert [part.rows for part in by_rows.parts] == [20, 20, 20, 17]
    assert rows_in(folder, by_rows) == IN_WEEK
    assert len(by_size.parts) > 1
    assert rows_in(folder.parents[1] / "small" / "2026-W06", by_size) == IN_WEEK


def test_a_run_without_more_time_is_continued_by_the_next(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    """With the same files as in one run, however often it ends; each run writes one."""
    whole = run(lake, replace(spec, to=f"{spec.to}/whole", part_rows=20)).written
    runs = [run(lake, replace(spec, part_rows=20), may_continue=lambda: False) for _ in range(5)]

    last = runs[-1]
    assert whole is not None and last.written is not None
    assert [each.complete for each in runs] == [False, False, False, False, True]
    assert last.written.parts == whole.parts
    assert rows_in(folder, last.written) == IN_WEEK


def test_a_finished_file_that_was_removed_is_written_again(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    run(lake, replace(spec, part_rows=20), may_continue=lambda: False)
    (folder / "weekly_2026-W06_part_1.csv").unlink()

    done = run(lake, replace(spec, part_rows=20))

    assert rows_in(folder, done.written) == IN_WEEK


@pytest.mark.parametrize(("method", "call"), [*(("open", n) for n in (1, 2, 3, 6, 9, 10)), ("put", 6), ("remove", 0)])
def test_a_crash_at_any_step_leaves_nothing_wrong(
    lake: SmallLake, spec: ExportSpec, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    """Rows that come between the crash and the next run are not in its files: the snapshot is the tagged one."""
    spec = replace(spec, part_rows=20)
    expected = run(lake, replace(spec, to=f"{spec.to}/whole")).written
    calls = iter(range(100))
    whole = getattr(ExportFolder, method)

    def crash(self: ExportFolder, *arguments: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return whole(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ExportFolder, method, crash)
        try:
            run(lake, spec)
        except KeyboardInterrupt:
            lake.batch(Read("orders", 1, 50, 60))

    done = run(lake, spec)

    assert expected is not None
    assert done.finished[0].parts == expected.parts
    assert rows_in(folder, done.finished[0]) == IN_WEEK
    assert not [path.name for path in folder.iterdir() if path.name.endswith((".new", "progress.json"))]


@dataclass
class OtherRun:
    """Another run of an export, which begins and finishes when it is first asked to."""

    lake: SmallLake
    spec: ExportSpec
    may_continue: Callable[[], bool] = always
    _results: list[Exported] = field(default_factory=list)

    def finish(self) -> bool:
        """Return whether it ran now."""
        if self._results:
            return False
        self._results.append(run(self.lake, self.spec, may_continue=self.may_continue))
        return True

    @property
    def done(self) -> Exported:
        return self._results[0]


def test_a_run_that_fails_leaves_the_files_of_another_as_they_are(
    lake: SmallLake, spec: ExportSpec, folder: Path
) -> None:
    """The other one finishes between two of its files."""
    spec = replace(spec, part_rows=20)
    other = OtherRun(lake, spec)

    def end_after_it() -> bool:
        if other.finish():
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        run(lake, spec, may_continue=end_after_it)

    assert rows_in(folder, other.done.written) == IN_WEEK
    assert (run(lake, spec).written, rows_in(folder, other.done.finished[0])) == (None, IN_WEEK)
    assert not [path.name for path in folder.iterdir() if path.name.endswith(".new")]


def test_of_two_runs_at_once_one_finishes_and_the_other_says_so(
    lake: SmallLake, spec: ExportSpec, folder: Path
) -> None:
    """The other one begins and finishes while a file of this one is open."""
    spec = replace(spec, part_rows=20)
    other = OtherRun(lake, spec)

    done = run(lake, spec, watch=lambda rows, total: other.finish())

    assert (done.written, done.overtaken, other.done.overtaken) == (None, True, False)
    assert done.finished == other.done.finished
    assert next(lines(done)) == "another run has finished this meanwhile"
    assert rows_in(folder, done.finished[0]) == IN_WEEK
    assert not [path.name for path in folder.iterdir() if path.name.endswith((".new", "progress.json"))]


def test_a_run_that_is_overtaken_between_its_files_leaves_those_of_the_other(
    lake: SmallLake, spec: ExportSpec, folder: Path
) -> None:
    spec = replace(spec, part_rows=20)
    other = OtherRun(lake, spec)

    done = run(lake, spec, may_continue=lambda: other.finish() or True)

    assert (done.written, done.overtaken, done.finished) == (None, True, other.done.finished)
    assert rows_in(folder, done.finished[0]) == IN_WEEK


OLD, NEW = [(2, n) for n in range(40, 45)], [(1, n) for n in range(50, 60)]
MORE_IN_WEEK = ([], OLD, NEW, OLD + NEW)
DOORS = {IcebergLake: ("load", "move_tags"), ExportFolder: ("put", "read")}
STEPS = [(door, verb, n) for door, verbs in DOORS.items() for verb in verbs for n in (1, 2, 3)]
"""What another run may come after."""


@pytest.mark.parametrize("has_old_tag", [False, True], ids=["", "old tag"])
@pytest.mark.parametrize("may_finish", [False, True], ids=["begins", "finishes"])
@pytest.mark.parametrize(("door", "verb", "n"), STEPS, ids=lambda value: str(getattr(value, "__name__", value)))
def test_two_runs_write_the_rows_of_the_snapshot_with_the_tag(
    lake: SmallLake,
    spec: ExportSpec,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    door: type,
    verb: str,
    n: int,
    may_finish: bool,
    has_old_tag: bool,
) -> None:
    """The other one begins after a step of this one, and sees more rows. A removed manifest leaves its tag."""
    spec = replace(spec, part_rows=20)
    if has_old_tag:
        run(lake, spec)
        (folder / "manifest.json").unlink()
        lake.batch(Read("orders", 2, 40, 45))
    other = OtherRun(lake, spec, may_continue=lambda: may_finish)
    plain, calls = getattr(door, verb), iter(range(1, 99))

    def step(its: Any, *arguments: Any, **more: Any) -> Any:
        result = plain(its, *arguments, **more)
        if next(calls) == n:
            lake.batch(Read("orders", 1, 50, 60))
            other.finish()
        return result

    with monkeypatch.context() as patched:
        patched.setattr(door, verb, step)
        run(lake, spec)

    done = run(lake, spec).finished[0]
    assert lake.view.tags[done.tag] == done.snapshot_id
    assert rows_in(folder, done) in [sorted([*IN_WEEK, *more]) for more in MORE_IN_WEEK]


def test_exports_of_one_name_to_two_places_leave_the_snapshots_of_each_other(
    lake: SmallLake, spec: ExportSpec, folder: Path, tmp_path: Path
) -> None:
    """Also if one begins while the other has not finished."""
    spec, elsewhere = replace(spec, part_rows=20), replace(spec, to=str(tmp_path / "elsewhere"), tag_seconds=3600)
    begun = run(lake, spec, may_continue=lambda: False)
    lake.batch(Read("orders", 1, 50, 60))

    other = run(lake, elsewhere).finished[0]
    run(lake, elsewhere, now=lambda: datetime.now(UTC) + timedelta(hours=2))
    done = run(lake, spec).finished[0]

    assert not begun.complete
    assert tags_of(lake) == {done.tag: done.snapshot_id}
    assert (rows_in(folder, done), other.rows) == (IN_WEEK, len(IN_WEEK) + 10)


def test_a_run_gives_up_if_others_begin_and_end_each_time(
    lake: SmallLake, spec: ExportSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other one is there when the table is read, and one is when its old tag would go."""
    first = run(lake, spec).finished[0]
    (folder / "manifest.json").unlink()
    answers = cycle([False, True])

    with monkeypatch.context() as patched:
        patched.setattr(Editions, "has_begun", lambda its, edition: next(answers))
        with pytest.raises(ContendedError, match="began and ended 5 times while this one began"):
            run(lake, spec)

    assert tags_of(lake) == {first.tag: first.snapshot_id}
    assert not [*folder.glob("manifest*")]
    assert rows_in(folder, run(lake, spec).written) == IN_WEEK


def test_a_window_whose_manifest_was_removed_is_that_of_the_newest_snapshot(
    lake: SmallLake, spec: ExportSpec, folder: Path
) -> None:
    run(lake, spec)
    lake.batch(Read("orders", 1, 50, 60))
    (folder / "manifest.json").unlink()

    done = run(lake, spec).written

    assert done is not None
    assert lake.view.tags[done.tag] == done.snapshot_id
    assert rows_in(folder, done) == sorted([*IN_WEEK, *((1, n) for n in range(50, 60))])


def test_a_window_is_not_begun_anew_before_its_correction(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    """It would have the rows of the correction, which says that its files are to be added."""
    run(lake, spec)
    lake.batch(Read("orders", 1, 50, 55))
    assert run(lake, spec).written is not None
    (folder / "manifest.json").unlink()

    with pytest.raises(ExportError, match=r"correction_1\.json is there, and .*/manifest\.json, which it") as no:
        run(lake, spec)

    assert "remove the manifests of this window that are left" in no.value.hint
    (folder / "manifest_correction_1.json").unlink()
    done = run(lake, spec)
    assert rows_in(folder, done.written) == sorted([*IN_WEEK, *((1, n) for n in range(50, 55))])


def test_files_of_a_run_with_another_spec_are_removed(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    run(lake, replace(spec, part_rows=20), may_continue=lambda: False)
    run(lake, replace(spec, part_rows=20), may_continue=lambda: False)

    done = run(lake, replace(spec, columns=("kafka_partition", "kafka_offset")))

    assert rows_in(folder, done.written) == IN_WEEK
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "weekly_2026-W06_part_1.csv"]


def test_a_finished_window_with_another_spec_is_refused(lake: SmallLake, spec: ExportSpec) -> None:
    run(lake, spec)

    with pytest.raises(ExportError, match="columns: all -> symbol") as refused:
        run(lake, replace(spec, columns=("symbol",)))

    assert "another name" in refused.value.hint


def test_columns_and_a_condition_choose(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    chosen = replace(spec, columns=("kafka_offset", "kafka_partition"), where="kafka_partition = 1")
    done = run(lake, chosen)
    lake.batch(Read("orders", 1, 50, 55), Read("orders", 0, 100, 105))
    late = run(lake, chosen)

    assert rows_in(folder, done.written) == [(1, n) for n in range(36, 50)]
    assert rows_in(folder, late.written) == [(1, n) for n in range(50, 55)]
    assert [name for name, _ in done.finished[0].columns] == ["kafka_offset", "kafka_partition"]


def test_late_rows_are_found_without_their_source_among_the_columns(
    lake: SmallLake, spec: ExportSpec, folder: Path
) -> None:
    symbols = replace(spec, columns=("symbol",))
    run(lake, symbols)
    lake.batch(Read("orders", 1, 50, 53))

    done = run(lake, symbols)

    assert done.written is not None
    content = (folder / done.written.parts[0].name).read_bytes()
    assert content == b'"symbol"\r\n"S1"\r\n"S2"\r\n"S3"\r\n'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ("simbol",)}, "has no column simbol"),
        ({"where": "simbol = 'A'"}, "the condition simbol = 'A' does not fit"),
        ({"where": "kafka_offset = 'x'"}, "does not fit"),
        ({"window": replace(WEEKLY, column="symbol")}, "has the type string, expected a timestamp"),
        ({"window": replace(WEEKLY, column="kafka_time")}, "has no column kafka_time"),
        ({"table": "lake.order"}, "the catalog has no table lake.order"),
    ],
)
def test_what_the_table_does_not_have_is_refused(
    lake: SmallLake, spec: ExportSpec, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misuse, match=message):
        run(lake, replace(spec, **change))

    assert not [tag for tag in lake.view.tags if tag.startswith("frazil_export")]


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({}, []),
        ({"columns": ("simbol",)}, ["exports/weekly.yaml: the table lake.orders has no column simbol"]),
        ({"where": "simbol = 'A'"}, ["exports/weekly.yaml: the condition simbol = 'A' does not fit"]),
        (
            {"window": replace(WEEKLY, column="symbol")},
            ["exports/weekly.yaml: the column symbol of lake.orders has the type string, expected a timestamp"],
        ),
        ({"window": None, "columns": ("simbol",)}, ["exports/weekly.yaml: the table lake.orders has no column simbol"]),
        (
            {"table": "lake.order"},
            ["exports/weekly.yaml: no spec makes the table lake.order, and the catalog does not have it"],
        ),
        ({"table": "lake.later"}, []),
    ],
)
def test_a_check_finds_what_would_stop_an_export(
    lake: SmallLake, spec: ExportSpec, change: dict[str, Any], messages: list[str]
) -> None:
    found = problems([replace(spec, **change)], lake.lake, to_be={"lake.orders", "lake.later"}, now=MONDAY)

    for error, message in zip(found, messages, strict=True):
        assert error.what.startswith(message)
        assert "did you mean" in error.hint or "symbol" in f"{error.what} {error.hint}"


def test_an_incremental_export_has_each_row_once(lake: SmallLake, spec: ExportSpec) -> None:
    spec = replace(spec, window=None)
    folder = Path(spec.to) / "weekly" / "increments"

    first = run(lake, spec, None)
    nothing = run(lake, spec, None)
    lake.batch(Read("orders", 1, 50, 60), Read("orders", 2, 0, 5))
    second = run(lake, spec, None)

    assert len(rows_in(folder, first.written)) == 97 + 50
    assert nothing.written is None
    assert rows_in(folder, second.written) == [*((1, n) for n in range(50, 60)), *((2, n) for n in range(5))]
    assert (folder / "weekly_2_part_1.csv").exists()
    assert [each.number for each in second.finished] == [1, 2]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 7, 8, 500])
def test_the_newest_increment_is_found_with_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    looked, folder = [], ExportFolder({}, str(tmp_path))
    for number in range(1, count + 1):
        one = Manifest("e", "lake.orders", "u", INCREMENTS, number, "new rows", 1, "t", 0, (), (), {}, MONDAY)
        (tmp_path / f"manifest_{number}.json").write_bytes(written(one))
    for verb in ("has", "read"):
        plain = getattr(ExportFolder, verb)
        monkeypatch.setattr(ExportFolder, verb, lambda its, name, plain=plain: looked.append(name) or plain(its, name))

    editions = Editions("e", INCREMENTS, folder)
    finished = editions.finished()

    assert [each.number for each in finished] == ([count] if count else [])
    assert editions.next(finished).number == count + 1
    assert len(looked) <= 2 * count.bit_length() + 2


def test_no_increment_is_written_twice_if_the_first_ones_were_removed(lake: SmallLake, spec: ExportSpec) -> None:
    spec = replace(spec, window=None)
    for start in (50, 60, 70):
        run(lake, spec, None)
        lake.batch(Read("orders", 1, start, start + 10))
    folder = Path(run(lake, spec, None).address)
    for number in (1, 2):
        (folder / f"manifest_{number}.json").unlink()

    assert run(lake, spec, None).written is None
    lake.batch(Read("orders", 1, 80, 90))
    done = run(lake, spec, None).written

    assert done is not None
    assert (done.number, done.rows) == (5, 10)


def test_tags_are_dropped_at_their_age_and_the_window_stays_finished(lake: SmallLake, spec: ExportSpec) -> None:
    spec, later = replace(spec, tag_seconds=3600), datetime.now(UTC) + timedelta(hours=2)
    first, other = run(lake, spec), run(lake, replace(spec, name="weekly_other"))
    assert {*tags_of(lake)} == {first.finished[0].tag, other.finished[0].tag}

    again = run(lake, spec, now=lambda: later)

    assert [*tags_of(lake)] == [other.finished[0].tag]
    assert (again.written, again.finished) == (None, first.finished)
    lake.batch(Read("orders", 1, 50, 60))
    late = run(lake, spec)
    assert late.written is not None
    assert (late.written.contents, late.written.rows) == ("late rows", 10)


def test_tags_of_a_window_between_times_are_dropped_too(lake: SmallLake, spec: ExportSpec) -> None:
    spec, later = replace(spec, tag_seconds=3600), datetime.now(UTC) + timedelta(hours=2)
    period = period_between(WEEKLY, "2026-02-02T06:00", "2026-02-02T08:00:00.5")
    run(lake, spec, period)

    run(lake, spec, period, now=lambda: later)

    assert tags_of(lake) == {}


def test_an_incremental_export_refuses_rows_that_offsets_do_not_find(lake: SmallLake, spec: ExportSpec) -> None:
    spec = replace(spec, window=None)
    run(lake, spec, None)
    lake.table.delete("kafka_offset = 3")

    with pytest.raises(ExportError, match="the export weekly cannot continue"):
        run(lake, spec, None)


def test_rows_that_others_delete_make_the_export_anew(lake: SmallLake, spec: ExportSpec, folder: Path) -> None:
    run(lake, spec)
    lake.table.delete("kafka_offset = 40")

    done = run(lake, spec)

    assert done.written is not None and done.written.contents == "all rows again"
    assert rows_in(folder, done.written) == [each for each in IN_WEEK if each[1] != 40]


def test_a_window_between_times_is_a_folder_of_its_own(lake: SmallLake, spec: ExportSpec) -> None:
    period = period_between(WEEKLY, "2026-02-02T06:00", "2026-02-02T08:00")

    done = run(lake, spec, period)

    assert rows_in(Path(done.address), done.written) == [(0, 42), (0, 43), (1, 42), (1, 43)]
    assert Path(done.address).name == "20260202T060000Z_20260202T080000Z"


def test_a_table_of_a_later_format_version_is_refused_by_name(lake: SmallLake, spec: ExportSpec) -> None:
    """An export tags the snapshot, and PyIceberg writes no metadata of version 3."""
    metadata = Path(lake.view.current.metadata_location.removeprefix("file://"))  # type: ignore[attr-defined]
    later = json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 0}
    metadata.write_text(json.dumps(later))
    lake.restart()

    with pytest.raises(FormatVersionError, match=r"lake\.orders has Iceberg format version 3") as refused:
        run(lake, spec)

    assert "through a REST catalog" in refused.value.hint
    read = TransformSpec("transforms/made.yaml", "made", "lake", "made", "lake.orders")
    keep_from(lake.lake, lake.view, read, head_position(lake.view, read))  # it is read without a tag
