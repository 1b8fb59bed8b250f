"""`frazil doctor` on real services, each of them broken in turn: what it finds, how soon, that the rest is asked."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from breadth import REGION, Place, glue_catalog, record_of, registry_of

from frazil.adapters.network import Address, Tls, reach, time_at
from frazil.cli import app
from frazil.doctor import registry as asked_registry
from frazil.doctor.asking import Asking
from frazil.doctor.warehouse import ask_warehouse
from frazil.local.supervisor import LocalServices
from frazil.model.errors import ServiceError, SettingError
from frazil.model.settings import CatalogSettings

Said = pytest.CaptureFixture[str]
SCHEMA = record_of(("n", "long"))
CLOSED = "127.0.0.1:1"
DEAD_ADDRESS_SECONDS = 6.5
NOBODY = 65534


@pytest.fixture(autouse=True)
def one_client_of_the_registry(services: LocalServices, monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP client that a command leaves open until its process ends is a warning here, and warnings are errors."""
    monkeypatch.setattr(asked_registry, "open_registry", lambda _: registry_of(services))


@pytest.fixture
def on_aws(services: LocalServices, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Clients of the local AWS, which is the process's own, too."""
    surroundings = {
        "AWS_ENDPOINT_URL": services.aws_endpoint_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    return boto3.client


@dataclass
class Silent:
    """A server that takes connections, and says nothing."""

    listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listening.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.listening.close()
    for late in (each for each in threading.enumerate() if each.name.startswith("doctor-")):
        late.join(timeout=30)
        assert not late.is_alive(), f"{late.name} would work on in the next test"


@dataclass
class Diagnosis:
    status: int
    seconds: float
    findings: Mapping[tuple[str, str], dict[str, str]]
    text: str

    def verdict(self, part: str, what: str) -> str:
        return self.findings[part, what]["verdict"]

    def found(self, part: str, what: str) -> str:
        return self.findings[part, what]["found"]

    @property
    def failed(self) -> set[tuple[str, str]]:
        return {key for key, each in self.findings.items() if each["verdict"] == "failed"}


def diagnose(place: Place, capsys: Said) -> Diagnosis:
    capsys.readouterr()
    began = time.monotonic()
    status = app.run(["doctor", "--json", "--config", str(place.folder / "frazil.yaml")])
    seconds = time.monotonic() - began
    said = capsys.readouterr()
    findings = json.loads(said.out)["findings"]
    assert all(each["hint"] for each in findings if each["verdict"] == "failed"), findings
    return Diagnosis(status, seconds, {(each["part"], each["what"]): each for each in findings}, said.out + said.err)


def written(place: Place, **sections: object) -> None:
    """The configuration as it is, with other sections."""
    path = place.folder / "frazil.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | sections))


def sound(place: Place) -> str:
    """A topic with its subject and its spec."""
    topic = place.topic()
    place.register(f"{topic}-value", SCHEMA)
    place.settings(f"topic: {topic}")
    return topic


def test_all_well_leaves_no_trace(place: Place, capsys: Said) -> None:
    topic = sound(place)
    place.settings(f"topic: {topic}\noutputs: [{{topic: {place.topic('.out')}}}]")
    before = sorted(place.folder.rglob("*"))

    found = diagnose(place, capsys)

    assert found.failed == set()
    assert found.status == 0
    assert found.found("broker", f"topic {topic}") == "1 partition, offsets for 0 records"
    assert found.found("broker", f"reading {topic}").startswith("partition 0 is readable at offset ")
    assert found.found("broker", f"output topic {topic}.out") == "1 partition, 1 shard"
    assert found.found("registry", f"subject {topic}-value").endswith("(AVRO)")
    assert found.verdict("identity", "AWS") == "not asked"
    assert sorted(place.folder.rglob("*")) == before


def test_a_table_that_is_made_is_loaded(place: Place, capsys: Said) -> None:
    topic = sound(place)
    assert place.run(f"topic: {topic}").batch()

    found = diagnose(place, capsys)

    assert found.status == 0, found.text
    assert found.found("tables", f"state of {place.name}.{topic}") == "epoch 0"
    assert found.verdict("catalog", f"table {place.name}.{topic}__dead_letters") == "ok"


def test_a_broker_at_a_wrong_port_leaves_all_else_asked(place: Place, capsys: Said) -> None:
    topic = sound(place)
    written(place, kafka={"bootstrap.servers": CLOSED})

    found = diagnose(place, capsys)

    assert found.status == 1
    assert found.failed == {("broker", f"way to {CLOSED}")}
    assert "Connection refused" in found.found("broker", f"way to {CLOSED}")
    assert found.verdict("broker", f"topic {topic}") == "not asked"
    assert found.verdict("registry", f"subject {topic}-value") == "ok"


def test_one_of_several_brokers_that_is_not_known_by_name(place: Place, capsys: Said) -> None:
    topic = sound(place)
    servers = f"nowhere.invalid:9092,{place.services.bootstrap_servers}"
    written(place, kafka={"bootstrap.servers": servers})

    found = diagnose(place, capsys)

    assert found.failed == {("broker", "way to nowhere.invalid:9092")}
    assert "could not resolve nowhere.invalid" in found.text
    assert found.verdict("broker", f"topic {topic}") == "ok"


def test_a_broker_that_takes_connections_and_says_nothing_costs_seconds(
    place: Place, silent: Silent, capsys: Said
) -> None:
    sound(place)
    written(place, kafka={"bootstrap.servers": silent.address})

    found = diagnose(place, capsys)

    assert found.failed == {("broker", "metadata")}
    assert found.seconds < DEAD_ADDRESS_SECONDS + 3


def test_something_else_than_a_broker(place: Place, capsys: Said) -> None:
    sound(place)
    registry = place.services.schema_registry_url.split("/")[2]
    written(place, kafka={"bootstrap.servers": registry})

    found = diagnose(place, capsys)

    assert found.failed == {("broker", "metadata")}
    assert "check that this is a Kafka client port" in found.text


def test_a_broker_without_passwords_that_is_given_one(place: Place, capsys: Said) -> None:
    sound(place)
    password = "a-password-that-is-not-shown"
    sasl = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": password}
    servers = place.services.bootstrap_servers
    written(place, kafka={"bootstrap.servers": servers, "security.protocol": "sasl_plaintext", **sasl})

    found = diagnose(place, capsys)

    assert found.failed == {("broker", "metadata")}
    assert "sasl.username" in found.findings["broker", "metadata"]["hint"], found.text
    assert password not in found.text


def test_a_topic_and_a_subject_that_are_not_there(place: Place, capsys: Said) -> None:
    place.settings("topic: nowhere-at-all\noutputs: [{topic: nowhere-either}]")

    found = diagnose(place, capsys)

    assert found.failed == {
        ("broker", "topic nowhere-at-all"),
        ("broker", "output topic nowhere-either"),
        ("registry", "subject nowhere-at-all-value"),
    }


def test_a_registry_that_says_nothing_costs_seconds(
    place: Place, silent: Silent, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = sound(place)
    monkeypatch.setattr(asked_registry, "open_registry", lambda _: _Hanging())
    written(place, schema_registry={"url": f"http://{silent.address}"})

    found = diagnose(place, capsys)

    assert found.failed == {("registry", f"subject {topic}-value")}
    assert found.verdict("clock", "against the registry") == "not asked"
    assert found.seconds < DEAD_ADDRESS_SECONDS + 3


class _Hanging:
    def latest(self, subject: str) -> None:
        time.sleep(15)


def test_a_registry_that_is_asked_by_tls_and_does_not_speak_it(place: Place, capsys: Said) -> None:
    topic = sound(place)
    url = place.services.schema_registry_url.replace("http://", "https://")
    written(place, schema_registry={"url": url})

    found = diagnose(place, capsys)

    assert found.verdict("registry", f"subject {topic}-value") == "not asked"
    assert "check that this port speaks TLS" in found.text


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions mean nothing to root."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_a_folder_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with as_nobody():
            (found,) = ask_warehouse(CatalogSettings("jdbc", folder), Asking("warehouse"), new_id="x")

    assert found.verdict == "failed"
    assert "Permission denied" in found.found
    assert f"ls -ld {folder}" in found.hint


def test_a_file_where_the_folder_would_be(place: Place, capsys: Said) -> None:
    sound(place)
    (place.folder / "warehouse").write_text("in the way")

    found = diagnose(place, capsys)

    assert ("warehouse", str(place.folder / "warehouse")) in found.failed


def test_a_configuration_with_a_typing_error(place: Place, capsys: Said) -> None:
    sound(place)
    written(place, catalogue={})

    found = diagnose(place, capsys)

    assert found.failed == {("configuration", str(place.folder / "frazil.yaml"))}
    assert found.verdict("broker", "everything") == "not asked"


# --- on the local AWS


@pytest.fixture
def lake(services: LocalServices, tmp_path: Path, on_aws: Any) -> Place:
    return Place(services, tmp_path, glue_catalog(services))


def test_bucket_and_catalog_of_aws_are_asked_as_a_job_uses_them(lake: Place, capsys: Said, on_aws: Any) -> None:
    topic = sound(lake)
    assert lake.run(f"topic: {topic}").batch()
    bucket = str(lake.catalog["warehouse"]).split("/")[2]
    listed = lambda: {each["Key"] for each in on_aws("s3").list_objects_v2(Bucket=bucket)["Contents"]}  # noqa: E731
    before = listed()

    found = diagnose(lake, capsys)

    assert found.status == 0, found.text
    assert "account 123456789012" in found.found("identity", "AWS")
    assert found.verdict("clock", "against AWS") == "ok"
    assert [found.verdict("warehouse", step) for step in ("list", "put", "get", "remove")] == ["ok"] * 4
    assert found.verdict("catalog", f"database {lake.name}") == "ok"
    assert found.verdict("catalog", "changing tables") == "not asked"
    assert {key for key in listed() - before if not key.endswith("/")} == set()


def test_a_bucket_that_is_not_there(lake: Place, capsys: Said) -> None:
    sound(lake)
    written(lake, catalog={**lake.catalog, "warehouse": f"s3://nowhere-{uuid.uuid4().hex}/lake"})

    found = diagnose(lake, capsys)

    assert found.failed == {("warehouse", "list"), ("warehouse", "put")}
    assert "the bucket does not exist" in found.findings["warehouse", "put"]["hint"]
    assert found.verdict("warehouse", "get") == "not asked"


def test_an_aws_that_says_nothing_costs_seconds_a_part(
    lake: Place, silent: Silent, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound(lake)
    endpoints = {f"{service}.endpoint": f"http://{silent.address}" for service in ("glue", "s3")}
    written(lake, catalog={**lake.catalog, **endpoints})
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{silent.address}")

    found = diagnose(lake, capsys)

    assert {("identity", "AWS"), ("warehouse", "list"), ("catalog", f"database {lake.name}")} <= found.failed
    assert found.seconds < 4 * DEAD_ADDRESS_SECONDS


def test_secrets_are_told_by_name_and_never_shown(lake: Place, capsys: Said, on_aws: Any) -> None:
    sound(lake)
    name = f"frazil/test/{uuid.uuid4().hex}"
    on_aws("secretsmanager").create_secret(Name=name, SecretString=json.dumps({"api_secret": "hidden-from-all"}))
    sasl = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": f"${{secret:{name}-missing#api_key}}",
        "sasl.password": f"${{secret:{name}#api_secret}}",
    }
    written(lake, kafka={"bootstrap.servers": lake.services.bootstrap_servers, **sasl})

    found = diagnose(lake, capsys)

    assert found.failed == {("configuration", f"secret {name}-missing")}
    assert found.verdict("configuration", f"secret {name}") == "ok"
    assert found.verdict("broker", "metadata") == "not asked"
    assert "hidden-from-all" not in found.text


# --- the way to an address


@dataclass
class TlsServer:
    """Completes TLS handshakes with a certificate that no client trusts."""

    listening: ssl.SSLSocket
    certificate: Path

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.listening.getsockname()[1])

    def serve(self) -> None:
        while True:
            try:
                self.listening.accept()[0].close()
            except ssl.SSLError:
                continue
            except OSError:
                return


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[TlsServer]:
    made = [
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=x",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(["openssl", "req", *made, *files], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = TlsServer(
        context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True), tmp_path / "cert.pem"
    )
    serving = threading.Thread(target=server.serve, daemon=True)
    serving.start()
    yield server
    server.listening.shutdown(socket.SHUT_RDWR)
    server.listening.close()
    serving.join(5)


def test_a_certificate_is_accepted_by_the_authority_that_is_given(tls_server: TlsServer) -> None:
    own = str(tls_server.certificate)

    assert "TLSv1" in reach(tls_server.address, Tls(authorities_file=own), seconds=5)
    assert "TLSv1" in reach(tls_server.address, Tls(authorities=Path(own).read_text()), seconds=5)
    assert "TLSv1" in reach(tls_server.address, Tls(verify=False), seconds=5)
    with pytest.raises(ServiceError, match="the certificate was rejected: self"):
        reach(tls_server.address, Tls(), seconds=5)


def test_an_authority_that_cannot_be_read_is_the_settings_fault(tls_server: TlsServer, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"nowhere\.pem"):
        reach(tls_server.address, Tls(authorities_file=str(tmp_path / "nowhere.pem")), seconds=5)


def test_tls_with_a_server_that_says_nothing_ends_in_time(silent: Silent) -> None:
    host, _, port = silent.address.partition(":")
    began = time.monotonic()

    with pytest.raises(ServiceError, match="timed out"):
        reach(Address(host, int(port)), Tls(), seconds=0.5)

    assert time.monotonic() - began < 2


def test_a_connection_that_is_dropped_on_its_way_ends_in_time() -> None:
    """A listener that accepts no connection, with a full queue: further packets are dropped, as by a firewall."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    port = listening.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(("127.0.0.1", port))
    try:
        with pytest.raises(ServiceError, match="timed out"):
            reach(Address("127.0.0.1", port), None, seconds=0.5)
    finally:
        for each in (*waiting, listening):
            each.close()


def test_a_server_that_tells_the_time_is_believed(services: LocalServices) -> None:
    host, _, port = services.aws_endpoint_url.removeprefix("http://").partition(":")

    said = time_at(Address(host, int(port)), None, seconds=5)

    assert said is not None
    assert abs(said.timestamp() - time.time()) < 5
