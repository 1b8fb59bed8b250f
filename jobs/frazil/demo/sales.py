"""The example of sales channels, with services and keys of the demo's own."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from frazil.local.supervisor import LocalServices

EXAMPLE = Path("examples/sales_channel")
"""In a checkout. An installed wheel does not have it."""
OUTPUT = "sales_channel.clean"
KEYS = ("hash.key", "letters.key")
SECONDS = 30


def prepare(home: Path, services: LocalServices) -> Path:
    """Copy the example into a folder of `home`, with the addresses of these services, new keys and its output topic.

    Returns the path of its frazil.yaml. Raises KafkaException if the topic cannot be made.
    """
    folder = home / EXAMPLE.name
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".frazil", *KEYS))
    config = folder / "frazil.yaml"
    text = config.read_text()
    for name, address in (
        ("bootstrap_servers", services.bootstrap_servers),
        ("schema_registry_url", services.schema_registry_url),
    ):
        text = text.replace(f"${{local:{name}}}", address)
    config.write_text(text)
    for name in KEYS:
        _write_secret(folder / name, base64.b64encode(os.urandom(32)))
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(OUTPUT, 1, 1)], request_timeout=SECONDS)[OUTPUT].result(SECONDS)
    return config


def first_lines(config: Path, count: int) -> str:
    """Return the first lines of the exported file of the project of a frazil.yaml."""
    (file,) = (config.parent / ".frazil" / "exports").rglob("*.csv")
    with file.open(encoding="utf-8-sig") as lines:
        return "".join(line for _, line in zip(range(count), lines, strict=False))


def _write_secret(path: Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)
