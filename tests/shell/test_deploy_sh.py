"""scripts/deploy.sh with stand-ins for what it calls: which steps, in which order, and what they are told."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "deploy.sh"
STEP = f"""#!/usr/bin/env bash
if [ "$1" = -c ]; then exec {sys.executable} "$@"; fi
case $3 in
  needs-snowflake-account) echo "${{ACCOUNT:-no}}" ;;
  needs-*) [ "$3" = "${{NEEDLESS:-}}" ] && echo no || echo yes ;;
esac
printf '%s\\n' "${{*:3}}" >> "$CALLS"
env | grep -E '^(CONFLUENT|SNOWFLAKE_(ORG|ACC))' | sort > "$SECRETS"
if [ -n "${{SNOWFLAKE_PRIVATE_KEY:-}}" ]; then printf '%s' "$SNOWFLAKE_PRIVATE_KEY" >> "$SECRETS"; fi
case $3 in "${{FAILING:-nothing}}") echo "$3 failed" >&2; exit 1 ;; esac
"""
CREATE = [
    "check",
    "services-up",
    "artefacts",
    "free-names",
    "destroy-removed connectors",
    "apply network confluent lake secrets",
    "keys",
    "topics",
    "apply connectors",
    "upload",
    "apply jobs",
    "tables",
    "apply snowflake",
    "summary",
]
DELETE = [
    "services-up",
    "confirm-delete",
    "destroy snowflake jobs connectors",
    "delete-keys",
    "empty",
    "destroy secrets lake confluent network",
    "inventory",
    "services-down",
]


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str
    steps: list[str]
    """Each without the options that all have."""
    options: set[str]
    secrets: str


@dataclass(frozen=True)
class Script:
    folder: Path

    @property
    def lock(self) -> Path:
        path = self.folder / ".frazil" / "deploy" / "local.running"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, typed: str = "") -> Ended:
        calls, secrets = self.folder / "calls", self.folder / "secrets"
        bare = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(calls), "SECRETS": str(secrets)}
        ended = subprocess.run(
            [self.folder / "scripts" / "deploy.sh", *arguments],
            env=bare | dict(env or {}),
            input=typed,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        lines = calls.read_text().splitlines() if calls.exists() else []
        return Ended(
            status=ended.returncode,
            stdout=ended.stdout,
            stderr=ended.stderr,
            steps=[" ".join(word for word in line.split() if not word.startswith("--")) for line in lines],
            options={word for line in lines for word in line.split() if word.startswith("--")},
            secrets=secrets.read_text() if secrets.exists() else "",
        )


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    for name, text in {".venv/bin/python": STEP, "bin/make": "#!/bin/sh\n"}.items():
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


@pytest.mark.parametrize(
    ("verb", "steps"),
    [("create", CREATE), ("delete", DELETE), ("check", ["check"]), ("outputs", ["outputs"]), ("rotate", ["rotate"])],
)
def test_the_steps_come_in_their_order(script: Script, verb: str, steps: list[str]) -> None:
    ended = script.run(verb, "--profile=local")

    assert (ended.status, ended.steps) == (0, steps)
    assert ended.options == {"--profile=local", "--environment=local"}


def test_plan_makes_nothing(script: Script) -> None:
    assert script.run("plan", "--profile=local").steps == [
        "check",
        "services-up",
        "artefacts",
        "plan network confluent lake secrets connectors jobs snowflake",
    ]


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


def test_an_account_that_nobody_named_is_asked_for(script: Script) -> None:
    ended = script.run(
        "plan", "--profile=me", "--snowflake-warehouse=WH", env={"ACCOUNT": "yes"}, typed="key\nsecret\nACME\nLAKE\n"
    )

    assert ended.status == 0
    assert "SNOWFLAKE_ACCOUNT_NAME=LAKE\nSNOWFLAKE_ORGANIZATION_NAME=ACME\n" in ended.secrets


def test_an_account_that_cannot_be_asked_for_is_misuse_that_names_the_flags(script: Script) -> None:
    ended = script.run(
        "plan", "--profile=me", "--snowflake-warehouse=WH", env={"ACCOUNT": "yes"}, typed="key\nsecret\nACME\n"
    )

    assert (ended.status, ended.steps[-1]) == (2, "needs-snowflake-account")
    assert "hint: add --snowflake-organization= and --snowflake-account=" in ended.stderr


def test_the_key_for_snowflake_may_be_a_file(script: Script, tmp_path: Path) -> None:
    (tmp_path / "key.p8").write_text("pem of hush\n")

    ended = script.run(
        "plan", "--profile=me", f"--snowflake-private-key-file={tmp_path / 'key.p8'}", typed="key\nsecret\n"
    )

    assert ended.secrets.endswith("pem of hush")
    assert not any("key.p8" in option for option in ended.options)


def test_secrets_travel_by_environment_and_the_flag_is_warned_about(script: Script) -> None:
    ended = script.run("create", "--profile=me", "--confluent-api-key=key", "--confluent-api-secret=hush", "--debug")

    assert ended.secrets == "CONFLUENT_CLOUD_API_KEY=key\nCONFLUENT_CLOUD_API_SECRET=hush\n"
    assert "warning: --confluent-api-secret" in ended.stderr
    assert "warning: --confluent-api-key" in ended.stderr
    assert "hush" not in ended.stdout + ended.stderr + " ".join((*ended.steps, *ended.options))


def test_secrets_from_the_environment_are_taken_without_a_word(script: Script) -> None:
    ended = script.run(
        "create", "--profile=me", env={"CONFLUENT_CLOUD_API_KEY": "key", "CONFLUENT_CLOUD_API_SECRET": "hush"}
    )

    assert ended.secrets == "CONFLUENT_CLOUD_API_KEY=key\nCONFLUENT_CLOUD_API_SECRET=hush\n"
    assert "warning" not in ended.stderr


def test_missing_secrets_are_asked_for_and_not_shown(script: Script) -> None:
    ended = script.run("create", "--profile=me", typed="typed-key\nhush\n")

    assert ended.secrets == "CONFLUENT_CLOUD_API_KEY=typed-key\nCONFLUENT_CLOUD_API_SECRET=hush\n"
    assert "hush" not in ended.stdout + ended.stderr


def test_the_key_for_snowflake_is_all_that_is_left_to_read_and_not_shown(script: Script) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"

    ended = script.run("plan", "--profile=me", typed=f"typed-key\nsecret\n{pem}")

    assert ended.secrets.endswith(pem)
    assert "hush" not in ended.stdout + ended.stderr
    asked = ["needs-confluent", "recall", "needs-snowflake-account", "needs-snowflake"]
    assert ended.steps[:6] == [*asked, "check", "services-up"]


def test_a_key_for_snowflake_in_the_environment_is_taken_and_no_other_is_asked_for(script: Script) -> None:
    ended = script.run("create", "--profile=me", env={"SNOWFLAKE_PRIVATE_KEY": "given"}, typed="typed-key\nsecret\n")

    assert ended.secrets.endswith("given")
    assert "Snowflake" not in ended.stderr
    assert "needs-snowflake" not in ended.steps


def test_an_environment_without_confluent_is_not_asked_for_its_keys(script: Script) -> None:
    ended = script.run("create", "--profile=me", env={"NEEDLESS": "needs-confluent"})

    assert (ended.status, ended.secrets) == (0, "")


def test_settings_that_cannot_be_read_are_not_taken_for_ones_without_confluent(script: Script) -> None:
    ended = script.run("create", "--profile=me", env={"FAILING": "needs-confluent"})

    assert (ended.status, ended.steps) == (1, ["needs-confluent"])


@pytest.mark.parametrize("typed", ["", "typed-key\n"])
def test_where_nobody_can_be_asked_the_variables_are_named(script: Script, typed: str) -> None:
    ended = script.run("create", "--profile=me", typed=typed)

    assert (ended.status, ended.steps) == (2, ["needs-confluent"])
    assert "hint: export CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET" in ended.stderr


def test_a_step_that_fails_is_the_last_one(script: Script) -> None:
    ended = script.run("create", "--profile=local", env={"FAILING": "keys"})

    assert (ended.status, ended.steps[-1]) == (1, "keys")


@pytest.mark.parametrize("verb", ["create", "delete", "plan", "outputs"])
def test_a_second_run_at_the_same_time_is_told_of_the_first(script: Script, verb: str) -> None:
    with script.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(os.getpid(), file=lock, flush=True)

        ended = script.run(verb, "--profile=local")

        assert (ended.status, ended.steps) == (1, [])
        assert f"Another run is in progress for the environment local: process {os.getpid()}." in ended.stderr
        assert script.run(verb, "--profile=local", "--environment=dev").status == 0


def test_a_run_that_died_holds_nobody_up_though_its_number_is_anothers_now(script: Script) -> None:
    script.lock.write_text(f"{os.getpid()}\n")

    assert script.run("create", "--profile=local").status == 0


def test_the_data_is_kept_on_request(script: Script) -> None:
    ended = script.run("delete", "--profile=local", "--keep-data", "--yes")

    assert ended.steps == DELETE
    assert {"--keep-data", "--yes"} <= ended.options


def test_one_key_is_rotated_and_the_old_one_taken_out_of_use_on_request(script: Script) -> None:
    ended = script.run("rotate", "--profile=me", "--secret=producer", "--leaked")

    assert (ended.status, ended.steps) == (0, ["rotate"])
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

    assert (ended.status, ended.steps) == (2, [])
    assert complaint in ended.stderr
    assert "hint: " in ended.stderr


def test_help_is_the_scripts_own_heading(script: Script) -> None:
    ended = script.run("--help")

    assert ended.status == 0
    assert "Usage: scripts/deploy.sh create|delete|plan|check|outputs|rotate --profile=PROFILE" in ended.stdout
    assert "--keep-data" in ended.stdout


def test_the_script_is_short() -> None:
    code = [line for line in SCRIPT.read_text().splitlines() if line.strip() and not line.startswith("#")]

    assert len(code) < 150
