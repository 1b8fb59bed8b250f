"""What does not answer, or cannot be written, is said soon and with its address."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from frazil.adapters.kafka import KafkaTopics
from frazil.adapters.warehouse_folder import check_warehouse
from frazil.cli.app import run
from frazil.materialize.schedule import RETRY_WAITS_SECONDS, Stopping, retrying
from frazil.model.errors import BrokerError, CatalogError
from frazil.model.spec import CatalogSettings


def test_a_cluster_that_refuses_connections_is_known_to_be_unreachable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without that, the only limit would be the one for slow answers, which is out of reach here."""
    monkeypatch.setattr("frazil.adapters.kafka.FIRST_ANSWER_SECONDS", 300.0)
    monkeypatch.setattr("frazil.adapters.kafka.ANSWER_SECONDS", 300.0)
    topics = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerError, match=r"the Kafka cluster at 127\.0\.0\.1:1 could not describe the topic orders"):
        topics.describe("orders")
    with pytest.raises(BrokerError):
        topics.describe("orders")

    assert [each.message for each in caplog.records] == ["cluster_silent"], "said once, with or without a terminal"


class Clock(Stopping):
    """Sleeps by moving the clock; each attempt takes `attempt` seconds."""

    def __init__(self, attempt: float) -> None:
        super().__init__()
        self.now, self.attempt, self.attempts = 0.0, attempt, 0

    def sleep(self, seconds: float) -> bool:
        self.now += seconds
        return False

    def fail(self) -> None:
        self.attempts += 1
        self.now += self.attempt
        raise BrokerError("down", hint="")


@pytest.mark.parametrize(("attempt", "attempts"), [(3.0, 2), (8.0, 1), (0.1, 4)])
def test_a_run_that_ends_by_itself_says_within_ten_seconds_that_nothing_answers(
    attempt: float, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(attempt)
    monkeypatch.setattr("frazil.materialize.schedule.time", clock)
    monkeypatch.setattr(clock, "monotonic", lambda: clock.now, raising=False)

    with pytest.raises(BrokerError):
        retrying(clock.fail, clock, within=10.0)

    assert (clock.attempts, clock.now <= 10.0) == (attempts, True)


def test_a_run_that_goes_on_for_ever_tries_as_often_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1.0)

    with pytest.raises(BrokerError):
        retrying(clock.fail, clock)

    assert clock.attempts == len(RETRY_WAITS_SECONDS) + 1


def test_a_warehouse_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CatalogError, match=f"{tmp_path / 'file'} is not a folder") as said:
        check_warehouse(CatalogSettings("jdbc", str(tmp_path / "file" / "warehouse")))

    assert said.value.worth_retrying is False


@pytest.mark.parametrize("name", ["warehouse", "catalog.db"])
def test_a_warehouse_that_cannot_be_written_is_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    (folder / "catalog.db").write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != name)

    with pytest.raises(CatalogError, match=f"{name} is not writable"):
        check_warehouse(CatalogSettings("jdbc", str(folder)))


@pytest.mark.parametrize("command", [["check"], ["materialize", "--once"]])
def test_commands_that_write_refuse_a_warehouse_that_cannot_be_written_at_once(
    command: list[str], config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "warehouse" and access(path, mode))
    began = time.monotonic()

    assert run([*command, "--config", config]) == 1

    assert "cannot be written: the folder" in capsys.readouterr().err
    assert time.monotonic() - began < 60, "nothing is retried"
