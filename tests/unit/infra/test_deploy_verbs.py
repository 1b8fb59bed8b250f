"""Verbs of scripts/deploy.sh in one process: which steps, in which order, with what, and what is asked before."""

from __future__ import annotations

import io
import os
import select
import termios
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from frazil.model.errors import ServiceError, SettingError
from infra.deploy import steps
from infra.deploy.__main__ import run
from infra.deploy.accounts.snowflake_account import Recorded, remember
from infra.deploy.asked import Asked
from infra.deploy.cloud import Services
from infra.deploy.deployment import Deployment
from infra.deploy.local.services import AWS, BROKER, SNOWFLAKE
from infra.deploy.prompts import hidden
from infra.deploy.steps import STEPS
from infra.deploy.verbs import VERBS
from infra.settings.file import load_environment
from infra.settings.model import EnvironmentSettings, ExternalKafka, ExternalRegistry
from infra.terraform.run_lock import alone

ALL_STACKS = "network confluent lake secrets connectors jobs exports snowflake"
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
    "apply exports snowflake",
    "summary",
]
DELETE = [
    "services-up",
    "confirm-delete",
    "destroy snowflake exports jobs connectors",
    "delete-keys",
    "empty",
    "destroy secrets lake confluent network",
    "inventory",
    "services-down",
]
PLAN = ["check", "services-up", "artefacts", f"plan {ALL_STACKS}"]
ASKED_FOR = (
    "CONFLUENT_CLOUD_API_KEY",
    "CONFLUENT_CLOUD_API_SECRET",
    "SNOWFLAKE_ORGANIZATION_NAME",
    "SNOWFLAKE_ACCOUNT_NAME",
    "SNOWFLAKE_PRIVATE_KEY",
)
OWN_KAFKA = ExternalKafka(
    name="own",
    bootstrap_servers="b:9092",
    protocol="plaintext",
    mechanism=None,
    msk_iam=False,
    credentials=None,
    registry=ExternalRegistry("https://registry", None),
)


@dataclass
class Did:
    """What a run did: its steps, what the last one found in the environment, and which data it was to keep."""

    folder: Path
    steps: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    accounts: list[str | None] = field(default_factory=list)
    kept: set[bool] = field(default_factory=set)
    during: Mapping[str, Callable[[], None]] = field(default_factory=dict)

    def step(self, name: str) -> Callable[[Deployment, Asked], None]:
        def do(deployment: Deployment, asked: Asked) -> None:
            self.steps.append(" ".join((name, *asked.stacks)))
            self.secrets = {name: os.environ[name] for name in ASKED_FOR if name in os.environ}
            account = deployment.settings.snowflake
            self.accounts.append(account and account.identifier)
            self.kept.add(asked.keeps_data)
            self.during.get(name, lambda: None)()

        return do


@pytest.fixture
def did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Did]:
    """A run with stand-ins for all steps, with records in a folder of its own and no secrets in the environment."""
    here = Did(tmp_path)
    for name in STEPS:
        monkeypatch.setitem(steps.STEPS, name, here.step(name))  # type: ignore[misc]
    monkeypatch.setattr("infra.deploy.session.compare_accounts", lambda *_: None)
    monkeypatch.setattr("infra.deploy.session.recall", lambda *_: here.steps.append("recall"))
    monkeypatch.setattr("infra.deploy.deployment.folder_of", lambda *_: tmp_path)
    with patch.dict(os.environ):
        for name in ASKED_FOR:
            os.environ.pop(name, None)
        yield here


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def with_settings(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[EnvironmentSettings], EnvironmentSettings]
) -> None:
    monkeypatch.setattr("infra.deploy.deployment.load_environment", lambda *told: change(load_environment(*told)))


def deploy(*words: str) -> int:
    return run([*words, "--profile=me", "--environment=dev"])


@pytest.mark.parametrize(("verb", "calls"), [("create", CREATE), ("delete", DELETE), ("plan", PLAN)])
def test_the_steps_of_a_verb_come_in_their_order(
    did: Did, monkeypatch: pytest.MonkeyPatch, verb: str, calls: list[str]
) -> None:
    typed(monkeypatch, "key\nsecret\n")

    assert deploy(verb) == 0
    assert did.steps == ["recall", *calls]
    assert {call.step for calls in VERBS.values() for call in calls} <= STEPS.keys()


@pytest.mark.parametrize(
    "words", [("check",), ("outputs",), ("rotate",), ("keys",), ("plan", "jobs"), ("apply", "lake")]
)
def test_a_single_step_runs_alone_and_asks_nothing(did: Did, words: tuple[str, ...]) -> None:
    assert deploy(*words) == 0
    assert did.steps == [" ".join(words)]


def test_a_step_that_fails_is_the_last_one(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ServiceError("no answer", hint="try again")

    did.during = {"keys": fail}
    typed(monkeypatch, "key\nsecret\n")

    assert deploy("create") == ServiceError.exit_status
    assert did.steps[-1] == "keys"
    assert "ServiceError: no answer" in capsys.readouterr().err


def test_ctrl_c_ends_the_run_with_its_own_status(did: Did, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    did.during = {"upload": interrupt}
    typed(monkeypatch, "key\nsecret\n")

    assert (deploy("create"), did.steps[-1]) == (130, "upload")


def test_each_step_sees_the_account_that_one_before_it_recorded(did: Did, monkeypatch: pytest.MonkeyPatch) -> None:
    did.during = {"apply": lambda: remember(Recorded("ACME", "LAKE"), did.folder)}
    typed(monkeypatch, "key\nsecret\n")

    deploy("create")

    assert did.accounts == [*[None] * 6, *["ACME-LAKE"] * 8]


def test_local_services_are_asked_for_their_addresses_until_they_are_up(
    did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Services] = []

    def find(folder: Path) -> Services:
        assert folder == did.folder
        assert "FRAZIL_CONFIG" not in os.environ, "`frazil local status` would look for the services beside that file"
        started = "services-up" in did.steps
        addresses = {BROKER: f"127.0.0.1:{9092 + started}", AWS: "http://a", SNOWFLAKE: "http://127.0.0.1:1"}
        asked.append(Services(addresses, "http://a", are_up=started))
        return asked[-1]

    monkeypatch.setattr("infra.deploy.local.services.find", find)
    monkeypatch.setenv("FRAZIL_CONFIG", "another/frazil.yaml")
    brokers: list[str] = []
    did.during = {name: lambda: brokers.append(os.environ[BROKER]) for name in STEPS}

    assert run(["create", "--profile=local", "--environment=local"]) == 0

    assert brokers == ["127.0.0.1:9092"] * 2 + ["127.0.0.1:9093"] * 12
    assert [each.are_up for each in asked] == [False, False, True]


@pytest.mark.parametrize("words", [("create",), ("delete",), ("outputs",), ("destroy", "lake"), ("apply", "jobs")])
def test_a_second_run_at_the_same_time_is_told_of_the_first(
    did: Did, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with alone("dev", did.folder):
        assert deploy(*words) == ServiceError.exit_status
        assert deploy("check") == deploy("policy") == 0

    assert did.steps == ["check", "policy"]
    assert f"in progress for the environment dev: process {os.getpid()}\n" in capsys.readouterr().err


def test_the_lock_ends_with_the_run_and_a_dead_process_holds_none(did: Did) -> None:
    did.folder.with_name(f"{did.folder.name}.running").write_text("1\n")

    assert deploy("outputs") == deploy("outputs") == 0


@pytest.mark.parametrize("method", ["chmod", "open"])
def test_an_environment_of_another_user_is_refused_with_a_hint(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as other:
        other.setattr(Path, method, refuse)
        other.setattr("infra.deploy.session.refuse_unknown", lambda _: None)
        status = deploy("outputs")

    assert (status, did.steps) == (SettingError.exit_status, [])
    told = capsys.readouterr().err
    assert "the files of the environment dev belong to another user: Operation not permitted" in told
    assert f"`ls -ld {did.folder}`" in told


@pytest.mark.parametrize("environment", ["../../elsewhere", "never-written"])
def test_an_environment_is_known_before_a_file_is_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: str
) -> None:
    checkout = tmp_path / "checkout" / "with" / "folders"
    monkeypatch.setattr("infra.deploy.deployment.folder_of", lambda name: checkout / name)

    assert run(["outputs", "--profile=me", f"--environment={environment}"]) == SettingError.exit_status

    assert f"unknown environment {environment}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_each_step_so_that_it_can_be_run_alone(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "typed-key\nhush\n")

    deploy("plan", "--debug")

    told = capsys.readouterr().err
    assert f"+ .venv/bin/python -m infra.deploy plan {ALL_STACKS} --debug --profile=me --environment=dev\n" in told
    assert "hush" not in told


def test_the_data_is_kept_on_request(did: Did, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "key\nsecret\n")

    deploy("delete", "--keep-data", "--yes")

    assert did.kept == {True}


# asked before the first step


def test_missing_secrets_are_asked_for_and_not_shown(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "typed-key\nhush\n")

    assert deploy("create") == 0

    assert did.secrets == {"CONFLUENT_CLOUD_API_KEY": "typed-key", "CONFLUENT_CLOUD_API_SECRET": "hush"}
    assert "hush" not in "".join(capsys.readouterr())


def test_secrets_from_the_environment_are_taken_without_a_word(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"CONFLUENT_CLOUD_API_KEY": "key", "CONFLUENT_CLOUD_API_SECRET": "hush"}
    os.environ.update(given)
    typed(monkeypatch, "")

    assert deploy("create") == 0
    assert did.secrets == given
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("answers", ["", "typed-key\n", "\nsecret\n"])
def test_where_nobody_can_be_asked_the_variables_are_named(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answers: str
) -> None:
    typed(monkeypatch, answers)

    assert (deploy("create"), did.steps) == (2, [])
    assert "hint: export CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET" in capsys.readouterr().err


def test_an_environment_without_confluent_is_not_asked_for_its_keys(did: Did, monkeypatch: pytest.MonkeyPatch) -> None:
    with_settings(monkeypatch, lambda settings: replace(settings, kafka=OWN_KAFKA))
    typed(monkeypatch, "")

    assert (deploy("create"), did.secrets) == (0, {})


def test_settings_that_cannot_be_read_are_not_taken_for_ones_without_confluent(
    did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: EnvironmentSettings) -> EnvironmentSettings:
        raise SettingError("no such file", hint="write it")

    with_settings(monkeypatch, unreadable)

    assert (deploy("create"), did.steps) == (2, [])


def test_a_warehouse_alone_is_completed_by_the_account_that_is_asked_for(
    did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kickstarter's command line names a warehouse alone."""
    typed(monkeypatch, "key\nsecret\nACME\nLAKE\npem\n")

    assert deploy("plan", "--snowflake-warehouse=WH") == 0
    assert {*did.accounts} == {"ACME-LAKE"}
    assert did.secrets["SNOWFLAKE_PRIVATE_KEY"] == "pem\n"


def test_an_account_that_cannot_be_asked_for_is_misuse_that_names_the_flags(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "key\nsecret\nACME\n")

    assert (deploy("plan", "--snowflake-warehouse=WH"), did.steps) == (2, ["recall"])
    assert "hint: add --snowflake-organization= and --snowflake-account=" in capsys.readouterr().err


def test_an_account_that_the_shared_state_names_is_not_asked_for(did: Did, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.deploy.session.recall", lambda *_: remember(Recorded("ACME", "LAKE"), did.folder))
    typed(monkeypatch, "key\nsecret\npem\n")

    assert deploy("plan", "--snowflake-warehouse=WH") == 0
    assert (did.accounts[0], did.secrets["SNOWFLAKE_PRIVATE_KEY"]) == ("ACME-LAKE", "pem\n")


def test_the_key_for_snowflake_is_all_that_is_left_to_read_and_not_shown(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"
    typed(monkeypatch, f"key\nsecret\n{pem}")

    account = ("--snowflake-warehouse=WH", "--snowflake-organization=ACME", "--snowflake-account=LAKE")
    assert deploy("plan", *account) == 0
    assert did.secrets["SNOWFLAKE_PRIVATE_KEY"] == pem
    assert "hush" not in "".join(capsys.readouterr())


def test_an_empty_key_for_snowflake_is_an_error(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "key\nsecret\n \n")

    account = ("--snowflake-warehouse=WH", "--snowflake-organization=ACME", "--snowflake-account=LAKE")
    assert deploy("plan", *account) == SettingError.exit_status
    assert "private key of its Snowflake user, found none" in capsys.readouterr().err


def test_a_key_that_is_pasted_before_the_prompt_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.openpty()
    with os.fdopen(theirs, "w") as keyboard, os.fdopen(ours) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        keyboard.write("pem\n")
        keyboard.flush()

        with hidden():
            is_kept = bool(select.select([terminal], [], [], 1)[0])

    assert is_kept


def test_the_rest_of_a_paste_does_not_reach_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.openpty()
    with os.fdopen(theirs, "w") as keyboard, os.fdopen(ours) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)

        with hidden():
            keyboard.write("pem\n")
            keyboard.flush()
            assert select.select([terminal], [], [], 1)[0]

        assert not select.select([terminal], [], [], 0.1)[0]


def test_a_key_for_snowflake_in_the_environment_is_taken_and_no_other_is_asked_for(
    did: Did, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ["SNOWFLAKE_PRIVATE_KEY"] = "given"
    typed(monkeypatch, "key\nsecret\nanother\n")

    account = ("--snowflake-warehouse=WH", "--snowflake-organization=ACME", "--snowflake-account=LAKE")
    assert deploy("create", *account) == 0
    assert did.secrets["SNOWFLAKE_PRIVATE_KEY"] == "given"
    assert "Snowflake" not in capsys.readouterr().err


def test_a_terminal_shows_nothing_while_a_key_is_pasted_and_everything_again_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs, ours = os.openpty()
    with os.fdopen(theirs), os.fdopen(ours) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)

        def shows() -> bool:
            return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)

        with pytest.raises(KeyboardInterrupt), hidden():
            shown = shows()
            raise KeyboardInterrupt

        assert (shown, shows()) == (False, True)
