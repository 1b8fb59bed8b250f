"""The owner of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.model.progress import TableState

_TOPICS_FOLLOW = "<-"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The owner of a table: one spec, by the name of its table. A table stores the name alone.

    `topics` tell two specs for the same table apart: those that the spec has, or that the table has been read from.
    """

    name: str
    topics: tuple[str, ...]

    @staticmethod
    def of_state(state: TableState) -> Pipeline:
        return Pipeline(owner_name(state.pipeline), tuple(sorted(source.topic for source in state.sources)))

    def owns(self, state: TableState) -> bool:
        """Return whether a table with this state is the pipeline's: it has its name, and one of its topics."""
        there = Pipeline.of_state(state)
        return there.name == self.name and (not there.topics or not set(there.topics).isdisjoint(self.topics))

    def __str__(self) -> str:
        return f"{self.name}{_TOPICS_FOLLOW}{','.join(self.topics)}"


def owner_name(stored: str) -> str:
    """Return the name of a pipeline as a snapshot stores it; the first releases appended the topics."""
    return stored.partition(_TOPICS_FOLLOW)[0]


def listed_topics(topics: Iterable[str]) -> str:
    """Return topics in words: `topic a`, or `topics a, b`."""
    names = sorted(topics)
    return f"topic{'' if len(names) == 1 else 's'} {', '.join(names)}"
