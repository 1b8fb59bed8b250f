"""Check whether external Kafka brokers are reachable from this machine; in a private network only the job is."""

from __future__ import annotations

import socket
from collections.abc import Callable

from infra.settings.model import ConfluentKafka, ExternalKafka

SECONDS = 5.0

Connect = Callable[[str, int], None]
"""Open and close a connection to a host and port. Raises OSError if it fails."""


def out_of_reach(kafka: ConfluentKafka | ExternalKafka, connect: Connect) -> str | None:
    """Return the broker addresses if none accepts a connection, else None.

    Always None for Confluent Cloud, whose brokers are public.
    """
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
