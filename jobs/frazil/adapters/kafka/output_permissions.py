"""What a cluster says that its user may do with an output topic, where it says so (KIP-430).

It does not say what the user may do with transactional ids: that shows when the first epoch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from frazil.adapters.kafka.errors import GROUP_FORBIDDEN, TOPIC_FORBIDDEN
from frazil.model.errors import BrokerError
from frazil.model.outputs import OUTPUT_GROUP, OutputSpec

ANSWER_SECONDS = 15.0

WHO = "to the `kafka` user of frazil.yaml"
TO_TOPICS = "grant READ, WRITE and DESCRIBE on the topic {topic} " + WHO
TO_GROUPS = f"grant READ and DESCRIBE on the groups with the prefix {OUTPUT_GROUP} {WHO}"


def check_permissions(settings: Mapping[str, object], output: OutputSpec) -> None:
    """Raise BrokerError if the user may not write to the topic, or not commit offsets of the output's group."""
    admin = AdminClient(cast("dict[str, Any]", settings))
    topic, group = output.topic, f"{OUTPUT_GROUP}{output.name}"
    allowed = _allowed(
        lambda: admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )[topic],
        TOPIC_FORBIDDEN,
    )
    _require(allowed, "WRITE", f"write to the output topic {topic}", TO_TOPICS.format(topic=topic))
    _require(allowed, "READ", f"commit offsets of the output topic {topic}", TO_TOPICS.format(topic=topic))
    allowed = _allowed(
        lambda: admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )[group],
        GROUP_FORBIDDEN,
    )
    _require(allowed, "READ", f"commit offsets of the group {group}", TO_GROUPS)


def _allowed(ask: Callable[[], Future[Any]], forbidden: int) -> Collection[str] | None:
    """Return the operations that the cluster says are allowed; None if it says nothing."""
    try:
        found = ask().result(ANSWER_SECONDS + 1).authorized_operations
    except (KafkaException, TimeoutError) as problem:
        error = problem.args[0] if problem.args else None
        return () if isinstance(error, KafkaError) and error.code() == forbidden else None
    return [each.name for each in found] if found else None


def _require(allowed: Collection[str] | None, operation: str, act: str, hint: str) -> None:
    if allowed is not None and operation not in allowed:
        found = ", ".join(sorted(allowed)) or "none"
        raise BrokerError(
            f"the cluster does not allow this user to {act}: expected {operation}, found {found}", hint=hint
        )
