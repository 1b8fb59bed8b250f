"""The errors that a Kafka client received while it waited, and a hint for each error code."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from confluent_kafka import KafkaError

from frazil.specs.kafka_keys import READER_GROUP

REMEMBERED = 50
MOST_SAID = 3
BAD_CREDENTIALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
REFUSALS = BAD_CREDENTIALS | {KafkaError._SSL}
"""Errors that do not go away by waiting."""

CONNECTION = REFUSALS | {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._ALL_BROKERS_DOWN,
}
"""Errors of a connection. librdkafka connects again by itself, also with a token that it has received since."""

TOPIC_FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED
GROUP_FORBIDDEN = KafkaError.GROUP_AUTHORIZATION_FAILED
CLUSTER_FORBIDDEN = KafkaError.CLUSTER_AUTHORIZATION_FAILED

Heard = deque[KafkaError]


def ear() -> Heard:
    """Return a buffer whose `append` is an `error_cb`: librdkafka logs a line up to twenty times a second."""
    return deque(maxlen=REMEMBERED)


def said(heard: Iterable[KafkaError]) -> str:
    """Return the distinct errors that the client received, without their counts and times."""
    texts = dict.fromkeys(map(_text, heard))
    return "".join(f"; {text}" for text in list(texts)[:MOST_SAID])


def _text(error: KafkaError) -> str:
    """Return the error's text. librdkafka counts the brokers that it knows at the moment: "0/2 brokers are down"."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        return "all brokers are down"
    return error.str().partition(" (after ")[0]


def hint_of(errors: Iterable[KafkaError], *, otherwise: str, topic: str | None = None) -> str:
    codes = {error.code() for error in errors}
    if codes & BAD_CREDENTIALS:
        return "fix sasl.username, sasl.password or sasl.mechanism; a new API key can take minutes to work"
    if KafkaError._SSL in codes:
        return "fix the ssl.* keys of `kafka`, and check that security.protocol matches the port"
    if TOPIC_FORBIDDEN in codes:
        return f"grant READ and DESCRIBE on the topic {topic or 'named'} to the `kafka` user of frazil.yaml"
    if GROUP_FORBIDDEN in codes:
        return f"grant DESCRIBE on the group {READER_GROUP} to the `kafka` user of frazil.yaml"
    if CLUSTER_FORBIDDEN in codes:
        return "grant DESCRIBE on the cluster to the `kafka` user of frazil.yaml"
    return otherwise
