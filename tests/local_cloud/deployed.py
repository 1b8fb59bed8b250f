"""A separate checkout that scripts/deploy.sh deploys to the local cloud, and the deployed result."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import psutil
from aws_provider import executable_in, link_assets, shared_provider
from botocore.config import Config
from waiting import eventually

from frazil.local.supervisor import LocalServices, down, status

REGION = "us-east-1"
MOST_SECONDS = 1500.0
ENDED = ("SUCCESS", "FAILED", "CANCELLED")
LOOK_SECONDS = 0.1
LOOKS_AT_EACH = 5
"""How often a process's command line is read: it changes when the process runs another command."""
CLOSE_SECONDS = 0.02
CLOUD_KEY = {"CONFLUENT_CLOUD_API_KEY": "CLOUDKEY-OF-THE-USER", "CONFLUENT_CLOUD_API_SECRET": "cloud-secret-KBq7tT3zvW"}
OF_THE_USER = {
    "AWS_PROFILE": "of-the-user",
    "AWS_ACCESS_KEY_ID": "AKIAOFTHEUSER",
    "AWS_SECRET_ACCESS_KEY": "aws-secret-XgR2m9LwYd",
}
"""What a shell often holds: the cloud on this machine must neither use nor show it."""
KICKSTARTERS = (
    "--confluent-api-key=K",
    "--confluent-api-secret=S",
    "--snowflake-warehouse=COMPUTE_WH",
    "--day-count=30",
    "--number-of-api-keys-to-retain=2",
)
"""The flags of the public kickstarter's command line, beside `--profile=`."""

HOT = "stock_trades"
COLD = "cold_trades"


@dataclass(frozen=True)
class Ended:
    """What a command of deploy.sh came to, and all command lines that ran meanwhile."""

    status: int
    stdout: str
    stderr: str
    command_lines: frozenset[str]

    @property
    def said(self) -> str:
        return f"{self.stdout}\n{self.stderr}"


@dataclass
class Running:
    """deploy.sh at work, as the leader of a process group: what a terminal would interrupt."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path
    command_lines: set[str] = field(default_factory=set)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Watch closely until something is so, or deploy.sh has ended. The test fails where neither comes."""
        deadline = time.monotonic() + MOST_SECONDS
        while not is_so() and self.process.poll() is None:
            assert time.monotonic() < deadline, f"deploy.sh still runs: {self.errors.read_text()[-2000:]}"
            time.sleep(CLOSE_SECONDS)

    def end(self) -> Ended:
        """Wait for it, and note every command line meanwhile."""

        looks: Counter[str] = Counter()

        def noted() -> bool:
            self.command_lines |= command_lines(looks)
            time.sleep(LOOK_SECONDS)
            return False

        self.until(noted)
        said = (self.output.read_text(), self.errors.read_text())
        return Ended(self.process.wait(MOST_SECONDS), *said, frozenset(self.command_lines))

    def kill_terraform(self) -> int:
        """As out of memory would; how many there were."""
        try:
            found = [each for each in psutil.Process(self.process.pid).children(recursive=True) if _is_terraform(each)]
        except psutil.NoSuchProcess:
            return 0
        for process in found:
            process.kill()
        return len(found)

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Ctrl-Z, and `fg` afterwards."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)


@dataclass
class Deployed:
    """`folder` holds the checkout and what deploy.sh printed; `said` is all of the latter so far."""

    folder: Path
    running: list[Running] = field(default_factory=list)
    provider: dict[str, str] = field(default_factory=dict)
    """The variables with which Terraform uses the shared provider."""
    _shared: ExitStack = field(default_factory=ExitStack)
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def environment(self) -> Path:
        """What is made of the environment: synthesized stacks, states, the log of Terraform."""
        return self.checkout / ".frazil" / "deploy" / "local"

    @property
    def double(self) -> Path:
        return self.checkout / ".frazil" / "local" / "aws"

    @property
    def terraform_log(self) -> str:
        log = self.environment / "terraform.log"
        return log.read_text() if log.exists() else ""

    def share_provider(self) -> None:
        """Let all later commands use one AWS provider: the one that the first `create` installed and verified."""
        folder, executable = self.folder / "provider", executable_in(self.environment / "terraform" / "network")
        link_assets(self.environment / "cdktf.out" / "stacks", folder)
        place = {"endpoint_url": self.services.aws_endpoint_url, "region": REGION}
        self.provider.update(self._shared.enter_context(shared_provider(executable, **place, folder=folder)))

    def end_provider(self) -> None:
        self._shared.close()

    def begin(self, verb: str, *options: str) -> Running:
        """Start `scripts/deploy.sh VERB --profile=local`, with no terminal to ask anybody by."""
        number = len(self.running)
        output, errors = (self.folder / f"{number}-{verb}.{kind}" for kind in ("out", "err"))
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen(
                [self.checkout / "scripts" / "deploy.sh", verb, "--profile=local", *options],
                env={
                    **os.environ,
                    **OF_THE_USER,
                    **CLOUD_KEY,
                    **self.provider,
                    "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                },
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.running.append(Running(process, output, errors))
        return self.running[-1]

    def step(self, *words: str) -> None:
        """Run one step alone, as the guide does; it must succeed."""
        python, place = self.checkout / ".venv/bin/python", ("--profile=local", "--environment=local")
        ended = subprocess.run(
            [python, "-m", "infra.deploy", *words, *place],
            cwd=self.checkout,
            env={**os.environ, **self.provider},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def deploy(self, verb: str, *options: str) -> Ended:
        return self.begin(verb, *options).end()

    def frazil(self, *arguments: str) -> str:
        """What a command of the copy's `frazil` prints; it must succeed."""
        ended = subprocess.run(
            self.command(*arguments),
            cwd=self.checkout,
            env={**os.environ, **self.credentials()},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def command(self, *arguments: str) -> list[str]:
        return [str(self.checkout / ".venv/bin/python"), "-m", "frazil.cli.app", *arguments]

    def credentials(self) -> dict[str, str]:
        """The file for the shell that the summary of `create` names."""
        written = (self.environment / "env").read_text()
        return dict(re.findall(r"^export (\w+)='(.*)'$", written, re.MULTILINE))

    @cached_property
    def services(self) -> LocalServices:
        """The addresses, which stay: to look at them anew would ask each service whether it answers."""
        told = status(self.checkout / ".frazil" / "local")
        assert told.bootstrap_servers and told.schema_registry_url and told.aws_endpoint_url, "nothing was started"
        return LocalServices(told.bootstrap_servers, told.schema_registry_url, told.aws_endpoint_url)

    def services_that_run(self) -> list[str]:
        return [each.name for each in status(self.checkout / ".frazil" / "local").services if each.running]

    def client(self, service: str) -> Any:
        """A client of the double, made once: making one takes longer than most calls."""
        if service not in self._clients:
            config = Config(retries={"total_max_attempts": 2}, s3={"addressing_style": "path"})
            session = boto3.Session("local", "local", region_name=REGION)
            address = self.services.aws_endpoint_url
            self._clients[service] = session.client(service, endpoint_url=address, config=config)
        return self._clients[service]

    @property
    def application(self) -> str:
        """The one on EMR Serverless."""
        listed = self.client("emr-serverless").list_applications()["applications"]
        (found,) = [each["id"] for each in listed if each["state"] != "TERMINATED"]
        return str(found)

    def active_runs(self) -> list[str]:
        """Streaming job runs that have not ended."""
        listed = self.client("emr-serverless").list_job_runs(applicationId=self.application)["jobRuns"]
        return [each["id"] for each in listed if each["mode"] == "STREAMING" and each["state"] not in ENDED]

    def run(self, job_run: str) -> dict[str, Any]:
        asked = {"applicationId": self.application, "jobRunId": job_run}
        found: dict[str, Any] = self.client("emr-serverless").get_job_run(**asked)["jobRun"]
        return found

    def until_ended(self, job_run: str) -> dict[str, Any]:
        found: dict[str, Any] = eventually(
            lambda: self.run(job_run), lambda run: run["state"] in ENDED, explain=self.last_words
        )
        return found

    def archives_of(self, job_run: str) -> str:
        """By the hashes of what they hold."""
        parameters = str(self.run(job_run)["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"])
        return next(word for word in parameters.split() if word.startswith("spark.archives="))

    def kill_attempt(self, job_run: str, attempt: int) -> None:
        """All of an attempt's processes at once, as when its machine is lost."""
        work = self.double / "job-runs" / self.application / job_run / str(attempt) / "work"
        for group in eventually(lambda: _groups_in(work), bool, explain=self.last_words):
            with suppress(ProcessLookupError):  # some end with another
                os.killpg(group, signal.SIGKILL)

    def schedules(self) -> set[str]:
        return {schedule["Name"] for schedule in self.client("scheduler").list_schedules()["Schedules"]}

    def last_words(self) -> str:
        """The ends of the logs of job runs and of the double, for who reads why a test failed."""
        logs = [*self.double.glob("job-runs/*/*/*/std???"), self.double / "aws.log"]
        return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-2000:]}" for log in logs if log.exists())

    @property
    def said_by_all(self) -> str:
        return "".join(each.errors.read_text() for each in self.running)

    def calls(self) -> list[dict[str, Any]]:
        """Every call of AWS that was recorded."""
        return [json.loads(line) for line in (self.double / "calls.jsonl").read_text(encoding="utf-8").splitlines()]

    def fire(self, schedule: str, *, group: str = "frazil-local-jobs", at: str = "") -> dict[str, Any]:
        """What the target of a schedule answered, as if its time had come, or the time `at`."""
        path = f"_double/schedules/{group}/{schedule}/fire?at={at}"
        request = urllib.request.Request(f"{self.services.aws_endpoint_url}/{path}", method="POST")
        with urllib.request.urlopen(request, timeout=120) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def processes(self) -> list[psutil.Process]:
        """Return all processes that run from the copy."""
        return [process for process in psutil.process_iter() if _belongs_to(process, str(self.checkout))]

    def stop(self) -> None:
        """Stop every process that runs from the copy."""
        for each in self.running:
            _kill_group(each.process)
        self.end_provider()
        down(self.checkout / ".frazil" / "local", wipe=True)
        for process in self.processes():
            process.kill()


def command_lines(looks: Counter[str]) -> set[str]:
    """Of every process on this machine that was seen in few `looks`; the first may be before it ran its own command."""
    with os.scandir("/proc") as entries:
        there = {each.name for each in entries if each.name.isdigit()}
    for gone in looks.keys() - there:
        del looks[gone]
    young = [process for process in there if looks[process] < LOOKS_AT_EACH]
    looks.update(young)
    return {_command_line(process) for process in young}


def _command_line(process: str) -> str:
    try:
        return Path("/proc", process, "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _belongs_to(process: psutil.Process, checkout: str) -> bool:
    try:
        return process.cwd().startswith(checkout) or any(checkout in word for word in process.cmdline())
    except psutil.Error:
        return False


def _is_terraform(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "terraform")
    except psutil.Error:
        return False


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _groups_in(work: Path) -> set[int]:
    """Process groups that work in a folder, but for the leash that holds them (frazil.local.aws_double.leash)."""
    return {
        os.getpgid(process.pid)
        for process in psutil.process_iter()
        if _belongs_to(process, str(work)) and not any(word.endswith("leash.py") for word in process.cmdline())
    }
