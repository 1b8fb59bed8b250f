"""What does not answer, or cannot be written, is said soon and with its address."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from frazil.adapters.iceberg.glue_catalog import QuickGlueCatalog
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.storage.probe import bounded
from frazil.adapters.storage.warehouse_folder import check_warehouse
from frazil.cli.app import run
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling.fair_queue import FairQueue
from frazil.materialize.scheduling.schedule import RETRY_WAITS_SECONDS, Stopping, _until_caught_up, retrying
from frazil.model.errors import BrokerError, CatalogError, SettingError
from frazil.model.secret import SettingValue
from frazil.model.settings import CatalogSettings
from tests.table.small_lake import spec_of


def test_a_cluster_that_refuses_connections_is_known_to_be_unreachable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without that, the only limit would be the one for slow answers, which is out of reach here."""
    monkeypatch.setattr("frazil.adapters.kafka.topics.FIRST_ANSWER_SECONDS", 300.0)
    monkeypatch.setattr("frazil.adapters.kafka.topics.ANSWER_SECONDS", 300.0)
    topics = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerError, match=r"the Kafka cluster at 127\.0\.0\.1:1 could not describe the topic orders"):
        topics.describe("orders")
    with pytest.raises(BrokerError):
        topics.describe("orders")

    assert [each.message for each in caplog.records] == ["cluster_silent"], "said once, with or without a terminal"


class Clock:
    """Time that passes while an answer is awaited that never comes."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def result(self, seconds: float) -> None:
        self.now += seconds
        raise TimeoutError


@pytest.mark.parametrize(("start", "told"), [(0.0, 5.0), (2.0, 5.0), (8.0, 9.5)])
def test_a_cluster_that_does_not_answer_is_reported_within_ten_seconds_of_the_start(
    start: float, told: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is opened at 0, and asked for the first time after the imports."""
    clock = Clock()
    monkeypatch.setattr("frazil.adapters.kafka.topics.time", clock)
    topics = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(
        topics, "_admin", SimpleNamespace(poll=lambda _: 0, describe_topics=lambda *_, **__: {"orders": clock})
    )
    clock.now = start
    run = SimpleNamespace(
        spec=spec_of("orders"),
        clients=SimpleNamespace(topics=topics),
        client_source=None,
    )

    report = _until_caught_up(cast(TableRun, run), cast(FairQueue, None), Stopping(), ends_by_itself=True)

    assert isinstance(report.failure, BrokerError)
    assert clock.now == pytest.approx(told, abs=0.2)


def test_glue_is_asked_twice_by_who_waits_and_as_often_as_a_configuration_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyIceberg would ask eleven times, with waits of up to 20 s, and takes no text for a number."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")

    def attempts(properties: Mapping[str, SettingValue]) -> int:
        lake = IcebergLake(CatalogSettings("glue", "s3://lake/warehouse", properties))
        return int(cast(QuickGlueCatalog, lake.catalog).glue.meta.config.retries["total_max_attempts"])

    assert attempts(bounded(5.0)) == 2
    assert attempts({"glue.max-retries": "4"}) == 5


@pytest.mark.parametrize("value", ["x", "-1", "2.5", ""])
def test_a_number_of_attempts_for_glue_that_is_none_is_a_wrong_setting(value: str) -> None:
    lake = IcebergLake(CatalogSettings("glue", "s3://lake/warehouse", {"glue.max-retries": value}))

    with pytest.raises(SettingError, match=f"glue.max-retries: expected a whole number .*, found '{value}'"):
        lake.load("lake.orders")


def test_a_new_cluster_is_asked_again_while_it_has_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.adapters.kafka.coordinator.PAUSE_SECONDS", 0.0)
    answers = [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        None,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    ]

    def answered(groups: list[str], **_: object) -> dict[str, Future[None]]:
        answer: Future[None] = Future()
        code = answers.pop(0)
        answer.set_result(None) if code is None else answer.set_exception(KafkaException(KafkaError(code)))
        return {groups[0]: answer}

    topics = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(topics, "_admin", SimpleNamespace(poll=lambda _: 0, describe_consumer_groups=answered))

    assert topics.look_up_group().startswith("readers may name the group")
    with pytest.raises(BrokerError):
        topics.look_up_group()
    assert answers == [], "another refusal is final"


class Failing(Stopping):
    """Sleeps for no time, and counts the attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def sleep(self, seconds: float) -> bool:
        del seconds
        return False

    def fail(self) -> None:
        self.attempts += 1
        raise BrokerError("down", hint="")


def test_a_run_that_goes_on_for_ever_tries_as_often_as_before() -> None:
    failing = Failing()

    with pytest.raises(BrokerError):
        retrying(failing.fail, failing)

    assert failing.attempts == len(RETRY_WAITS_SECONDS) + 1


def test_a_warehouse_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CatalogError, match=f"{tmp_path / 'file'} is not a folder") as said:
        check_warehouse(CatalogSettings("jdbc", str(tmp_path / "file" / "warehouse")))

    assert said.value.worth_retrying is False


def test_a_folder_in_place_of_the_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").mkdir()

    with pytest.raises(CatalogError, match=f"{tmp_path / 'catalog.db'} is not a file") as said:
        check_warehouse(CatalogSettings("jdbc", str(tmp_path)))

    assert said.value.worth_retrying is False


def test_a_link_that_leads_nowhere_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")

    with pytest.raises(CatalogError, match=f"{tmp_path / 'link'} is not a folder"):
        check_warehouse(CatalogSettings("jdbc", str(tmp_path / "link" / "warehouse")))


@pytest.mark.parametrize("refusal", [FileNotFoundError(2, "No such file or directory"), OSError(30, "Read-only")])
def test_a_warehouse_folder_that_cannot_be_created_fails_at_once(
    tmp_path: Path, refusal: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "warehouse"

    def refuse(path: Path, **_: object) -> None:
        raise refusal

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(CatalogError) as said:
        IcebergLake(CatalogSettings("jdbc", str(folder))).load("lake.orders")

    assert said.value.what == f"cannot create the warehouse folder {folder}: {refusal.strerror}"
    assert said.value.worth_retrying is False


def test_a_file_that_is_no_database_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("not a database. " * 100)

    with pytest.raises(CatalogError, match="file is not a database") as said:
        IcebergLake(CatalogSettings("jdbc", str(tmp_path))).load("lake.orders")

    assert said.value.worth_retrying is False
    assert said.value.hint == "move away what is in the way, or change `catalog.warehouse` in frazil.yaml"


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

    assert re.search(r"cannot write to the warehouse \S+: the folder \S+ is not writable", capsys.readouterr().err)
    assert time.monotonic() - began < 60, "nothing is retried"
