"""The progress of `frazil materialize` on stderr: progress bars on a terminal, else a line every 30 s."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from frazil.cli import logs
from frazil.cli.backlog import Backlog, Progress, duration
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.updates import UpdateTask
from frazil.ports import TaskRunner

if TYPE_CHECKING:
    from rich.console import RenderableType

    from frazil.model.receipt import Receipt

LOG = logging.getLogger(__name__)

LINE_SECONDS = 30.0
LOOK_SECONDS = 0.5
SPARK_SECONDS = 15
LEAST_BAR, MOST_BAR = 8, 30


@dataclass(slots=True)
class Display:
    """Collects the progress of a run's threads. It prints only inside `shown()`."""

    idle: str = "planning the next batch…"
    clock: Callable[[], float] = time.monotonic
    on_published: list[Callable[[Receipt], None]] = field(default_factory=list)
    _backlogs: dict[str, Backlog] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _starting: int = 0

    @property
    def is_starting(self) -> bool:
        return self._starting > 0

    @contextmanager
    def starting_spark(self) -> Iterator[None]:
        with self._lock:
            self._starting += 1
            is_first = self._starting == 1
        if is_first:
            say(f"Starting Spark (about {SPARK_SECONDS} s)…")
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def batch_begins(self, table: str, *, offsets: int, lag: int, read: Callable[[], int]) -> None:
        with self._lock:
            backlog = self._backlogs.setdefault(table, Backlog(table, self.clock()))
            backlog.begin(now=self.clock(), offsets=offsets, lag=lag, read=read)

    def batch_read(self, table: str) -> None:
        with self._lock:
            self._backlogs[table].ingested()

    def batch_ended(self, table: str) -> None:
        """Stop showing the table's batch, if one was shown: it was published, or failed at any step."""
        with self._lock:
            if table in self._backlogs:
                self._backlogs[table].drop()

    def batch_published(self, receipt: Receipt) -> None:
        with self._lock:
            if receipt.table in self._backlogs:
                self._backlogs[receipt.table].publish(sum(each.end - each.start for each in receipt.ranges))
        for tell in self.on_published:
            tell(receipt)

    def progress(self) -> list[Progress]:
        """Return the progress of every table with a batch in flight."""
        with self._lock:
            found = [each.progress(self.clock()) for each in self._backlogs.values()]
        return [each for each in found if each is not None]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress until the end of the block."""
        show = _on_terminal if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else _in_lines
        with show(self):
            yield


class CountingRunner(TaskRunner, Protocol):
    """A task runner that reports the progress of a batch."""

    def offsets_read(self, name: str) -> int:
        """Return how many offsets the tasks of the batch have read so far; 0 if unknown."""
        ...


@dataclass(slots=True)
class WatchedRunner:
    """A task runner (`ports.TaskRunner`) that reports its starts and batches to the display."""

    runner: CountingRunner
    display: Display
    _is_running: bool = False

    @property
    def parallelism(self) -> int:
        return self.runner.parallelism

    def start(self) -> object:
        if self._is_running:
            return self.runner.start()
        with self.display.starting_spark():
            started = self.runner.start()
        self._is_running = True
        return started

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        return self.runner.find(tasks, name=name)

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        return self.runner.update(tasks, name=name)

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        return self.runner.rewrite(tasks, name=name)

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        self.start()
        ranges = [each for task in tasks for each in task.ranges]
        table = tasks[0].context.rows.identifier
        self.display.batch_begins(
            table,
            offsets=sum(each.end - each.start for each in ranges),
            lag=sum(each.partition_end - each.start for each in ranges),
            read=lambda: self.runner.offsets_read(name),
        )
        results = self.runner.run(tasks, name=name)
        self.display.batch_read(table)
        return results

    def stop(self) -> None:
        self.runner.stop()
        self._is_running = False


@contextmanager
def own_stderr() -> Iterator[None]:
    """Give Python's stderr its own file descriptor, because descriptor 2 leads to Spark's log while Spark starts."""
    kept = sys.stderr
    if not _is_descriptor_2(kept):
        yield
        return
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=kept.encoding, errors="backslashreplace")
    logs.configure(sys.stderr)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = kept
        logs.configure(kept)


def _is_descriptor_2(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 2)
    except (AttributeError, OSError, ValueError):
        return False


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _in_lines(display: Display) -> Iterator[None]:
    """Print a line per table every 30 s, and one when there is nothing to do for the first time."""
    ended = threading.Event()
    thread = threading.Thread(target=_write_lines, args=(display, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write_lines(display: Display, ended: threading.Event) -> None:
    said_idle, last = not display.idle.endswith("waiting"), display.clock()
    while not ended.wait(LOOK_SECONDS):
        found = display.progress()
        if found and display.clock() - last >= LINE_SECONDS:
            last = display.clock()
            for each in found:
                say(f"{each.table}: {each.words()}")
        elif not found and not said_idle and not display.is_starting and display.clock() - last >= LOOK_SECONDS * 4:
            said_idle = True
            say(display.idle)


@contextmanager
def _on_terminal(display: Display) -> Iterator[None]:
    from rich.console import Console  # noqa: PLC0415 - the imports of rich cost 0.1 s
    from rich.live import Live  # noqa: PLC0415

    console = Console(file=sys.stderr, highlight=False)
    live = Live(
        get_renderable=lambda: _rendered(display, console.width),
        console=console,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    with live:
        console.show_cursor(True)  # a killed process would leave the cursor hidden
        logs.configure(sys.stderr)
        try:
            yield
        finally:
            logs.configure(console.file)  # type: ignore[arg-type]


def _rendered(display: Display, width: int) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415

    found = display.progress()
    if not found:
        return Text("Spark is starting…" if display.is_starting else display.idle, style="dim")
    longest = max(len(each.table) for each in found)
    lines = [bar_line(each, longest=longest, width=width) for each in found]
    return Text("\n").join(Text.assemble(name, (bar, "green"), rest) for name, bar, rest in lines)


def bar_line(progress: Progress, *, longest: int, width: int) -> tuple[str, str, str]:
    """Return a table's name, its bar and its numbers, together at most `width` wide.

    The bar and numbers are dropped before that; the name is never cut.
    """
    numbers = [f"{progress.share:>4.0%}", f"{progress.per_second:,.0f} rows/s", f"lag {progress.lag:,}"]
    if progress.seconds_left is not None:
        numbers.append(f"ETA {duration(progress.seconds_left)}")
    while len(numbers) > 1 and longest + sum(len(each) + 2 for each in numbers) > width:
        numbers.pop(1)
    rest = "  ".join(("", *numbers))
    room = min(width - longest - len(rest) - 2, MOST_BAR)
    bar = "" if room < LEAST_BAR else "  " + ("━" * round(room * min(progress.share, 1.0))).ljust(room, "╌")
    return f"{progress.table:<{longest}}", bar, rest
