"""The native consumer as Python uses it: when tokens are set, and what is done where it cannot be used."""

from __future__ import annotations

import ctypes
import logging
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest

from frazil.adapters.kafka import batch_consumer, message_consumer, reader
from frazil.adapters.kafka.batch_consumer import TokenRenewal, why_not_native
from frazil.adapters.kafka.message_consumer import MessageConsumer
from frazil.adapters.kafka.reader import Engine, KafkaReader, open_consumer, warn_if_fetching_in_python
from frazil.model.errors import MissingToolError
from frazil.model.plan import OffsetRange

LIFE = 0.3
NEEDS_NATIVE = pytest.mark.skipif(why_not_native() is not None, reason="the native module is not built")


@dataclass
class Client:
    """Replaces the native consumer, and records its calls about tokens."""

    told: list[tuple[object, ...]] = field(default_factory=list)

    def set_token(self, token: str, ends_ms: int) -> None:
        self.told.append((token, ends_ms))

    def fail_token(self, why: str) -> None:
        self.told.append((why,))


def wait_for(client: Client, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(client.told) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_token_is_set_at_once_and_replaced_before_it_ends() -> None:
    """Also while no records are read."""
    client = Client()
    made: list[float] = []

    def new_token(_: str) -> tuple[str, float]:
        made.append(time.time() + LIFE)
        return f"token {len(made)}", made[-1]

    renewal = TokenRenewal(cast(Any, client), new_token)
    renewal.start()
    at_once = len(client.told)
    wait_for(client, 3)
    renewal.stop()

    assert at_once == 1
    assert client.told == [(f"token {n + 1}", int(ends * 1000)) for n, ends in enumerate(made)]


def test_after_a_stop_no_token_is_set() -> None:
    client = Client()
    renewal = TokenRenewal(cast(Any, client), lambda _: ("t", time.time() + LIFE))
    renewal.start()
    renewal.stop()
    told = len(client.told)

    renewal.renew()
    time.sleep(LIFE)

    assert len(client.told) == told


def test_a_token_that_cannot_be_made_is_told_to_the_client_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_consumer, "TOKEN_RETRY_SECONDS", 0.1)

    def fail(_: str) -> tuple[str, float]:
        raise ValueError("no role")

    client = Client()
    renewal = TokenRenewal(cast(Any, client), fail)
    renewal.start()
    wait_for(client, 2)
    renewal.stop()

    assert client.told[:2] == [("no role",)] * 2


@pytest.fixture
def asked_again() -> Iterator[None]:
    """What was found out is forgotten, before the test and after it."""
    for remembered in (why_not_native, reader._warn_once):
        remembered.cache_clear()
    yield
    for remembered in (why_not_native, reader._warn_once):
        remembered.cache_clear()


@NEEDS_NATIVE
@pytest.mark.usefixtures("asked_again")
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("/nowhere/cimpl.so", "confluent-kafka's librdkafka: /nowhere/cimpl.so is not loaded"),
        ("libc.so.6", "confluent-kafka's librdkafka: rd_kafka_version is not among its symbols"),
    ],
)
def test_a_librdkafka_that_is_not_found_is_a_reason(module: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_consumer, "cimpl", SimpleNamespace(__file__=module))

    assert why_not_native() == said


@NEEDS_NATIVE
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.parametrize(("version", "said"), [("0x020200ff", "2.2"), ("0x030000ff", "3.0"), ("0x020300ff", None)])
def test_only_a_librdkafka_whose_functions_are_known_is_accepted(
    version: str, said: str | None, tmp_path: Path
) -> None:
    """A library that has a version and nothing else."""
    import frazil_native  # noqa: PLC0415 - it may not be built

    source, library = tmp_path / "version.c", tmp_path / "version.so"
    source.write_text(f"int rd_kafka_version(void) {{ return {version}; }}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))

    with pytest.raises(ValueError, match=r"version|symbols") as refused:
        frazil_native.librdkafka_version(str(library))

    assert loaded is not None
    expected = "rd_kafka_assign is not among" if said is None else f"it has version {said}, expected 2.3 or a later 2.x"
    assert expected in str(refused.value)


@NEEDS_NATIVE
@pytest.mark.usefixtures("asked_again")
def test_another_librdkafka_than_confluent_kafka_uses_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("2.99.0", 0x026300FF))

    assert "confluent-kafka uses librdkafka 2.99.0, but 0x2" in (why_not_native() or "")


@pytest.mark.usefixtures("asked_again")
def test_without_the_native_consumer_it_is_said_once_and_records_are_read_in_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reader, "why_not_native", lambda: "it is too old")

    warn_if_fetching_in_python()
    for _ in range(2):
        consumer = open_consumer({"group.id": "g"}, deque(), None)
        consumer.close()
        assert isinstance(consumer, MessageConsumer)

    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert (warning.message, warning.__dict__["problem"]) == ("fetching_in_python", "it is too old")
    assert "CPU" in warning.__dict__["cost"]


def test_a_native_reader_that_is_asked_for_and_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "why_not_native", lambda: "it is too old")

    with pytest.raises(MissingToolError, match="the native Kafka reader cannot be used: it is too old"):
        KafkaReader({"bootstrap.servers": "127.0.0.1:1"}, engine="native")


@NEEDS_NATIVE
def test_a_closed_reader_returns_an_error_and_is_closed_only_once() -> None:
    reader = KafkaReader({"bootstrap.servers": "127.0.0.1:1"}, engine="native")

    reader.close()
    reader.close()

    with pytest.raises(RuntimeError, match="the consumer is closed"):
        reader._consumer.position(OffsetRange("orders", 0, 0, 1, 1, 1))


@pytest.mark.parametrize(
    ("engine", "chunk_bytes", "queue_kbytes", "fetch_bytes"),
    [
        pytest.param("native", None, 2 << 10, 64 << 20, marks=NEEDS_NATIVE),
        pytest.param("native", 1 << 20, 2 << 10, 8 << 20, marks=NEEDS_NATIVE),
        ("python", None, 64 << 10, 64 << 20),
        ("python", 1 << 20, 8 << 10, 8 << 20),
    ],
)
def test_what_is_held_ahead_is_limited_by_the_reader_and_by_its_caller(
    engine: Engine, chunk_bytes: int | None, queue_kbytes: int, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own limits are not asked for: memory is planned with these."""
    started: list[dict[str, object]] = []
    monkeypatch.setattr(message_consumer, "Consumer", started.append)
    if engine == "native":
        monkeypatch.setattr("frazil_native.BatchConsumer", lambda _, settings, __: started.append(dict(settings)))
    given = {"bootstrap.servers": "127.0.0.1:1", "queued.max.messages.kbytes": "7", "fetch.max.bytes": "7"}

    KafkaReader(given, chunk_bytes=chunk_bytes, engine=engine)

    (found,) = started
    assert int(str(found["queued.max.messages.kbytes"])) == queue_kbytes
    assert int(str(found["fetch.max.bytes"])) == fetch_bytes
    assert int(str(found["queued.min.messages"])) == (10_000 if chunk_bytes is None else 1_000)
