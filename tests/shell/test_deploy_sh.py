"""scripts/deploy.sh with stand-ins for what it calls: which verb, with which arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "deploy.sh"
PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "${*:3}" >> "$CALLS"
env | grep -E '^(CONFLUENT|SNOWFLAKE_(ORG|ACC))' | sort > "$SECRETS"
if [ -n "${SNOWFLAKE_PRIVATE_KEY:-}" ]; then printf '%s' "$SNOWFLAKE_PRIVATE_KEY" >> "$SECRETS"; fi
if [ -n "${HOLD:-}" ]; then echo "$$" > "$HOLD"; read -r _; fi
exit "${STATUS:-0}"
"""


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str
    calls: list[str]
    """Of `python -m infra.deploy`, without options."""
    options: set[str]
    secrets: str


@dataclass(frozen=True)
class Script:
    folder: Path

    def begin(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        calls, secrets = self.folder / "calls", self.folder / "secrets"
        bare = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(calls), "SECRETS": str(secrets)}
        return subprocess.Popen(
            [self.folder / "scripts" / "deploy.sh", *arguments],
            env=bare | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        calls, secrets = self.folder / "calls", self.folder / "secrets"
        with self.begin(*arguments, env=env) as process:
            stdout, stderr = process.communicate("", timeout=30)
        lines = calls.read_text().splitlines() if calls.exists() else []
        return Ended(
            status=process.returncode,
            stdout=stdout,
            stderr=stderr,
            calls=[" ".join(word for word in line.split() if not word.startswith("--")) for line in lines],
            options={word for line in lines for word in line.split() if word.startswith("--")},
            secrets=secrets.read_text() if secrets.exists() else "",
        )


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    for name, text in {".venv/bin/python": PYTHON, "bin/make": "#!/bin/sh\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    yield Script(tmp_path)


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")

    found = subprocess.run([shellcheck, SCRIPT], capture_output=True, text=True, timeout=60, check=False)

    assert found.stdout == ""


@pytest.mark.parametrize("verb", ["create", "delete", "plan", "check", "outputs", "rotate"])
def test_a_verb_is_one_process(script: Script, verb: str) -> None:
    ended = script.run(verb, "--profile=local")

    assert (ended.status, ended.calls) == (0, [verb])
    assert ended.options == {"--profile=local", "--environment=local"}


def test_the_policy_is_printed_instead_of_checking(script: Script) -> None:
    assert script.run("check", "--profile=me", "--policy").calls == ["policy"]


def test_the_kickstarters_flags_are_understood(script: Script) -> None:
    ended = script.run(
        "create",
        "--profile=me",
        "--confluent-api-key=key",
        "--confluent-api-secret=hush",
        "--snowflake-warehouse=WH",
        "--day-count=30",
        "--number-of-api-keys-to-retain=2",
    )

    assert ended.status == 0
    assert ended.options == {
        "--profile=me",
        "--environment=dev",
        "--snowflake-warehouse=WH",
        "--day-count=30",
        "--number-of-api-keys-to-retain=2",
    }


@pytest.mark.parametrize("verb", ["delete", "outputs", "rotate"])
def test_flags_of_snowflake_are_ignored_where_nothing_is_made(script: Script, verb: str) -> None:
    flags = ("--snowflake-warehouse=WH", "--snowflake-organization=ACME", "--snowflake-account=LAKE")

    ended = script.run(verb, "--profile=local", *flags, "--day-count=30", "--number-of-api-keys-to-retain=2")

    assert ended.status == 0
    assert {option for option in ended.options if "snowflake" in option} == set()


def test_the_key_for_snowflake_may_be_a_file(script: Script, tmp_path: Path) -> None:
    (tmp_path / "key.p8").write_text("pem of hush\n")

    ended = script.run("plan", "--profile=me", f"--snowflake-private-key-file={tmp_path / 'key.p8'}")

    assert ended.secrets.endswith("pem of hush")
    assert not any("key.p8" in option for option in ended.options)


def test_secrets_travel_by_environment_and_the_flag_is_warned_about(script: Script) -> None:
    ended = script.run("create", "--profile=me", "--confluent-api-key=key", "--confluent-api-secret=hush", "--debug")

    assert ended.secrets == "CONFLUENT_CLOUD_API_KEY=key\nCONFLUENT_CLOUD_API_SECRET=hush\n"
    assert "warning: --confluent-api-secret" in ended.stderr
    assert "warning: --confluent-api-key" in ended.stderr
    assert "hush" not in ended.stdout + ended.stderr + " ".join((*ended.calls, *ended.options))


@pytest.mark.parametrize("status", [0, 1, 2, 130])
def test_the_status_is_that_of_the_verb(script: Script, status: int) -> None:
    assert script.run("create", "--profile=local", env={"STATUS": str(status)}).status == status


def test_a_signal_reaches_the_verb(script: Script) -> None:
    hold = script.folder / "hold"
    with script.begin("create", "--profile=local", env={"HOLD": str(hold)}) as first:
        while not (hold.exists() and hold.read_text()):
            assert first.poll() is None
            time.sleep(0.01)
        first.communicate("\n")

    assert hold.read_text() == f"{first.pid}\n", "it has the process id of the script"


def test_the_data_is_kept_on_request(script: Script) -> None:
    ended = script.run("delete", "--profile=local", "--keep-data", "--yes")

    assert ended.calls == ["delete"]
    assert {"--keep-data", "--yes"} <= ended.options


def test_one_key_is_rotated_and_the_old_one_taken_out_of_use_on_request(script: Script) -> None:
    ended = script.run("rotate", "--profile=me", "--secret=producer", "--leaked")

    assert (ended.status, ended.calls) == (0, ["rotate"])
    assert ended.options == {"--profile=me", "--environment=dev", "--secret=producer", "--leaked"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["destroy", "--profile=local"], "Unknown command `destroy`"),
        (["create"], "expected --profile=PROFILE"),
        (["create", "--profile="], "Unknown option `--profile`"),
        (["create", "--profile=local", "--keep-data"], "--keep-data is an option of delete"),
        (["create", "--profile=local", "--leaked"], "--leaked is an option of rotate"),
        (["create", "--profile=local", "--secret=producer"], "--secret is an option of rotate"),
        (["rotate", "--profile=local", "--secret="], "Unknown option `--secret`"),
        (["create", "--profile=local", "--snowflake-warehous=WH"], "Unknown option `--snowflake-warehous`"),
    ],
)
def test_misuse_is_said_and_nothing_is_begun(script: Script, arguments: list[str], complaint: str) -> None:
    ended = script.run(*arguments)

    assert (ended.status, ended.calls) == (2, [])
    assert complaint in ended.stderr
    assert "hint: " in ended.stderr


def test_help_is_the_scripts_own_heading(script: Script) -> None:
    ended = script.run("--help")

    assert ended.status == 0
    assert "Usage: scripts/deploy.sh create|delete|plan|check|outputs|rotate --profile=PROFILE" in ended.stdout
    assert "--keep-data" in ended.stdout


def test_the_script_is_short() -> None:
    code = [line for line in SCRIPT.read_text().splitlines() if line.strip() and not line.startswith("#")]

    assert len(code) < 100
