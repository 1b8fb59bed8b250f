"""Does the Delta log of a table with 10,000 data files follow each commit within 2 seconds?

Wall and CPU seconds of bringing the log to the table's head: at first, after batches of 4 files, in a new process,
after a compaction, and once the log has removed many files. Writes a section of bench/RESULTS.md; needs no broker.

Usage: python -m bench.delta [--files N] [--removed N] [--commits N]

Every data file is real: a hard link to one of 25 columns, so footers are read as they are in a table.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from bench.commits import Orders
from bench.sections import put
from frazil.adapters.delta.log import DeltaRsLogs
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.delta import AddFile, ExtendLog, LogWritten, RemoveFile
from frazil.model.ingested import DroppedFile, WrittenFile

FILES, REMOVED, COMMITS = 10_000, 200_000, 30
FILES_OF_A_BATCH, FILES_AT_ONCE = 4, 400
COMPACTED = 1_000
TARGET_SECONDS = 2.0
TITLE = "A Delta log beside 10,000 files"


@dataclass(frozen=True, slots=True)
class Took:
    """The seconds of some attempts to bring the log to the head, by the wall clock and of CPU."""

    what: str
    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    def row(self) -> str:
        figures = (statistics.mean(self.wall), max(self.wall), statistics.mean(self.cpu), max(self.cpu))
        return f"| {self.what} | {len(self.wall)} | " + " | ".join(f"{each:.2f}" for each in figures) + " |"


@dataclass(slots=True)
class Mirrored:
    """A table with data files that are links to one, and its Delta log."""

    orders: Orders
    logs: DeltaRsLogs = field(default_factory=lambda: DeltaRsLogs({}))
    model: WrittenFile = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        (self.model,) = self.orders._files

    def restart(self) -> None:
        """Forget what the process knows of the table and its log."""
        self.orders.restart()
        self.logs = DeltaRsLogs({})

    def new_files(self, number: int) -> list[WrittenFile]:
        source = Path(self.model.path.removeprefix("file://"))
        made = []
        for n in (next(self._numbers) for _ in range(number)):
            path = source.with_name(f"{n:08}-{source.name}")
            os.link(source, path)
            made.append(replace(self.model, path=str(path)))
        return made

    def commit(self, files: int) -> None:
        lake, view = self.orders.lake, self.orders.view
        assert view.head is not None
        lake.stage(view, base=view.head, branch="stage", files=self.new_files(files), summary={})
        lake.publish(self.orders.view, branch="stage", tag=CHECKPOINT_TAG, drop=["stage"])

    def compact(self, files: int) -> None:
        """Write some files anew, as one for each hundred."""
        view = self.orders.view
        dropped = [DroppedFile(each.path) for each in self.orders.lake.stored_files(view)[:files]]
        self.orders.lake.rewrite(
            view, files=self.new_files(files // 100), dropped=dropped, summary={}, figures={}, tag_prefix=REWRITE_PREFIX
        )

    def remove_in_log(self, files: int) -> None:
        """Give the log files that it added and removed since, as compactions of years leave them."""
        location = self.orders.view.location
        log = self.logs.read(location)
        assert log is not None and log.snapshot_id is not None
        names = [f"data/removed-{n:08}-{Path(self.model.path).name}" for n in range(files)]
        added = tuple(AddFile(name, self.model.size, 0, '{"numRecords":1}') for name in names)
        removed = tuple(RemoveFile(name, self.model.size, 0, data_change=False) for name in names)
        self.logs.write(location, ExtendLog(log.snapshot_id, log.version, log.metadata, added, ()))
        self.logs.write(location, ExtendLog(log.snapshot_id, log.version + 1, log.metadata, (), removed))

    def announce(self) -> tuple[float, float]:
        """Bring the log to the head. Returns wall and CPU seconds."""
        view = self.orders.view
        wall, cpu = time.perf_counter(), time.process_time()
        announced = announce_delta(self.orders.lake, lambda: self.logs, view)
        took = time.perf_counter() - wall, time.process_time() - cpu
        assert isinstance(announced, LogWritten) and announced.snapshot_id == view.head, announced
        return took


def took(what: str, attempts: list[tuple[float, float]]) -> Took:
    found = Took(what, tuple(wall for wall, _ in attempts), tuple(cpu for _, cpu in attempts))
    print(found.row(), file=sys.stderr)
    return found


def batches(table: Mirrored, commits: int) -> list[tuple[float, float]]:
    attempts = []
    for _ in range(commits):
        table.commit(FILES_OF_A_BATCH)
        attempts.append(table.announce())
    return attempts


def measure(table: Mirrored, files: int, removed: int, commits: int) -> list[Took]:
    for _ in range(files // FILES_AT_ONCE):
        table.commit(FILES_AT_ONCE)
    found = [took(f"the first version, {files:,} files", [table.announce()])]
    found.append(took(f"a batch of {FILES_OF_A_BATCH} files", batches(table, commits)))
    table.restart()
    found.append(took("the same in a new process", batches(table, 1)))
    table.compact(COMPACTED)
    found.append(took(f"a compaction of {COMPACTED:,} files", [table.announce()]))
    table.remove_in_log(removed)
    found.append(took(f"a batch, {removed:,} files were removed before", batches(table, commits)))
    return found


def section(found: list[Took], asked: argparse.Namespace) -> str:
    command = f"python -m bench.delta --files {asked.files} --removed {asked.removed} --commits {asked.commits}"
    return "\n".join(
        [
            f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores (load average"
            f" {os.getloadavg()[0]:.0f}), Python {platform.python_version()}. From the published snapshot to the"
            " version of the log, in a folder; checkpoints, footers of new files and commits of tags are included."
            f" Target: {TARGET_SECONDS:g} s for each commit.",
            "",
            "| the log gets | times | s, mean | s, most | CPU s, mean | CPU s, most |",
            "|---|---|---|---|---|---|",
            *(each.row() for each in found),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delta", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="data files of the table")
    parser.add_argument("--removed", type=int, default=REMOVED, help="files that the log has removed at last")
    parser.add_argument("--commits", type=int, default=COMMITS, help="batches to measure")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Mirrored(Orders(Path(folder), partitions=12))
        put(TITLE, section(measure(table, asked.files, asked.removed, asked.commits), asked))


if __name__ == "__main__":
    main()
