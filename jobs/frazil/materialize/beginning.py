"""The offsets that a batch starts from: dead letters from there on are of batches that were rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.progress import TableState

Source = tuple[str, int, int]
"""A topic, its generation and a partition."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of a batch: generation by topic, and offsets by topic and partition.

    Visible dead letters of the same table of rows with these offsets, or later ones, are of batches that were taken
    back.
    """

    rows_uuid: str
    sources: Mapping[str, tuple[int, Mapping[int, int]]]

    @staticmethod
    def after(state: TableState, rows_uuid: str) -> Beginning:
        """Return the start of the batch that follows a state."""
        nexts = {s.topic: (s.generation, {n: p.next for n, p in s.partitions.items()}) for s in state.sources}
        return Beginning(rows_uuid, nexts)

    @staticmethod
    def of_last(state: TableState, rows_uuid: str) -> Beginning:
        """Return the start of the batch that a state ends with."""
        starts = {s.topic: (s.generation, {n: p.start for n, p in s.partitions.items()}) for s in state.sources}
        return Beginning(rows_uuid, starts)

    def of(self, source: Source) -> int | None:
        """Return the offset of a partition; None if none of its dead letters is taken back."""
        topic, generation, partition = source
        now, offsets = self.sources.get(topic, (generation, {}))
        if generation < now:
            return None
        return offsets.get(partition, 0) if generation == now else 0

    @property
    def condition(self) -> str:
        """Return a filter in Iceberg's language for dead letters from here on."""
        of_table = f"table_uuid = '{self.rows_uuid}'"
        if not self.sources:
            return of_table
        known = ", ".join(f"'{topic}'" for topic in sorted(self.sources))
        of_known = [_from_here_on(topic, *each) for topic, each in sorted(self.sources.items())]
        return f"{of_table} AND ({' OR '.join([*of_known, f'topic NOT IN ({known})'])})"


def _from_here_on(topic: str, generation: int, offsets: Mapping[int, int]) -> str:
    behind = [f"(partition = {number} AND offset >= {offset})" for number, offset in sorted(offsets.items())]
    known = ", ".join(str(number) for number in sorted(offsets))
    new = [f"partition NOT IN ({known})"] if known else ["partition >= 0"]
    here = f"(generation = {generation} AND ({' OR '.join(behind + new)}))"
    return f"(topic = '{topic}' AND (generation > {generation} OR {here}))"
