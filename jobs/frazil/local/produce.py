"""`frazil local produce`: write sample records to a topic of the local broker and register their schema."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from frazil.local import sales_channel, stock_trades
from frazil.local.supervisor import LocalServices
from frazil.model.errors import BrokerError, RegistryError, SettingError

KeyAndValue = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Sample:
    """Records in Avro: their schema, and keys and framed values by `records(rows, seed=…, schema_id=…)`."""

    schema_text: Callable[[], str]
    records: Callable[..., Iterator[KeyAndValue]]


SAMPLES: Mapping[str, Sample] = {
    "stock_trades": Sample(stock_trades.schema_text, stock_trades.records),
    "sales_channel": Sample(sales_channel.schema_text, sales_channel.records),
}
CHUNK = 5_000
TIMEOUT_SECONDS = 30
CREATE_SECONDS = 10
HINT = "run `frazil local status`; start the services with `frazil local up`"


@dataclass(frozen=True, slots=True)
class Produced:
    """The records that were added to the topic; the broker acknowledged every one."""

    topic: str
    rows: int
    schema_id: int
    seconds: float


@dataclass(slots=True)
class _Deliveries:
    """Counts acknowledgements and keeps the first delivery error."""

    acknowledged: int = 0
    refusal: KafkaError | None = field(default=None)

    def __call__(self, error: KafkaError | None, record: Message) -> None:
        del record
        if error is None:
            self.acknowledged += 1
        else:
            self.refusal = self.refusal or error


def produce(
    name: str = "stock_trades",
    rows: int = 10_000,
    *,
    services: LocalServices,
    rate: float | None = None,
    topic: str | None = None,
    partitions: int = 6,
    seed: int = 0,
) -> Produced:
    """Append `rows` records to a topic, at most `rate` per second if given. The same `seed` gives the same records.

    The topic (default: the sample's name) is created with `partitions` partitions if it is missing. Raises
    SettingError for an unknown sample.
    """
    if name not in SAMPLES:
        raise SettingError(
            f"Unknown sample {name}: expected one of {', '.join(SAMPLES)}.",
            hint="run `frazil local produce --help`",
        )
    target = topic or name
    began = time.monotonic()
    sample = SAMPLES[name]
    schema_id = _register(target, sample.schema_text(), services.schema_registry_url)
    _create_topic(target, partitions, services.bootstrap_servers)
    with _progress(target, rows) as advance:
        _send(sample.records(rows, seed=seed, schema_id=schema_id), target, rows, rate, services, advance)
    return Produced(target, rows, schema_id, time.monotonic() - began)


def _register(topic: str, schema: str, url: str) -> int:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient  # noqa: PLC0415 - slow import

    subject = f"{topic}-value"
    try:
        with SchemaRegistryClient({"url": url, "timeout": TIMEOUT_SECONDS, "max.retries": 1}) as registry:
            return int(registry.register_schema(subject, Schema(schema, "AVRO")))
    except Exception as exc:
        raise RegistryError(
            f"The schema of {subject} could not be registered at {url}: expected an id, found {exc}.", hint=HINT
        ) from exc


def _create_topic(topic: str, partitions: int, bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    created = admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=CREATE_SECONDS)
    try:
        created[topic].result()
    except KafkaException as exc:
        error = exc.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _broker_error(topic, bootstrap_servers, "a topic", error) from exc


def _send(
    records: Iterable[KeyAndValue],
    topic: str,
    rows: int,
    rate: float | None,
    services: LocalServices,
    advance: Callable[[int], object],
) -> None:
    producer, deliveries = _producer(services.bootstrap_servers), _Deliveries()
    began = time.monotonic()
    for sent, (key, value) in enumerate(records, start=1):
        _hand_over(producer, topic, key, value, deliveries)
        if rate is not None:
            _keep_pace(producer, began + sent / rate)
        if sent % CHUNK == 0 or rate is not None:
            producer.poll(0)
            advance(sent)
            _refuse_failures(deliveries, topic, services)
    producer.flush(TIMEOUT_SECONDS + 5)
    _refuse_failures(deliveries, topic, services)
    if deliveries.acknowledged != rows:
        found = f"{deliveries.acknowledged} after {TIMEOUT_SECONDS} s"
        raise _broker_error(topic, services.bootstrap_servers, f"{rows} acknowledged records", found)
    advance(rows)


def _producer(bootstrap_servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # as in Java: a key always maps to the same partition
            "linger.ms": 20,
            "delivery.timeout.ms": TIMEOUT_SECONDS * 1000,
            "log_level": 0,
        }
    )


def _hand_over(producer: Producer, topic: str, key: bytes, value: bytes, deliveries: _Deliveries) -> None:
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=deliveries)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _keep_pace(producer: Producer, due: float) -> None:
    producer.poll(max(0.0, due - time.monotonic()))
    time.sleep(max(0.0, due - time.monotonic()))


def _refuse_failures(deliveries: _Deliveries, topic: str, services: LocalServices) -> None:
    if deliveries.refusal is not None:
        raise _broker_error(topic, services.bootstrap_servers, "every record acknowledged", deliveries.refusal)


def _broker_error(topic: str, bootstrap_servers: str, expected: str, found: object) -> BrokerError:
    return BrokerError(
        f"Producing into topic {topic} on {bootstrap_servers} failed: expected {expected}, found {found}.", hint=HINT
    )


@contextmanager
def _progress(topic: str, rows: int) -> Iterator[Callable[[int], object]]:
    if not sys.stderr.isatty():
        yield lambda sent: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"producing into {topic}", total=rows)
        yield lambda sent: bar.update(task, completed=sent)
