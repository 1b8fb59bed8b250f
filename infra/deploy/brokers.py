"""Whether the brokers of somebody else's Kafka can be reached from here: in a private network only the job does."""

from __future__ import annotations

import socket
from collections.abc import Callable

from infra.settings import ConfluentKafka, ExternalKafka

SECONDS = 5.0

Connect = Callable[[str, int], None]
"""Opens a connection to host and port, and closes it again; raises OSError."""


def out_of_reach(kafka: ConfluentKafka | ExternalKafka, connect: Connect) -> str | None:
    """The brokers, where not one of them takes a connection; those of Confluent Cloud are for everybody."""
    if isinstance(kafka, ConfluentKafka):
        return None
    brokers = [each.strip() for each in kafka.bootstrap_servers.split(",")]
    return None if any(_answers(broker, connect) for broker in brokers) else ", ".join(brokers)


def connect(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=SECONDS).close()


def _answers(broker: str, connect: Connect) -> bool:
    host, _, port = broker.rpartition(":")
    try:
        connect(host.strip("[]"), int(port))
    except OSError:
        return False
    return True
