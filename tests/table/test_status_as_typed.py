"""`frazil status` as it is typed: metrics, and a page with plots, of a table in a real catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.adapters.kafka.topics import KafkaTopics
from frazil.cli.app import run
from frazil.model.errors import BrokerError, Misuse, SettingError

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer at once that no broker does, instead of after seconds."""

    def describe(_: KafkaTopics, topic: str) -> None:
        raise BrokerError(f"no broker answers for {topic}", hint="start it")

    monkeypatch.setattr(KafkaTopics, "describe", describe)


def test_the_page_is_written_with_the_table_and_its_past(config: str, tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "status.html"

    assert run(["status", "--html", str(page), "--config", config]) == 0

    text = page.read_text(encoding="utf-8")
    assert capsys.readouterr().out == ""
    assert text.startswith("<!DOCTYPE html>")
    assert "no broker answers for orders; start it" in text
    assert ": 147 rows<" in text
    assert "2 files, 2 small" in text


def test_a_page_that_cannot_be_written_is_misuse(config: str, tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "missing" / "status.html"

    assert run(["status", "--html", str(page), "--config", config]) == Misuse.exit_status

    assert f"cannot write {page}: No such file or directory" in capsys.readouterr().err


def test_metrics_are_printed_without_the_lag_that_is_unknown(config: str, capsys: Captured) -> None:
    assert run(["status", "--prometheus", "--config", config]) == 0

    out = capsys.readouterr().out
    assert 'frazil_rows{table="lake.orders"} 147\n' in out
    assert "frazil_kafka_up 0\n" in out
    assert "frazil_lag_records" not in out


def test_only_one_form_can_be_asked_for(config: str, capsys: Captured) -> None:
    assert run(["status", "--prometheus", "--json", "--config", config]) == SettingError.exit_status

    assert "mutually exclusive" in capsys.readouterr().err
