"""What `frazil materialize` shows while it works."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.adapters.spark.task_progress import CountingReader, offsets_read
from frazil.cli import progress, transform
from frazil.cli.backlog import Progress
from frazil.cli.materialize import _carry_out, _waiting
from frazil.cli.progress import Display, WatchedRunner, bar_line
from frazil.materialize.scheduling.fair_queue import FairQueue
from frazil.materialize.scheduling.schedule import _in_turn
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields, Records


def receipt(read: int) -> Any:
    return SimpleNamespace(table="lake.orders", ranges=[SimpleNamespace(start=0, end=read)])


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def task(start: int, end: int, partition_end: int) -> Any:
    ranges = (OffsetRange("orders", 0, start, end, partition_end, 1 << 30),)
    return SimpleNamespace(ranges=ranges, context=SimpleNamespace(rows=SimpleNamespace(identifier="lake.orders")))


class Runner:
    parallelism = 1

    def __init__(self, during: Any = None) -> None:
        self.during, self.read = during, 0

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def offsets_read(self, name: str) -> int:
        assert name == "lake.orders epoch 1"
        return self.read

    def run(self, tasks: Any, *, name: str) -> list[Any]:
        del tasks, name
        self.during()
        return []


def test_a_backfill_is_shown_from_its_first_batch_to_its_last(capsys: pytest.CaptureFixture[str]) -> None:
    clock, seen = Clock(), []
    display = Display(clock=clock)
    runner = Runner()
    watched = WatchedRunner(runner, display)

    def during() -> None:
        clock.now += 10
        runner.read = 200
        seen.append(display.progress())

    runner.during = during
    for start in (0, 400):
        watched.run([task(start, start + 400, 1_000)], name="lake.orders epoch 1")
        display.batch_published(receipt(400))

    assert seen == [
        [Progress("lake.orders", share=0.2, per_second=20.0, lag=800)],
        [Progress("lake.orders", share=0.6, per_second=30.0, lag=400)],
    ]
    assert display.progress() == []
    assert capsys.readouterr().err == "Starting Spark (about 15 s)…\n"


def test_a_batch_that_failed_after_it_was_read_is_no_longer_shown() -> None:
    display = Display()
    watched = WatchedRunner(Runner(lambda: None), display)

    def fail() -> None:
        watched.run([task(0, 5, 5)], name="lake.orders epoch 1")
        assert display.progress() != []
        raise ZeroDivisionError

    run: Any = SimpleNamespace(
        spec=SimpleNamespace(identifier="lake.orders"),
        clients=SimpleNamespace(on_batch_end=display.batch_ended),
        client_source=None,
        batch=fail,
    )

    with pytest.raises(ZeroDivisionError):
        _in_turn(run, FairQueue(lambda: 1, stopped=lambda: False))

    assert display.progress() == []
    display.batch_ended("lake.never_read")


@pytest.mark.parametrize(
    ("width", "numbers", "has_bar"),
    [
        (120, "   50%  180,000 rows/s  lag 4,820,000  ETA 27 s", True),
        (80, "   50%  180,000 rows/s  lag 4,820,000  ETA 27 s", True),
        (60, "   50%  lag 4,820,000  ETA 27 s", False),
        (40, "   50%  ETA 27 s", False),
        (10, "   50%", False),
    ],
)
def test_a_line_fits_and_keeps_the_name(width: int, numbers: str, *, has_bar: bool) -> None:
    name, bar, rest = bar_line(Progress("lake.a_rather_long_name", 0.5, 180_000.0, 4_820_000), longest=23, width=width)

    assert name == "lake.a_rather_long_name"
    assert len(name + bar + rest) <= max(width, len(name + "   50%"))
    assert (rest, bool(bar)) == (numbers, has_bar)


def test_without_a_terminal_a_line_comes_each_30_seconds_and_waiting_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, waits = Clock(), iter([False] * 130 + [True])
    display = Display(idle="5 tables, every 10 s, waiting", clock=clock)
    display.batch_begins("lake.orders", offsets=1_000, lag=10_000, read=lambda: 500)

    def wait(seconds: float) -> bool:
        clock.now += seconds
        if clock.now == 165.0:
            display.batch_published(receipt(1_000))
        return next(waits)

    progress._write_lines(display, SimpleNamespace(wait=wait))  # type: ignore[arg-type]

    assert capsys.readouterr().err.splitlines() == [
        "lake.orders: 5%, 17 rows/s, lag 9,500, 10 min left",
        "lake.orders: 5%, 8 rows/s, lag 9,500, 19 min left",
        "5 tables, every 10 s, waiting",
    ]


def test_waiting_says_how_many_tables_and_how_often() -> None:
    from datetime import timedelta  # noqa: PLC0415

    runs: Any = [
        SimpleNamespace(spec=SimpleNamespace(trigger=SimpleNamespace(every=timedelta(seconds=s))), tables=("t",))
        for s in (60, 30)
    ]
    assert _waiting(runs * 2, timedelta(seconds=10)) == "4 tables, every 10 s, waiting"
    assert _waiting(runs[:1], None) == "1 table, every 60 s, waiting"
    assert _waiting(runs, None) == "2 tables, each at its own trigger, waiting"


def test_a_task_keeps_its_progress_in_a_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.adapters.spark.task_progress.WRITE_SECONDS", 0.0)

    def chunks(*ends: int) -> Any:
        return SimpleNamespace(read=lambda *_: iter([(Records.of([], [], [], [], [], end) for end in ends)]))

    wanted = OffsetRange("orders", 0, 10, 50, 50, 1)
    for number, ends in enumerate([(30, 50), (20,)]):
        reader = CountingReader(chunks(*ends), tmp_path / str(number))
        assert len(
            list(chain.from_iterable(reader.read([wanted], OptionalFields(timestamp_type=False, leader_epoch=False))))
        ) == len(ends)

    assert offsets_read(tmp_path) == 50
    assert offsets_read(tmp_path / "gone") == 0


def test_transformations_after_the_tables_are_named_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display()
    seen: list[str] = []

    def once(made: object, stopping: object) -> list[Any]:
        del made, stopping
        seen.append(display.idle)
        return []

    monkeypatch.setattr(transform, "once", once)
    following: Any = [object()]

    _carry_out((), (), display, once=True, every=None)
    _carry_out((), following, display, once=True, every=None)

    assert seen == ["planning the next batch…", "running transformations…"]
