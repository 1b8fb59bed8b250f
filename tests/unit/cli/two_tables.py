"""Run as a program: `frazil materialize --every 3s` of two tables that do nothing, or a batch that never ends.

Usage: python two_tables.py idle|stuck|starting|spark [FOLDER]

With `starting`, Spark never gets ready. With `spark`, each batch is a task of a real Spark of 5 seconds, which logs to
the folder.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from frazil.adapters.spark import runner as spark_runner
from frazil.cli import app, materialize
from frazil.cli.progress import WatchedRunner
from frazil.maintain.background import Background
from frazil.materialize.outcome import Outcome
from frazil.model.plan import NothingToDo, TopicFacts
from frazil.model.progress import TableState


@dataclass
class Runner:
    stopped: bool = False
    parallelism: int = 1

    def stop(self) -> None:
        self.stopped = True


class NoTopics:
    def describe(self, topic: str) -> TopicFacts:
        return TopicFacts(topic, None, {})


@dataclass
class Run:
    """A fake table; the first batch of each reports that it has begun."""

    name: str
    seconds: float
    writer: str = "w"
    clients: Any = field(
        default_factory=lambda: SimpleNamespace(
            topics=NoTopics(), runner=Runner(), background=Background(), on_batch_end=lambda table: None
        )
    )
    state: TableState | None = None
    client_source: None = None
    output_failure: None = None

    @property
    def spec(self) -> Any:
        return SimpleNamespace(identifier=self.name, topics=("orders",), pipeline=SimpleNamespace(name=self.name))

    @property
    def tables(self) -> tuple[Any]:
        return (self.spec,)

    def batch(self) -> Outcome:
        if isinstance(self.clients.runner, WatchedRunner):
            self.clients.runner.start()
        print(f"{self.name} begins\n", end="", flush=True)  # one write: two threads print
        time.sleep(self.seconds)
        return NothingToDo(self.name, TableState("p", 1, "w", "b", ()))


@dataclass
class SparkRun(Run):
    """A batch of one task; the batch begins when Spark has started."""

    def batch(self) -> Outcome:
        self.clients.runner.start()
        print(f"{self.name} begins\n", end="", flush=True)  # one write: two threads print
        self.clients.runner.run([5], name=f"{self.name} epoch 1")
        return NothingToDo(self.name, TableState("p", 1, "w", "b", ()))


def spark_runs(folder: Path) -> list[Run]:
    spark_runner.run = time.sleep  # type: ignore[assignment]
    runner = spark_runner.SparkRunner(log_file=folder / "spark.log")
    runs: list[Run] = [SparkRun(name, 0) for name in ("lake.a", "lake.b")]
    for run in runs:
        run.clients.runner = runner
    return runs


class NeverReady(Runner):
    def start(self) -> None:
        for name in ("lake.a", "lake.b"):
            print(f"{name} begins\n", end="", flush=True)
        time.sleep(60)


def main(kind: str) -> int:
    runs: Any = (
        spark_runs(Path(sys.argv[2]))
        if kind == "spark"
        else [Run(name, 60 if kind == "stuck" else 0) for name in ("lake.a", "lake.b")]
    )

    def opened(config: Any, tables: Any, display: Any, **_: Any) -> Any:
        if kind == "starting":
            del runs[1:]
            runs[0].clients.runner = WatchedRunner(NeverReady(), display)  # type: ignore[arg-type]
        return runs, []

    materialize._opened = opened  # type: ignore[assignment]
    return app.run(["materialize", "--every", "3s"])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1]))
