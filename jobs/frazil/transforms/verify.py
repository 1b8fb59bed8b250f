"""Compare the table of a transformation with its query over everything that it has read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from frazil.model.errors import Misuse, TransformHaltedError
from frazil.model.transforms import Position, TransformSpec
from frazil.transforms.joins import history_of, joined_before
from frazil.transforms.run import Transformation
from frazil.transforms.tables import all_rows
from frazil.transforms.unread import current_state


@dataclass(frozen=True, slots=True)
class Verified:
    """How many rows the table lacks, and how many it has beyond those of the query up to the position."""

    spec: TransformSpec
    position: Position
    rows: int
    lacks: int
    beyond: int

    @property
    def clean(self) -> bool:
        return not self.lacks and not self.beyond


def verify(made: Transformation) -> Verified:
    """Compute the query over the followed table as it was at the position, and compare the rows with those stored.

    Rows meet joined tables at the snapshots that they met in their batches. Raises Misuse for a table that does not
    exist, TransformHaltedError if a snapshot is gone, and what a batch raises.
    """
    spec = made.spec
    target = made.lake.load(spec.identifier)
    if target is None:
        raise Misuse(
            f"the catalog has no table {spec.identifier}", hint=f"run `frazil transform run {spec.name} --once` first"
        )
    position = current_state(target, spec, definition=made.definition()).position
    source = made.followed()
    if position is None:
        raise Misuse(f"{spec.identifier} has no rows yet", hint=f"run `frazil transform run {spec.name} --once` first")
    if position.snapshot_id not in source.snapshots or position.uuid != source.uuid:
        raise TransformHaltedError(
            f"{spec.identifier}: {source.identifier} does not have the snapshot that was read last: {position}",
            hint=f"run `frazil transform rebuild {spec.name}`, which computes all rows again",
        )
    if spec.joins:
        parts = joined_before(made.lake, spec, source, made.joined(), history_of(target, spec))
    else:
        parts = [[all_rows(made.lake, replace(source, head=position.snapshot_id))]]
    stored = all_rows(made.lake, target)
    query = made.queries().check(spec, parts[0])
    lacks, beyond = made.queries().differences(spec, query, parts, stored)
    return Verified(spec, position, target.snapshots[target.head].live_rows if target.head else 0, lacks, beyond)
