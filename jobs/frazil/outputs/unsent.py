"""Which epochs of a table an output has not sent: decided from the table's metadata and a marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.model.epochs import epoch_of
from frazil.model.errors import OutputHaltedError
from frazil.model.outputs import Marker, OutputRecord, OutputSpec
from frazil.model.snapshot import Snapshot, TableView


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of the table, and the snapshot that made it visible."""

    number: int
    snapshot: Snapshot

    @property
    def marker(self) -> Marker:
        return Marker(self.number, self.snapshot.id)


def head_epoch(view: TableView) -> Epoch:
    """Return the newest epoch of `main`. The table has a state, as each batch makes sure."""
    return next(epoch for snapshot in view.ancestry(view.head) if (epoch := _epoch_of(snapshot)) is not None)


def unsent_epochs(view: TableView, output: OutputSpec, marker: Marker) -> list[Epoch]:
    """Return the epochs after the marker, oldest first.

    Raises OutputHaltedError if the marker's snapshot is not in the history of `main`: the table was rolled back or
    rebuilt, or epochs expired before they were sent.
    """
    newer: list[Epoch] = []
    begins_after = None
    for snapshot in view.ancestry(view.head):
        begins_after = snapshot.parent_id
        epoch = _epoch_of(snapshot)
        if snapshot.id == marker.snapshot_id:
            return _continued(view, output, marker, newer[::-1])
        if epoch is not None and epoch.number <= marker.epoch:
            raise _other_history(view, output, marker, epoch)
        if epoch is not None:
            newer.append(epoch)
    if newer and newer[-1].number == marker.epoch + 1 and begins_after == marker.snapshot_id:
        return _continued(view, output, marker, newer[::-1])
    raise _expired(view, output, marker, newer or [head_epoch(view)])


def _continued(view: TableView, output: OutputSpec, marker: Marker, unsent: list[Epoch]) -> list[Epoch]:
    """Return the epochs, the first of which is the one of which a part was sent, if any was."""
    if marker.part is not None and (not unsent or unsent[0].snapshot.id != marker.part.snapshot_id):
        raise _other_history(view, output, marker, unsent[0] if unsent else head_epoch(view))
    return unsent


def check_marker(
    view: TableView, output: OutputSpec, record: OutputRecord, marker: Marker | None, *, shard: int
) -> Marker:
    """Return the marker of a shard, which must not be behind what the table records about it.

    Raises OutputHaltedError if the marker is missing or lower: the shard would send epochs a second time.
    """
    least = recorded(view, output, record)
    if marker is not None and marker.epoch >= least:
        return marker
    found = "none" if marker is None else str(marker)
    raise OutputHaltedError(
        f"{view.identifier}: shard {shard} of the output {output.name} has lost its place in the topic"
        f" {output.topic}: expected the marker of epoch {least} or a later one, found {found}",
        hint="restore the committed offsets of the group, or give the output another `name`, which begins at the"
        " table's present epoch: docs/outputs.md, a lost marker",
    )


def check_parent(view: TableView, output: OutputSpec, epoch: Epoch) -> None:
    """Raise OutputHaltedError if it is not known which rows an epoch took out: the snapshot before it expired."""
    if epoch.snapshot.parent_id in view.snapshots:
        return
    raise OutputHaltedError(
        f"{view.identifier}: the snapshot {epoch.snapshot.parent_id} expired before the output {output.name} sent epoch"
        f" {epoch.number} to the topic {output.topic}: which rows the epoch took out cannot be read any more",
        hint="give the output another `name` and another topic, which begin at the table's present epoch",
    )


def recorded(view: TableView, output: OutputSpec, record: OutputRecord) -> int:
    """Return the epoch that the table records as sent."""
    tagged = view.snapshots.get(view.tags.get(output.tag, -1))
    epoch = None if tagged is None else _epoch_of(tagged)
    return record.first.epoch if epoch is None else epoch.number


def _epoch_of(snapshot: Snapshot) -> Epoch | None:
    number = epoch_of(snapshot)
    return None if number is None else Epoch(number, snapshot)


def _other_history(view: TableView, output: OutputSpec, marker: Marker, found: Epoch) -> OutputHaltedError:
    return OutputHaltedError(
        f"{view.identifier}: the output {output.name} has sent {marker} to the topic {output.topic}, which is not in"
        f" the history of the table any more: expected it before {found.marker}: the table was rolled back or rebuilt",
        hint="the topic has records of rows that the table no longer has; give the output another `name`, and best"
        " another topic, to continue from the table's present rows: docs/outputs.md, a rolled back table",
    )


def _expired(view: TableView, output: OutputSpec, marker: Marker, newer: Sequence[Epoch]) -> OutputHaltedError:
    """Return the error for epochs after a marker, newest first, before which snapshots are missing."""
    first, oldest, newest = marker.epoch + 1, newer[-1], newer[0].number
    if oldest.number > first:
        found = f"expected epoch {first}, found {oldest.number} as the oldest one after {marker}"
    else:
        found = f"found epoch {oldest.number}, but not the snapshots before it that lead back to {marker}"
    epochs = f"epoch {newest}" if newest <= first else f"epochs {first} to {newest}"
    return OutputHaltedError(
        f"{view.identifier}: snapshots expired before the output {output.name} sent them to the topic {output.topic}:"
        f" {found}",
        hint="give the output another `name`, which begins at the table's present epoch, and read the rows of"
        f" {epochs} from the table",
    )
