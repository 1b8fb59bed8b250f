"""Which topics and subjects there are, and how topics are made: decided over values, done over an admin in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from frazil.model.errors import BrokerError, SettingError
from frazil.model.secret import Secret
from frazil.model.spec import TableSpec
from frazil.specs.load import load_tables
from infra.deploy.kafka.topics import Difference, Steps, decide, make_topics, of_confluent, of_external
from infra.settings.model import ConfluentKafka, ExternalKafka, ExternalRegistry, Topic
from infra.wanted.topics import USUAL, own_subjects, wanted_topics
from shared.confluent_api import KeyPair
from tests.fakes.clients_in_memory import AdminInMemory

LARGE = Topic(partitions=12, retention=timedelta(hours=1))
CONFLUENT = ConfluentKafka("us-east-1", "SINGLE_ZONE", "ESSENTIALS", datagen=True, tableflow=())
EXTERNAL = ExternalKafka(
    name="own",
    bootstrap_servers="localhost:9092",
    protocol="plaintext",
    mechanism=None,
    msk_iam=False,
    credentials=None,
    registry=ExternalRegistry("http://localhost:8081", None),
)
PAIR = KeyPair("KEY", Secret("hush"))


def specs(folder: Path, *texts: str) -> tuple[TableSpec, ...]:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return load_tables(folder, {}, database="lake", catalog_type="glue")


@pytest.fixture
def time() -> SimpleNamespace:
    passed = SimpleNamespace(now=0.0)
    passed.clock = lambda: passed.now
    passed.sleep = lambda seconds: setattr(passed, "now", passed.now + seconds)
    return passed


def test_a_cluster_of_ours_gets_the_topics_of_the_specs_of_the_connector_and_of_the_settings(tmp_path: Path) -> None:
    tables = specs(tmp_path, "topic: orders", "topics: [clicks, views]\ntable: pages")
    kafka = ConfluentKafka(
        *("us-east-1", "SINGLE_ZONE", "ESSENTIALS"),
        datagen=True,
        tableflow=(),
        topics={"clicks": LARGE, "out": USUAL},
    )

    assert wanted_topics(kafka, tables) == {
        "clicks": LARGE,
        "orders": Topic(6, timedelta(days=7)),
        "out": USUAL,
        "stock_trades": USUAL,
        "views": USUAL,
    }


def test_a_cluster_that_is_not_ours_gets_the_topics_that_the_settings_name_and_no_other(tmp_path: Path) -> None:
    assert wanted_topics(EXTERNAL, specs(tmp_path, "topic: orders")) == {}


@pytest.mark.parametrize(
    ("spec", "subjects"),
    [
        ("topic: orders", ("orders-value",)),
        ("topic: orders\nkey: avro", ("orders-key", "orders-value")),
        ("topic: orders\nsubject: {name: acme.orders}", ("acme.orders",)),
        ("topic: orders\nsubject: topic-record", ("orders-*",)),
        ("topic: orders\nsubject: record", ("*",)),
        ("topic: orders\nvalue: json", ()),
        ("topic: orders\nvalue: json\nkey: avro", ("orders-key",)),
    ],
)
def test_subjects_are_those_that_the_job_asks_for(tmp_path: Path, spec: str, subjects: tuple[str, ...]) -> None:
    assert own_subjects(["orders"], specs(tmp_path, spec)) == subjects


def test_subjects_of_a_topic_that_no_table_reads_are_called_as_clients_do() -> None:
    assert own_subjects(["orders"], ()) == ("orders-key", "orders-value")


def test_a_topic_that_exists_is_kept_and_another_number_of_partitions_is_told() -> None:
    wanted = {"a": USUAL, "b": LARGE, "c": USUAL}

    steps = decide(wanted, {"a": 6, "b": 6, "unrelated": 1})

    assert steps == Steps(make={"c": USUAL}, kept=("a", "b"), differing=(Difference("b", found=6, expected=12),))
    assert "b has 6 partitions, expected 12" in str(steps.differing[0])


def test_topics_are_made_once_with_their_sizes(time: SimpleNamespace) -> None:
    admin = AdminInMemory({"a": 3})

    first = make_topics(admin, {"a": USUAL, "b": LARGE}, clock=time.clock, sleep=time.sleep)
    second = make_topics(admin, {"a": USUAL, "b": LARGE}, clock=time.clock, sleep=time.sleep)

    assert (first.make, second.make) == ({"b": LARGE}, {})
    assert admin.partitions == {"a": 3, "b": 12}
    assert admin.configurations == {"b": {"retention.ms": "3600000"}}
    assert time.now == 0


def test_role_bindings_that_are_not_there_yet_are_waited_for(time: SimpleNamespace) -> None:
    admin = AdminInMemory(refusals=[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)

    make_topics(admin, {"a": USUAL, "b": USUAL}, clock=time.clock, sleep=time.sleep)

    assert admin.partitions == {"a": 6, "b": 6}
    assert time.now == 20


def test_a_refusal_that_stays_is_told_with_the_role_that_is_missing(time: SimpleNamespace) -> None:
    admin = AdminInMemory(refusals=[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 1000)

    with pytest.raises(BrokerError, match="created within 5 minutes for lack of permission: a: ") as failed:
        make_topics(admin, {"a": USUAL}, clock=time.clock, sleep=time.sleep)

    assert "DeveloperManage" in failed.value.hint


def test_a_topic_that_somebody_else_made_meanwhile_is_fine(time: SimpleNamespace) -> None:
    admin = AdminInMemory(refusals=[KafkaError.TOPIC_ALREADY_EXISTS])

    make_topics(admin, {"a": USUAL}, clock=time.clock, sleep=time.sleep)

    assert (admin.refusals, time.now) == ([], 0), "refused once, and not tried again"


def test_what_no_waiting_mends_fails_at_once(time: SimpleNamespace) -> None:
    admin = AdminInMemory(refusals=[KafkaError.INVALID_PARTITIONS])

    with pytest.raises(BrokerError, match="the topic a could not be created"):
        make_topics(admin, {"a": USUAL}, clock=time.clock, sleep=time.sleep)

    assert time.now == 0


def test_a_cluster_of_ours_is_opened_with_the_managers_key() -> None:
    assert of_confluent("pkc-1:9092", PAIR) == {
        "bootstrap.servers": "pkc-1:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "KEY",
        "sasl.password": "hush",
    }


def test_another_kafka_is_opened_as_its_settings_say() -> None:
    scram = ExternalKafka(
        *("own", "b:9096", "sasl_ssl", "SCRAM-SHA-512"),
        msk_iam=False,
        credentials="AmazonMSK_x",
        registry=EXTERNAL.registry,
    )

    assert of_external(EXTERNAL, None) == {"bootstrap.servers": "localhost:9092", "security.protocol": "plaintext"}
    assert of_external(scram, PAIR).items() >= {"sasl.username": "KEY", "sasl.password": "hush"}.items()
    with pytest.raises(SettingError, match="AmazonMSK_x does not hold kafka_api_key"):
        of_external(scram, None)
