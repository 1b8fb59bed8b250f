from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from frazil.local.produce import produce
from frazil.local.rest import CLIENT_ID, CLIENT_SECRET
from frazil.local.rest_catalog.tokens import Tokens
from frazil.local.state import Running, read_state, write_state
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, status, up
from frazil.model.errors import ServiceError, SettingError

KAFKA = ("broker", "registry")
OTHER = Schema('{"type": "record", "name": "Other", "fields": []}', "AVRO")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's own, in which nothing runs afterwards."""
    try:
        yield tmp_path
    finally:
        down(tmp_path, wipe=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the double of AWS runs until one of the tests, which come in this order, stops it."""
    folder = tmp_path_factory.mktemp("shared")
    try:
        start(folder, "aws")
        yield folder
    finally:
        down(folder, wipe=True)


def start(directory: Path, *names: str) -> LocalServices:
    return up(names, directory, preferred_ports=ANY_FREE_PORTS)


def topics(services: LocalServices) -> set[str]:
    return set(AdminClient({"bootstrap.servers": services.bootstrap_servers}).list_topics(timeout=10).topics)


def subjects(services: LocalServices) -> list[str]:
    with SchemaRegistryClient({"url": services.schema_registry_url}) as registry:
        return registry.get_subjects()


def pids(directory: Path) -> list[int | None]:
    return [service.pid for service in status(directory).services]


def test_topics_and_schema_ids_outlive_down_and_up_and_a_wipe_removes_both(directory: Path) -> None:
    before = start(directory, *KAFKA)
    produced = produce(rows=100, services=before, topic="kept")
    down(directory)

    after = start(directory, *KAFKA)

    assert after == before
    assert topics(after) == {"kept"}
    assert produce(rows=1, services=after, topic="kept").schema_id == produced.schema_id
    with SchemaRegistryClient({"url": after.schema_registry_url}) as registry:
        assert registry.register_schema("other-value", OTHER) > produced.schema_id

    down(directory, wipe=True)

    services = start(directory, *KAFKA)
    assert (subjects(services), topics(services)) == ([], set())


def test_the_registry_keeps_what_it_acknowledged_when_it_is_killed(directory: Path) -> None:
    with SchemaRegistryClient({"url": start(directory, "registry").schema_registry_url}) as registry:
        registry.register_schema("kept-value", OTHER)
    for pid in filter(None, pids(directory)):
        os.kill(pid, signal.SIGKILL)

    assert subjects(start(directory, "registry")) == ["kept-value"]


def test_the_rest_catalog_keeps_what_it_acknowledged_when_it_is_killed(directory: Path) -> None:
    url = start(directory, "rest").rest_catalog_url
    asked_rest(url, "POST", "namespaces", {"namespace": ["kept"], "properties": {}})
    (front,) = filter(None, pids(directory))
    server = psutil.Process(front).children(recursive=True)
    os.kill(front, signal.SIGKILL)

    assert start(directory, "rest").rest_catalog_url == url
    assert asked_rest(url, "GET", "namespaces") == {"namespaces": [["kept"]]}
    _, alive = psutil.wait_procs(server, timeout=10)
    assert alive == []

    down(directory, wipe=True)

    assert asked_rest(start(directory, "rest").rest_catalog_url, "GET", "namespaces") == {"namespaces": []}


def asked_rest(url: str | None, method: str, path: str, body: object = None) -> dict[str, object]:
    token = Tokens(CLIENT_ID, CLIENT_SECRET).issue()
    request = urllib.request.Request(
        f"{url}/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, object] = json.load(answer)
    return {name: value for name, value in found.items() if value is not None}


def test_up_leaves_alone_what_runs(shared: Path) -> None:
    first, before = start(shared, "aws"), pids(shared)

    second = start(shared, "aws")

    assert (second, pids(shared)) == (first, before)


def test_status_is_json_with_the_addresses(shared: Path) -> None:
    shown = json.loads(json.dumps(status(shared).as_json()))

    addresses = {"bootstrap_servers", "schema_registry_url", "aws_endpoint_url", "rest_catalog_url"}
    assert set(shown) == {"directory", *addresses, "services"}
    assert shown["rest_catalog_url"] is None
    assert set(shown["services"]) == {"broker", "registry", "aws"}
    assert set(shown["services"]["aws"]) == {"name", "address", "running", "ready", "pid", "log"}
    assert status(shared / "never").as_json()["bootstrap_servers"] is None


def test_down_ends_the_processes_and_keeps_the_addresses(shared: Path) -> None:
    address = status(shared).aws_endpoint_url
    running = [pid for pid in pids(shared) if pid]

    assert down(shared) == ("aws",)

    assert running
    assert down(shared) == ()
    assert not any(psutil.pid_exists(pid) for pid in running)
    assert status(shared).aws_endpoint_url == address
    assert not any(service.running for service in status(shared).services)


def test_a_stale_process_id_is_neither_running_nor_stopped(shared: Path) -> None:
    down(shared)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        state = read_state(shared)
        stale = Running(stranger.pid, "another boot 1")
        write_state(shared, {name: type(entry)(entry.ports, stale) for name, entry in state.items()})

        before = [service.running for service in status(shared).services]
        down(shared)

        still_there = stranger.poll() is None
        stranger.kill()
    assert before == [False, False, False]
    assert still_there


def test_a_port_that_is_taken_is_left_to_its_owner_who_is_named(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        taken = owner.getsockname()[1]

        services = up(["aws"], directory, preferred_ports={"aws": {"main": taken}})

    assert services.aws_endpoint_url != f"http://127.0.0.1:{taken}"
    port = services.aws_endpoint_url.rpartition(":")[2]
    owner_is = rf"\S+ \(process {os.getpid()}, in {re.escape(str(Path.cwd()))}\)"
    assert re.fullmatch(rf"aws: port {taken} is used by {owner_is}; using {port} instead\n", capsys.readouterr().err)
    assert becomes_ready(directory)


def becomes_ready(directory: Path) -> bool:
    """Whether the double of AWS answers within a minute: a busy machine may take longer than one look waits."""
    looks = (next(each for each in status(directory).services if each.name == "aws").ready for _ in range(12))
    return any(looks)


def test_two_folders_that_start_at_once_choose_different_ports(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from frazil.local import supervisor as s; print(s.up(['aws'], pathlib.Path(sys.argv[1])))"
    )
    folders = [tmp_path / "one", tmp_path / "two"]
    starting = [subprocess.Popen([sys.executable, "-c", script, folder], stdout=subprocess.PIPE) for folder in folders]

    printed = [process.communicate()[0] for process in starting]
    ready = [becomes_ready(folder) for folder in folders]
    for folder in folders:
        down(folder, wipe=True)

    assert printed[0] != printed[1]
    assert ready == [True, True]


def test_a_service_that_does_not_start_shows_the_end_of_its_log(directory: Path) -> None:
    start(directory, "broker")
    down(directory)
    meta = directory / "broker" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", "version=99"))

    with pytest.raises(
        ServiceError, match=r"local broker did not start: expected an answer on .*process ended(.|\n)*99"
    ):
        start(directory, "broker")


def test_an_unknown_service_is_refused(directory: Path) -> None:
    with pytest.raises(SettingError, match="Unknown local service zookeeper"):
        start(directory, "zookeeper")
