"""Requests to the coordinator of a group, which a cluster does not have at each moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

NO_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Answers of a new cluster to the first question about a group, while it makes the topic of its coordinators."""

ATTEMPTS, PAUSE_SECONDS = 6, 0.5

Answer = TypeVar("Answer")


def asked_of_coordinator(request: Callable[[], Answer]) -> Answer:
    """Return the answer, once the group has a coordinator. Raises KafkaException if it gets none in some seconds."""
    for _ in range(ATTEMPTS - 1):
        try:
            return request()
        except KafkaException as problem:
            if problem.args[0].code() not in NO_COORDINATOR:
                raise
            time.sleep(PAUSE_SECONDS)
    return request()
