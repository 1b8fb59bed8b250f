"""How far a transformation has come, by the metadata of its tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from frazil.model.errors import FrazilError
from frazil.model.moments import rfc3339
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spelling import plural
from frazil.model.transforms import TransformSpec, transform_state
from frazil.outputs.standing import OutputStanding, output_standing
from frazil.ports import Lake
from frazil.transforms.function import code_of
from frazil.transforms.send import outputs_by
from frazil.transforms.sources import kind_of
from frazil.transforms.unread import Unread, current_state, unread

STATES = ("in trouble", "no table", "behind", "caught up")
"""The states of a transformation, the ones that need a person first."""


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """The last batch of a transformation, which wrote so many rows to its table."""

    at: datetime
    batch_id: str
    rows: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class TransformStanding:
    """A transformation: the epoch of the followed table that it has read, and how many with rows it has not.

    `problem` is why it cannot continue. `epoch` is None before its first batch. `unread_rows` were added by the unread
    epochs, the first of which was committed at `behind_since`; None if that is not known. `read_through` is when the
    epoch that it has read was committed, if its snapshot is retained. `keys` are the columns that name one of its
    `rows`, such as those of a GROUP BY.
    """

    spec: TransformSpec
    epoch: int | None = None
    unread: int = 0
    outputs: tuple[OutputStanding, ...] = ()
    problem: str | None = None
    unread_rows: int | None = None
    behind_since: datetime | None = None
    read_through: datetime | None = None
    batches: int = 0
    rows: int | None = None
    keys: tuple[str, ...] = ()
    snapshots: int | None = None
    last_batch: PublishedBatch | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        of_outputs = (each.problem for each in self.outputs)
        return tuple(each for each in (self.problem, *of_outputs) if each is not None)

    @property
    def state(self) -> str:
        """The state in one or two words."""
        if self.problem is not None:
            return "in trouble"
        if self.rows is None:
            return "no table"
        return "behind" if self.unread or self.epoch is None else "caught up"

    def lag_seconds(self, now: datetime) -> float | None:
        """Return the seconds since the first unread epoch was committed; None if that is not known."""
        if self.state == "caught up":
            return 0.0
        return None if self.behind_since is None else (now - self.behind_since).total_seconds()

    def age_seconds(self, now: datetime) -> float | None:
        """Return the seconds since the epoch that it has read was committed."""
        return None if self.read_through is None else (now - self.read_through).total_seconds()

    def to_json(self, now: datetime) -> dict[str, Any]:
        last = self.last_batch
        return {
            "transform": self.spec.name,
            "table": self.spec.identifier,
            "follows": self.spec.source,
            "state": self.state,
            "problem": self.problem,
            "lag": self.unread_rows,
            "lag_epochs": None if self.unread_rows is None else self.unread,
            "lag_seconds": self.lag_seconds(now),
            "read_epoch": self.epoch,
            "read_through": _text(self.read_through),
            "age_seconds": self.age_seconds(now),
            "epoch": self.batches,
            "rows": self.rows,
            "keys": list(self.keys),
            "snapshots": self.snapshots,
            "last_batch": None if last is None else {**asdict(last), "at": rfc3339(last.at)},
            "outputs": [{**asdict(each), "since": _text(each.since)} for each in self.outputs],
        }

    def lines(self) -> Iterator[str]:
        yield f"{self.spec.identifier}: {self}"
        for output in self.outputs:
            yield f"{self.spec.identifier}: {output}"

    def __str__(self) -> str:
        name = f"transform {self.spec.name}"
        if self.problem is not None:
            return f"{name} is halted: {self.problem}"
        if self.epoch is None:
            return f"{name} has not read {self.spec.source} yet"
        lacks = f"lacks {plural(self.unread, 'epoch')}" if self.unread else "lacks none"
        return f"{name} has read {self.spec.source} up to epoch {self.epoch}, and {lacks}"


def transform_standing(lake: Lake, spec: TransformSpec) -> TransformStanding:
    """Return how far a transformation has come. Raises CatalogError if the catalog or storage does not answer."""
    target, source = lake.load(spec.identifier), lake.load(spec.source)
    found = TransformStanding(spec) if target is None else _of_target(spec, target)
    if source is None:
        return found
    if target is not None:
        return _of_tables(found, target, source)
    try:
        return _behind(found, source, unread(source, spec, None, changes=kind_of(spec, source).changes))
    except FrazilError as halted:
        return replace(found, problem=halted.what)


def _of_target(spec: TransformSpec, target: TableView) -> TransformStanding:
    """Return what the table says by itself."""
    head = target.head_snapshot()
    found = TransformStanding(spec, rows=None if head is None else head.live_rows, snapshots=len(target.snapshots))
    for snapshot in target.ancestry(target.head):
        state = transform_state(snapshot)
        if state is not None and state.name == spec.name:
            last = _batch(snapshot, state.batch_id) if state.position is not None else None
            return replace(found, batches=state.epoch, keys=state.rows.keys, last_batch=last)
    return found


def _batch(snapshot: Snapshot, batch_id: str) -> PublishedBatch:
    return PublishedBatch(snapshot.committed_at, batch_id, snapshot.figure("added-records"), snapshot.id)


def _of_tables(found: TransformStanding, target: TableView, source: TableView) -> TransformStanding:
    spec = found.spec
    outputs: tuple[OutputStanding, ...] = ()
    try:
        state = current_state(target, spec, definition=spec.definition(code_of(spec)))
        outputs = tuple(output_standing(target, each) for each in outputs_by(spec, state.rows))
        news = unread(source, spec, state.position, changes=kind_of(spec, source).changes)
    except FrazilError as halted:
        return replace(found, outputs=outputs, problem=halted.what)
    at = state.position
    read = None if at is None else source.snapshots.get(at.snapshot_id)
    known = replace(
        found,
        epoch=None if at is None else at.epoch,
        outputs=outputs,
        read_through=None if read is None else read.committed_at,
    )
    return _behind(known, source, news)


def _behind(found: TransformStanding, source: TableView, news: Unread) -> TransformStanding:
    """Return the standing with what is unread. Before its first batch, that is the whole table."""
    if news.is_everything:
        head = source.head_snapshot()
        return replace(found, unread_rows=0 if head is None else head.live_rows)
    unread_by = [source.snapshots[each] for each in news.changed_by]
    return replace(
        found,
        unread=len(unread_by),
        unread_rows=sum(each.figure("added-records") for each in unread_by),
        behind_since=unread_by[0].committed_at if unread_by else None,
    )


def _text(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)
