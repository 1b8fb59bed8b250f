"""A real Kafka broker: one process that is broker and controller, on loopback only."""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from frazil.local import class_data, jars
from frazil.local.java import find_java
from frazil.local.processes import tail
from frazil.local.service import Launch, Ports, Service
from frazil.model.errors import BrokerError

TEMPLATES = Path(__file__).parent
JVM_OPTIONS = (
    *("-Xmx512m", "-Xms128m", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
    # the broker copies bytes and lives for minutes; C2 and parallel collection would take 40 % of its start
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
)


def address(ports: Ports) -> str:
    return f"127.0.0.1:{ports['main']}"


def prepare(folder: Path, ports: Ports) -> Launch:
    """Write the configuration, and on the first start format the storage with a new cluster id."""
    properties = _write_configuration(folder, ports)
    logging = f"-Dlog4j2.configurationFile={TEMPLATES / 'log4j2.properties'}"
    java = (find_java().command, *JVM_OPTIONS, logging, "-cp", jars.class_path("broker"))
    if not (folder / "data" / "meta.properties").exists():
        _format_storage(
            folder, (*java, *class_data.using(java), "kafka.tools.StorageTool", "format", "--config", str(properties))
        )
    return Launch((*java, *class_data.using_or_recording(java, folder), "kafka.Kafka", str(properties)))


def _write_configuration(folder: Path, ports: Ports) -> Path:
    template = (TEMPLATES / "server.properties").read_text(encoding="utf-8")
    settings = {
        "controller.quorum.voters": f"1@127.0.0.1:{ports['controller']}",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports['main']},CONTROLLER://127.0.0.1:{ports['controller']}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports['main']}",
        "log.dirs": str(folder / "data"),
    }
    own = "\n".join(f"{key}={value}" for key, value in settings.items())
    path = folder / "server.properties"
    path.write_text(f"{template}\n{own}\n", encoding="utf-8")
    return path


def _format_storage(folder: Path, command: tuple[str, ...]) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    log = folder / "format.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [*command, f"--cluster-id={cluster_id}", "--ignore-formatted"],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise BrokerError(
            f"The broker's storage in {folder / 'data'} could not be formatted: expected exit status 0, "
            f"found {done.returncode}. The end of {log}:\n{tail(log)}",
            hint="read the log; to start from scratch, run `frazil local down --wipe`",
        )


def answers(ports: Ports) -> bool:
    """Return whether the broker is registered in its cluster, so that topics can be created."""
    admin = AdminClient({"bootstrap.servers": address(ports), "log_level": 0})
    try:
        return len(admin.list_topics(timeout=5).brokers) == 1
    except KafkaException:
        return False


BROKER = Service(
    name="broker",
    preferred_ports={"main": 9092, "controller": 9093},
    start_seconds=120,
    stop_seconds=90,
    address=address,
    fetch=lambda: (find_java(), jars.fetch("broker")),
    prepare=prepare,
    answers=answers,
)
