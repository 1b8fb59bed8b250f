"""A real schema registry (Apicurio) that Confluent's clients can use unchanged. Its ids survive a restart."""

from __future__ import annotations

import http.client
import tarfile
import tempfile
from pathlib import Path

from frazil.local import class_data, jars
from frazil.local.cache import cache_folder, exclusively
from frazil.local.java import find_java
from frazil.local.locks import read_lock
from frazil.local.service import Launch, Ports, Service

CONFLUENT_API = "/apis/ccompat/v7"
JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")


def address(ports: Ports) -> str:
    return f"http://127.0.0.1:{ports['main']}{CONFLUENT_API}"


def prepare(folder: Path, ports: Ports) -> Launch:
    runner = next(unpacked().glob("*-runner.jar"))
    settings = (f"-D{key}={value}" for key, value in _settings(folder, ports).items())
    java = (find_java().command, *JVM_OPTIONS)
    return Launch((*java, *class_data.using_or_recording((*java, str(runner)), folder), *settings, "-jar", str(runner)))


def _settings(folder: Path, ports: Ports) -> dict[str, str]:
    return {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(ports["main"]),
        "quarkus.http.access-log.enabled": "false",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        # the default is an in-memory database; WRITE_DELAY=0 writes every commit before acknowledging it
        "apicurio.datasource.url": f"jdbc:h2:file:{folder / 'data' / 'registry'};WRITE_DELAY=0",
        # the default pools have 20 connections each, two of them for unused databases, which slows the start
        **{f"apicurio.datasource.jdbc.{bound}-size": "2" for bound in ("initial", "min")},
        **{f"apicurio.datasource.{pool}.jdbc.{bound}-size": "0" for pool in _UNUSED for bound in ("initial", "min")},
        "apicurio.datasource.jdbc.max-size": "20",
        # with the default of 5 seconds, the registry exits if a busy machine takes longer for the first connection
        "quarkus.datasource.h2.jdbc.acquisition-timeout": "60S",
        # Confluent's registry lets clients delete schemas; Apicurio does so only with this setting
        "apicurio.rest.deletion.artifact.enabled": "true",
        "apicurio.rest.deletion.artifact-version.enabled": "true",
    }


_UNUSED = ("blue", "green")


def unpacked() -> Path:
    """Return the registry's folder, unpacked from its archive once per user."""
    (artifact,) = read_lock("registry")
    (archive,) = jars.fetch("registry")
    folder = cache_folder() / "unpacked" / f"{artifact.name}-{artifact.version}"
    with exclusively(folder.parent / ".lock"):
        if not folder.exists():
            _unpack(archive, folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as room, tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(Path(room) / "whole")  # noqa: S202 - the lock file has its SHA-256
        (Path(room) / "whole").rename(folder)


def answers(ports: Ports) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", ports["main"], timeout=5)
    try:
        connection.request("GET", f"{CONFLUENT_API}/subjects")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


REGISTRY = Service(
    name="registry",
    preferred_ports={"main": 8081},
    start_seconds=120,
    stop_seconds=90,
    address=address,
    fetch=lambda: (find_java(), unpacked()),
    prepare=prepare,
    answers=answers,
)
