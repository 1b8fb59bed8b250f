"""Drivers that are killed: a process that makes one, lets it run until it dies, and says how it ended.

It is started once a world (imports cost seconds) and forks a driver for each line it reads, in a session of its own
and with a worker process that carries out the ingest tasks, as Spark's do. A line is `WHO MOMENT`: who is killed
(`driver` alone, so that its worker lives on, or the whole `group`) and at which moment, with a number if it comes
several times; `none` lets it run to its end. Files are rewritten for few deleted rows. The answer is one line:
`killed`, `done`, or what went wrong.

    python -m tests.faults.driver SETTING
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

import boto3

from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import ConfluentRegistry
from frazil.adapters.spark import worker
from frazil.maintain import rewriting
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.updates import UpdateTask
from tests.aws_descriptions import read_descriptions_of_aws_once
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.fakes.watched_logs import WatchedLogs
from tests.fakes.watched_outputs import watched_outputs
from tests.faults.world import AWS_REGION, WAIT_SECONDS, Setting

TRIAL_SECONDS = 240

PRELOADED = (
    "confluent_kafka.schema_registry",
    "frazil.adapters.iceberg.glue_catalog",
    "frazil.adapters.iceberg.rest_catalog",
    "frazil.adapters.iceberg.sql_catalog",
    "pyiceberg.avro.decoder_fast",
    "sqlalchemy.dialects.sqlite",
    "encodings.idna",
    "sqlite3",
)
"""What a driver would load itself, each time anew."""


WORK: Mapping[type, Callable[[Any], Any]] = {
    IngestTask: worker.run,
    ProbeTask: worker.find,
    RewriteTask: worker.rewrite,
    UpdateTask: worker.update,
}


class WorkerProcess:
    """Carries out tasks in another process of the group (`ports.TaskRunner`)."""

    parallelism = 2

    def __init__(self, reach: Callable[[str], None]) -> None:
        self._reach = reach
        self._pipe = _forked_worker()

    def start(self) -> None: ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        del name
        return [self._carried_out(task) for task in tasks]

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        del name
        return [found for task in tasks for found in self._answer(task, "during search")]

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        del name
        return [self._answer(task, "during rewrite") for task in tasks]

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        del name
        return [file for task in tasks for file in self._answer(task, "during update")]

    def stop(self) -> None:
        self._pipe.close()

    def _carried_out(self, task: IngestTask) -> TaskResult:
        result = self._answer(task, "during ingest")
        assert isinstance(result, TaskResult)
        return result

    def _answer(self, task: IngestTask | ProbeTask | RewriteTask | UpdateTask, moment: str) -> Any:
        self._pipe.send(task)
        self._reach(moment)
        assert self._pipe.poll(WAIT_SECONDS)
        result = self._pipe.recv()
        if isinstance(result, FrazilError):
            raise result
        return result


def _forked_worker() -> Connection:
    ours, theirs = Pipe()
    if os.fork() == 0:
        ours.close()
        signal.alarm(TRIAL_SECONDS)
        with suppress(EOFError, OSError):
            while True:
                task = theirs.recv()
                theirs.send(WORK[type(task)](task))
        os._exit(0)
    theirs.close()
    return ours


def drive(setting: Setting, who: str, moment: str) -> None:
    """Catch up or rebuild, unless killed on the way."""

    seen = Counter[str]()

    def reach(here: str) -> None:
        seen[here] += 1
        if moment in (here, f"{here} {seen[here]}") and who != "none":
            die(who)

    def around(name: str, commit: Commit) -> object:
        answer = commit()
        reach(f"committed {name}")
        return answer

    runner = WorkerProcess(reach)  # before any client has threads
    clients = setting.clients(
        lake=WatchedLake(setting.catalog, around=around, written=lambda name: reach(f"written {name}")),
        topics=KafkaTopics(setting.kafka),
        registry=ConfluentRegistry(setting.registry),
        runner=runner,
        observe=lambda when, step: reach(f"{when} {step}"),
        delta_logs=WatchedLogs(setting.catalog.properties, reach),
        outputs=lambda: watched_outputs(setting.kafka, setting.registry, reach),
    )
    if setting.rebuilds:
        setting.rebuild(clients).perform()
        return
    for report in run_once([setting.run(clients)], Stopping()):
        if report.failure is not None:
            raise report.failure


def die(who: str) -> None:
    if who == "group":
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _driver(setting: Setting, who: str, moment: str, answers: Connection) -> NoReturn:
    os.setsid()
    signal.alarm(TRIAL_SECONDS)
    try:
        drive(setting, who, moment)
        answers.send("done")
    except BaseException:
        answers.send(traceback.format_exc())
    os._exit(0)


def trial(setting: Setting, who: str, moment: str) -> str:
    hear, say = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        _driver(setting, who, moment, say)
    say.close()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"ended by signal {os.WTERMSIG(status)}"
    return str(hear.recv())


def main() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    rewriting.WORTH_A_SNAPSHOT = 1
    setting = pickle.loads(Path(sys.argv[1]).read_bytes())
    if setting.catalog.type == "glue":
        read_descriptions_of_aws_once()
        boto3.client("glue", region_name=AWS_REGION)
    gc.freeze()
    for line in sys.stdin:
        who, _, moment = line.strip().partition(" ")
        print(repr(trial(setting, who, moment)), flush=True)


if __name__ == "__main__":
    main()
