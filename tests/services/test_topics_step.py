"""Topics of an environment on a real broker."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from time import sleep
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from frazil.model.errors import BrokerError
from infra.deploy.kafka.topics import Difference, connect, make_topics, of_external
from infra.settings.model import ExternalKafka, ExternalRegistry, Topic

if TYPE_CHECKING:
    from frazil.local.supervisor import LocalServices

HOURLY = Topic(partitions=3, retention=timedelta(hours=1))


def kafka_at(bootstrap_servers: str) -> ExternalKafka:
    return ExternalKafka(
        name="local",
        bootstrap_servers=bootstrap_servers,
        protocol="plaintext",
        mechanism=None,
        msk_iam=False,
        credentials=None,
        registry=ExternalRegistry("http://localhost:8081", None),
    )


def test_topics_are_made_with_their_sizes_once_and_never_changed(services: LocalServices) -> None:
    kafka = kafka_at(services.bootstrap_servers)
    name = f"made-{uuid4().hex[:8]}"
    admin = connect(of_external(kafka, None))

    first = make_topics(admin, {name: HOURLY})
    while name not in admin.list_topics(timeout=10).topics:  # a broker shows a new topic a moment later
        sleep(0.05)
    second = make_topics(admin, {name: replace(HOURLY, partitions=9)})

    assert (list(first.make), first.differing) == ([name], ())
    assert (second.make, second.differing) == ({}, (Difference(name, found=3, expected=9),))
    asked = ConfigResource(ConfigResource.Type.TOPIC, name)
    reader = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    found = reader.describe_configs([asked])[asked].result(30)
    assert found["retention.ms"].value == "3600000"


def test_brokers_that_do_not_answer_are_told_after_a_bounded_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.deploy.kafka.topics.ANSWER_SECONDS", 1)

    with pytest.raises(BrokerError, match="did not list their topics within 1 s"):
        make_topics(connect(of_external(kafka_at("127.0.0.1:9"), None)), {"a": HOURLY})
