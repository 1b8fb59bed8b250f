"""Warnings that a process logs once for each table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from frazil.materialize.state import Standing
from frazil.model.ingested import WrittenFile
from frazil.model.plan import TopicFacts
from frazil.model.spelling import plural
from frazil.model.summary import is_rewrite

LOG = logging.getLogger(__name__)

PASSING = frozenset({"rolled_back_to_epoch", "changed_by_others"})
"""Events that are over once a look at the table no longer finds them: they are forgotten then."""


MANY_FILES, SMALL_BYTES = 1_000, 1 << 20
"""So many files of one batch, smaller than this on average, make a table that is slow to plan and to read."""


@dataclass(slots=True)
class WarnOnce:
    """The warnings that were logged about one table."""

    table: str
    warned: set[tuple[str, str]] = field(default_factory=set)

    def warn(self, event: str, about: str) -> None:
        """Log an event unless it was logged before about the same thing."""
        if (event, about) not in self.warned:
            LOG.warning(event, extra={"table": self.table, "about": about})
        self.warned.add((event, about))

    def warn_of_changes(self, here: Standing, topics: Sequence[TopicFacts]) -> None:
        """Log what is no failure, but operators should know: topics without an id, rollbacks, commits of others."""
        notes = {("no_topic_id", facts.topic) for facts in topics if facts.topic_id is None}
        notes |= {("rolled_back_to_epoch", str(here.state.epoch))} if here.rolled_back else set()
        notes |= {("changed_by_others", snapshot.name) for snapshot in here.foreign if not is_rewrite(snapshot)}
        for event, about in sorted(notes):
            self.warn(event, about)
        self.warned -= {past for past in self.warned if past[0] in PASSING and past not in notes}

    def warn_of_small_files(self, files: Sequence[WrittenFile], partition_by: Sequence[str]) -> None:
        """Log the first batch whose partitions have a small file each, in great number."""
        known = any(event == "many_small_files" for event, _ in self.warned)
        if known or len(files) < MANY_FILES or sum(file.size for file in files) >= SMALL_BYTES * len(files):
            return
        each = plural(round(sum(file.rows for file in files) / len(files)), "row")
        self.warn("many_small_files", f"{len(files):,} files of about {each} by {', '.join(partition_by)}")
