"""One attempt of a job run: fetch files, run spark-submit, wait, copy the logs, with the credentials of the job's role.

The job runs in the base interpreter of this virtual environment, without the installed packages: like the image of an
EMR release it provides Spark only, and the job provides everything else in its archives.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from frazil.local import class_data
from frazil.local.aws_double import children, clients
from frazil.local.aws_double.emr_serverless import files, spark_submit
from frazil.local.aws_double.log_streams import CopiedLog
from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import NotAssumableError, Session, assume
from frazil.local.java import find_java
from frazil.model.errors import FrazilError

SERVICE = "emr-serverless.amazonaws.com"
LOG_GROUP = "/aws/emr-serverless"
LOOK_SECONDS = 0.25
COPY_LOGS_SECONDS = 2.0
TOLD_CHARACTERS = 256
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Fast start. A local job run lasts seconds, and the C2 compiler would use half of the CPU time of its start."""

INTERPRETERS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_SPARK = Path(str(distribution("pyspark").locate_file("pyspark"))).resolve()
"""Spark's folder. Importing pyspark would take a third of a second. The path is resolved because the class data archive
is only valid for one path."""
_unpacking = threading.Lock()


class JobFailedError(Exception):
    """The attempt failed. The message becomes the `stateDetails` of the job run."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. `log_stream` is the prefix of its log stream names."""

    request: Mapping[str, Any]
    application: Mapping[str, Any]
    folder: Path
    region: str
    job_run_id: str
    log_stream: str

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr"


@dataclass(slots=True)
class Stop:
    """A request to end an attempt: the seconds between SIGTERM and SIGKILL, or None before the request."""

    grace_seconds: float | None = None

    @property
    def is_asked(self) -> bool:
        return self.grace_seconds is not None


def carry_out(place: DoubleFolder, attempt: Attempt, stop: Stop, *, on_running: Callable[[], None]) -> None:
    """Run one attempt; return when the job has succeeded or was stopped. Raises JobFailedError otherwise."""
    try:
        session = assume(attempt.request["executionRoleArn"], service=SERVICE, session_name=attempt.job_run_id)
        child = _start(place, attempt, session)
        on_running()
        status = _wait(child, stop, _logs(place, attempt, session))
    except (NotAssumableError, ClientError, BotoCoreError, FrazilError, OSError, shutil.ReadError) as exc:
        raise JobFailedError(str(exc)) from exc
    if status and not stop.is_asked:
        raise JobFailedError(f"Job failed, please check complete logs in {attempt.stderr}. ExitCode: {status}.")


def _start(place: DoubleFolder, attempt: Attempt, session: Session) -> children.Child:
    attempt.work.mkdir(parents=True)
    asked = spark_submit.read(attempt.request, attempt.application)
    s3 = clients.client(place, "s3", session=session, region=attempt.region)
    submission = asked.with_local_files(files.fetch(s3, asked.files, attempt.work))
    with _unpacking:
        files.unpack(s3, submission.archives, attempt.work, place.unpacked)
    return children.run(
        submission.command(_SPARK / "bin" / "spark-submit"),
        environment=_environment(submission.environment)
        | clients.environment(place, session=session, region=attempt.region),
        folder=attempt.work,
        stdout=attempt.stdout,
        stderr=attempt.stderr,
    )


def _environment(asked: Mapping[str, str]) -> dict[str, str]:
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    given = {name: _interpreter(value, interpreter) if name in INTERPRETERS else value for name, value in asked.items()}
    return {
        "PATH": os.pathsep.join((str(interpreter.parent), os.defpath)),
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": JVM_OPTIONS,
        "SPARK_SUBMIT_OPTS": f"{JVM_OPTIONS} {class_data.spark_options()}",
        "PYSPARK_PYTHON": str(interpreter),
        **given,
    }


def _interpreter(asked: str, ours: Path) -> str:
    """Return an interpreter from an archive unchanged; replace one of the image (`/usr/bin/python3.11`) with ours."""
    return str(ours) if Path(asked).is_absolute() else asked


def _wait(child: children.Child, stop: Stop, logs: list[CopiedLog]) -> int | None:
    next_copy = time.monotonic() + COPY_LOGS_SECONDS
    stopping = False
    while (status := child.wait(LOOK_SECONDS)) is None:
        if stop.grace_seconds is not None and not stopping:
            child.stop(grace_seconds=stop.grace_seconds)
            stopping = True
        if time.monotonic() > next_copy:
            _each(logs, CopiedLog.copy)
            next_copy = time.monotonic() + COPY_LOGS_SECONDS
    _each(logs, CopiedLog.finish)
    return status


def _each(logs: list[CopiedLog], act: Callable[[CopiedLog], None]) -> None:
    for log in logs:
        act(log)


def _logs(place: DoubleFolder, attempt: Attempt, session: Session) -> list[CopiedLog]:
    """Return the driver's stdout and stderr logs if the request or the application enables CloudWatch logging."""
    monitoring = (attempt.request.get("configurationOverrides") or {}).get("monitoringConfiguration")
    wanted = (monitoring or attempt.application.get("monitoringConfiguration") or {}).get(
        "cloudWatchLoggingConfiguration"
    )
    if not wanted or not wanted.get("enabled"):
        return []
    client = clients.client(place, "logs", session=session, region=attempt.region)
    group = wanted.get("logGroupName") or LOG_GROUP
    stream = "/".join(filter(None, (wanted.get("logStreamNamePrefix"), attempt.log_stream)))
    return [CopiedLog(client, group, f"{stream}/{file.name}", file) for file in (attempt.stdout, attempt.stderr)]
