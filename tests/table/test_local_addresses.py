"""`${local:…}` leads to the services of the folder, or nowhere: never to another process that holds a port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from frazil.cli.app import run
from frazil.local.processes import _started
from frazil.local.state import Running, ServiceState, write_state
from frazil.local.supervisor import LocalServices, running_address
from frazil.model.settings import NOT_RUNNING_HOST

PORTS = {
    "bootstrap_servers": "broker",
    "schema_registry_url": "registry",
    "aws_endpoint_url": "aws",
    "rest_catalog_url": "rest",
}


@pytest.fixture
def port() -> Iterator[int]:
    """A port on loopback that this process listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def recorded(directory: Path, port: int, *, by: Running | None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    write_state(directory, {name: ServiceState({"main": port}, by) for name in PORTS.values()})
    return directory


def this_process() -> Running:
    return Running(os.getpid(), str(_started(os.getpid())))


@pytest.mark.parametrize("name", PORTS)
def test_a_service_that_runs_gives_the_port_that_it_got(tmp_path: Path, port: int, name: str) -> None:
    directory = recorded(tmp_path, port, by=this_process())

    assert f"127.0.0.1:{port}" in running_address(name, directory)


@pytest.mark.parametrize("name", PORTS)
def test_a_stranger_on_the_port_is_never_led_to(tmp_path: Path, port: int, name: str) -> None:
    stopped = recorded(tmp_path / "stopped", port, by=None)
    dead = recorded(tmp_path / "dead", port, by=Running(2**22 + 1, "0"))

    found = [running_address(name, folder) for folder in (tmp_path / "never-started", stopped, dead)]

    assert [NOT_RUNNING_HOST in address and str(port) not in address for address in found] == [True] * 3


CONFIG = """\
kafka: {bootstrap.servers: "${local:bootstrap_servers}"}
schema_registry: {url: "${local:schema_registry_url}"}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "orders.yaml").write_text("topic: orders\n")
    (tmp_path / "frazil.yaml").write_text(CONFIG)
    return str(tmp_path / "frazil.yaml")


def test_a_service_beside_the_usual_ones_is_started_by_its_name(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    def up(services: Sequence[str], directory: Path) -> LocalServices:
        started.extend(services)
        return LocalServices("b", "r", "a", "http://127.0.0.1:8181")

    monkeypatch.setattr("frazil.local.supervisor.up", up)

    assert run(["local", "up", "--config", config]) == 0
    assert run(["local", "up", "rest", "--config", config]) == 0
    usual = ["registry", "aws", "broker"]
    assert started == [*usual, *usual, "rest"]
    assert capsys.readouterr().out.count("rest_catalog_url     http://127.0.0.1:8181\n") == 1


def test_what_needs_no_broker_works_without_local_services(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--offline", "--config", config]) == 0
    assert run(["status", "--config", config]) == 0
    assert "lake.orders  no table" in capsys.readouterr().out


def test_check_says_at_once_that_the_local_services_are_not_running(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "--config", config]) == 1

    said = capsys.readouterr().err
    assert f"the local Kafka broker that {config} refers to is not running" in said
    assert f"the local schema registry that {config} refers to is not running" in said
    assert "run `frazil local up`" in said


def test_produce_writes_to_no_stranger(config: str, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(Path(config).parent / ".frazil" / "local", port, by=None)

    assert run(["local", "produce", "--config", config]) == 1

    assert "is not running" in capsys.readouterr().err


def test_an_address_that_there_is_not_is_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(config).write_text(CONFIG.replace("bootstrap_servers", "bootstrap"))

    assert run(["check", "--offline", "--config", config]) == 2

    said = capsys.readouterr().err
    assert "unknown local service address bootstrap" in said
    assert "${local:bootstrap_servers}" in said
