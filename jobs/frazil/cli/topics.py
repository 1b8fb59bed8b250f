"""Look up topics that are named on the command line."""

from __future__ import annotations

from frazil.model.errors import ServiceError, TopicMissingError
from frazil.model.plan import TopicFacts
from frazil.model.spelling import did_you_mean
from frazil.ports import Topics

LISTED = 12


def described(topics: Topics, topic: str) -> TopicFacts:
    """Return a topic's facts from the broker. Raises TopicMissingError, which suggests a similar name."""
    facts = topics.describe(topic)
    if facts is None:
        raise TopicMissingError(
            f"the cluster has no topic {topic}, or this user may not see it", hint=_hint(topics, topic)
        )
    return facts


def _hint(topics: Topics, topic: str) -> str:
    try:
        names = visible(topics)
    except ServiceError:
        return "create the topic, or correct the name"
    likely = did_you_mean(topic, names)
    if likely is not None:
        return f"did you mean {likely}?"
    more = ", …" if len(names) > LISTED else ""
    if not names:
        return "the cluster has no topics yet; on the local broker, `frazil local produce stock_trades` makes one"
    return f"the cluster has {', '.join(names[:LISTED])}{more}"


def visible(topics: Topics) -> list[str]:
    """Return the topics of the cluster, except internal ones, whose names start with an underscore."""
    return sorted(name for name in topics.names() if not name.startswith("_"))
