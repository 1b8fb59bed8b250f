"""Sends records whose header keys are any bytes, which no client in Python does: librdkafka itself is called."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

from frazil.local.supervisor import LocalServices

PRODUCER = 0
END, TOPIC, PARTITION, VALUE, HEADERS = (ctypes.c_int(n) for n in (0, 1, 3, 4, 10))
"""Of `rd_kafka_vtype_t`."""

FLUSH_MS = 30_000


def send_with_headers(
    services: LocalServices, topic: str, *sent: tuple[bytes, Sequence[tuple[bytes, bytes | None]]]
) -> None:
    """Values with their headers, to partition 0."""
    library = _librdkafka()
    said = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    servers = services.bootstrap_servers.encode()
    assert library.rd_kafka_conf_set(settings, b"bootstrap.servers", servers, said, len(said)) == 0, said.value
    producer = ctypes.c_void_p(library.rd_kafka_new(PRODUCER, settings, said, len(said)))
    assert producer.value, said.value
    try:
        for value, headers in sent:
            _send(library, producer, topic, value, headers)
        assert library.rd_kafka_flush(producer, FLUSH_MS) == 0
    finally:
        library.rd_kafka_destroy(producer)


def _send(
    library: ctypes.CDLL,
    producer: ctypes.c_void_p,
    topic: str,
    value: bytes,
    headers: Sequence[tuple[bytes, bytes | None]],
) -> None:
    made = ctypes.c_void_p(library.rd_kafka_headers_new(ctypes.c_size_t(len(headers))))
    for key, held in headers:
        library.rd_kafka_header_add(made, key, len(key), held, -1 if held is None else len(held))
    where = (TOPIC, ctypes.c_char_p(topic.encode()), PARTITION, ctypes.c_int32(0))
    what = (VALUE, ctypes.c_char_p(value), ctypes.c_size_t(len(value)), HEADERS, made)
    assert library.rd_kafka_producev(producer, *where, *what, END) == 0


def _librdkafka() -> ctypes.CDLL:
    """The one that the client in Python brings."""
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    for makes_one in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, makes_one).restype = ctypes.c_void_p
    library.rd_kafka_header_add.argtypes = (
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_char_p, ctypes.c_ssize_t,
    )  # fmt: skip
    return library
