"""The specs by which the records of a partition were read before the spec of their table changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.materialize.changed_spec.applied_spec import applied_spec_of, as_read_before
from frazil.materialize.state import Standing
from frazil.model.spec import TableSpec
from frazil.proof.tally import TopicPartition

Specs = Sequence[tuple[TableSpec, Standing]]
"""The specs of a table, or of the tables of a group."""


@dataclass(frozen=True, slots=True)
class EarlierSpecs:
    """The specs by which records before the offset `until` were read, and the keys that have changed since.

    `epoch` is that of the last batch by them: one that replays dead letters reads no further.
    """

    until: int
    epoch: int
    specs: Specs
    changed: frozenset[str]

    @property
    def end(self) -> tuple[int, int]:
        return self.until, self.epoch


def earlier_specs(tables: Specs, where: TopicPartition) -> list[EarlierSpecs]:
    """Return the earlier specs of a partition's records, the newest first; none where the spec never changed.

    Each table of a group has its own record of changes, and those of the others may have changed at other offsets.
    """
    found = [_of_table(spec, at, where) for spec, at in tables]
    ends = sorted({each.end for of_table in found for each in of_table}, reverse=True)
    return [_together(tables, found, end) for end in ends]


def changed_keys(earlier: Sequence[EarlierSpecs]) -> list[str]:
    """Return the keys of the spec that have changed since any record was read."""
    return sorted({key for each in earlier for key in each.changed})


def _of_table(spec: TableSpec, at: Standing, where: TopicPartition) -> list[EarlierSpecs]:
    """Return the earlier specs of one table, the oldest first; none of a topic that it has not read."""
    applied = applied_spec_of(at.view.properties, table=spec.identifier)
    generation = next((source.generation for source in at.state.sources if source.topic == where[0]), None)
    if applied is None or generation is None:
        return []
    found = []
    for place, each in enumerate(applied.earlier):
        end = each.end(where[0], generation, where[1])
        if end > 0:
            since = frozenset(key for later in applied.earlier[place:] for key in later.keys)
            found.append(EarlierSpecs(end, each.epoch, [(as_read_before(spec, applied, place), at)], since))
    return found


def _together(tables: Specs, found: Sequence[Sequence[EarlierSpecs]], end: tuple[int, int]) -> EarlierSpecs:
    """Return the specs of all tables by which the record before an end was read."""
    specs: list[tuple[TableSpec, Standing]] = []
    changed: set[str] = set()
    for present, of_table in zip(tables, found, strict=True):
        earlier = next((each for each in of_table if each.end >= end), None)
        specs += [present] if earlier is None else earlier.specs
        changed |= set() if earlier is None else earlier.changed
    return EarlierSpecs(*end, specs, frozenset(changed))
