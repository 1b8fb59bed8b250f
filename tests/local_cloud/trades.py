"""Records for the deployed tables that `frazil local produce` does not make."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from deployed import HOT, Deployed

from frazil.local import stock_trades

NEW_FIELD = {"name": "venue", "type": ["null", "string"], "default": None}
VENUE = b"\x02\x08NYSE"
"""As Avro writes the second of a union, and a text of four letters."""

SECONDS = 30
A_SECOND = 50


def send_bad_records(deployed: Deployed, count: int) -> None:
    """No Avro at all."""
    _send(deployed, ((b"key", b"no Avro, number %d" % number) for number in range(count)))


def send_with_a_new_field(deployed: Deployed, count: int) -> None:
    """Its schema is registered first, and is compatible with the one before."""
    schema = json.loads(stock_trades.schema_text())
    schema["fields"].append(NEW_FIELD)
    with SchemaRegistryClient({"url": deployed.services.schema_registry_url}) as registry:
        schema_id = int(registry.register_schema(f"{HOT}-value", Schema(json.dumps(schema), "AVRO")))
    frame = struct.pack(">bI", 0, schema_id)
    _send(deployed, ((key, frame + body + VENUE) for key, body in stock_trades.encoded_trades(count, seed=3)))


@contextmanager
def produce_all_the_time(deployed: Deployed) -> Iterator[None]:
    """A producer in a process of its own, as long as the block takes."""
    command = deployed.command("local", "produce", HOT, "--rows", "1000000", "--rate", str(A_SECOND), "--seed", "4")
    with subprocess.Popen(command, cwd=deployed.checkout, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
        finally:
            process.terminate()


def _send(deployed: Deployed, records: Iterable[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": deployed.services.bootstrap_servers, "log_level": 0})
    for key, value in records:
        producer.produce(HOT, value, key)
    assert producer.flush(SECONDS) == 0
