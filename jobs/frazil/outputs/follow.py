"""One output of one table in one process: it begins, and sends each epoch once (docs/decisions/0049)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from frazil.model.errors import CommitRejectedError, ContendedError, OutputHaltedError, TransactionTimedOutError
from frazil.model.outputs import OUTPUT_TAG, Marker, OutputRecord, OutputSpec, SentTable, ShardPlace, record_in
from frazil.model.snapshot import TableView
from frazil.outputs.checks import enough_partitions
from frazil.outputs.epoch_records import KeysAndValues, changes_of, rows_of
from frazil.outputs.placing import Placing
from frazil.outputs.ports import OutputClients, OutputRows, ShardProducer
from frazil.outputs.records import RecordEncoder, registered_encoder, shape_of
from frazil.outputs.transactions import ShardSending, send_epoch, send_marker
from frazil.outputs.unsent import Epoch, check_marker, check_parent, head_epoch, unsent_epochs
from frazil.ports import Lake

LOG = logging.getLogger(__name__)

RENEW_EVERY = timedelta(hours=12)
"""How often the markers of an idle table are committed again: Kafka forgets committed offsets of a group without
members after `offsets.retention.minutes`, 7 days by default."""

LOOK_EVERY = timedelta(hours=1)
"""How often a process looks at the markers of a table that does not change."""

ATTEMPTS = 5


@dataclass(slots=True)
class FollowedOutput:
    """Sends the epochs of a table to one topic. The producers stay open between batches, until another takes over."""

    spec: SentTable
    output: OutputSpec
    producers: list[ShardProducer] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    _sent: tuple[int | None, str] | None = None
    """The head and the schema of the table when everything was sent, as far as this process knows."""
    _looked_at: datetime | None = None

    def begin(self, lake: Lake, view: TableView) -> TableView:
        """Let the table record the output before its next epoch, if it does not yet. Raises ContendedError."""
        for _ in range(ATTEMPTS):
            if record_in(view.properties, self.output) is not None:
                return view
            with suppress(CommitRejectedError):
                self._record_beginning(lake, view)
            view = lake.load(view.identifier) or view
        raise ContendedError(
            f"{view.identifier}: others committed to the table each time that the output {self.output.name} was to be"
            " recorded in it",
            hint="run the command again",
        )

    def _record_beginning(self, lake: Lake, view: TableView) -> None:
        """Keep the snapshot that the output begins at, then record the output. A tag alone means nothing."""
        first = head_epoch(view).marker
        if view.tags.get(self.output.tag) != first.snapshot_id:
            lake.move_tags(view, put={self.output.tag: first.snapshot_id})
            view = lake.load(view.identifier) or view
        record = OutputRecord(self.output.topic, self.output.key, self.output.shards, first)
        lake.set_property_at(view, self.output.property_name, record.text())

    def send(self, clients: OutputClients, lake: Lake, view: TableView, *, now: datetime) -> int:
        """Send what the topic lacks, and return the number of records.

        After a transaction that timed out, what is lacking then is sent once more; that a second one times out is
        raised. Raises OutputHaltedError if the output cannot be continued, OutputSchemaError, FencedError if another
        process sends, and BrokerError and RegistryError.
        """
        if self._is_done(view, now):
            return 0
        try:
            return self._sent_now(clients, lake, view, now=now)
        except TransactionTimedOutError as aborted:
            named = {"table": view.identifier, "output": self.output.name, "topic": self.output.topic}
            LOG.warning("output_sent_again", extra=named | {"problem": aborted.what, "hint": aborted.hint})
            return self._sent_now(clients, lake, lake.load(view.identifier) or view, now=now)

    def _sent_now(self, clients: OutputClients, lake: Lake, view: TableView, *, now: datetime) -> int:
        record = self._record(view)
        places = self._places(view)
        try:
            return self._brought_up(clients, lake, view, record, places, now=now)
        except Exception:
            self.close()
            raise

    def _is_done(self, view: TableView, now: datetime) -> bool:
        recently = self._looked_at is not None and now - self._looked_at < LOOK_EVERY
        return recently and self._sent == (view.head, view.schema_json)

    def close(self) -> None:
        """Give the producers up; the next `send` opens others."""
        while self.producers:
            self.producers.pop().close()

    def _record(self, view: TableView) -> OutputRecord:
        record = record_in(view.properties, self.output)
        if record is None:
            raise OutputHaltedError(
                f"{view.identifier}: the table has no record of the output {self.output.name}: its property"
                f" {self.output.property_name} was removed",
                hint="restore the property from an earlier metadata file, or give the output another `name`",
            )
        now = (self.output.topic, self.output.key, self.output.shards)
        if (record.topic, record.key, record.shards) != now:
            raise OutputHaltedError(
                f"{view.identifier}: the output {self.output.name} began with topic, key and shards"
                f" {record.topic}, {list(record.key)}, {record.shards}, and {self.spec.source_file} now has"
                f" {self.output.topic}, {list(self.output.key)}, {self.output.shards}",
                hint="restore them, or give the output another `name`, which begins at the table's present epoch",
            )
        return record

    def _places(self, view: TableView) -> list[ShardPlace]:
        output = self.output
        return [ShardPlace(view.uuid, output.name, output.topic, shard) for shard in range(output.shards)]

    def _brought_up(
        self,
        clients: OutputClients,
        lake: Lake,
        view: TableView,
        record: OutputRecord,
        places: Sequence[ShardPlace],
        *,
        now: datetime,
    ) -> int:
        encoder = registered_encoder(
            clients.schemas, self.spec, self.output, shape_of(self.spec, self.output, view.columns)
        )
        self._check_key_schema(view, record, encoder)
        placing = Placing(self.output.shards, enough_partitions(clients.topics, self.spec, self.output))
        found = clients.topics.markers(places) if record.started else []
        markers = [self._checked(view, record, marker, shard) for shard, marker in enumerate(found or ())]
        sent = 0
        if not record.started or found is None or any(self._is_due(view, marker, now) for marker in markers):
            self._open(clients, places)
            view = self._started(lake, view, record, encoder, now=now)
            sent = self._send_epochs(clients, view, encoder, placing, now=now)
        self._note_sent(lake, view)
        self._sent, self._looked_at = (view.head, view.schema_json), now
        return sent

    def _is_due(self, view: TableView, marker: Marker, now: datetime) -> bool:
        """Return whether the topic lacks epochs, or Kafka would forget the marker some day."""
        is_old = marker.at is None or now - marker.at >= RENEW_EVERY
        return is_old or bool(unsent_epochs(view, self.output, marker))

    def _open(self, clients: OutputClients, places: Sequence[ShardPlace]) -> None:
        if not self.producers:
            for place in places:
                self.producers.append(clients.topics.open(place))

    def _check_key_schema(self, view: TableView, record: OutputRecord, encoder: RecordEncoder) -> None:
        """Raise OutputHaltedError if the keys of a table that follows keys would have other bytes than before."""
        now = encoder.key_schema
        if self.spec.replaces_rows and record.started and record.key_schema != now:
            raise OutputHaltedError(
                f"{view.identifier}: the keys of the output {self.output.name} have another schema since a column of"
                f" the key changed: expected the id {record.key_schema}, found {now}: the records of a key would not"
                " replace those that the topic has",
                hint="give the output another `name` and another topic",
            )

    def _started(
        self, lake: Lake, view: TableView, record: OutputRecord, encoder: RecordEncoder, *, now: datetime
    ) -> TableView:
        """Give each shard its first marker, and let the table record that each has one."""
        if record.started:
            return view
        for shard, producer in enumerate(self.producers):
            marker = producer.marker()
            if marker is None:
                send_marker(producer, replace(record.first, at=now))
            elif marker != record.first:
                raise self._from_elsewhere(view, record, marker, shard)
        started = replace(record, started=True, key_schema=encoder.key_schema)
        lake.set_properties(view.identifier, put={self.output.property_name: started.text()})
        return lake.load(view.identifier) or view

    def _from_elsewhere(self, view: TableView, record: OutputRecord, marker: Marker, shard: int) -> OutputHaltedError:
        return OutputHaltedError(
            f"{view.identifier}: the output {self.output.name} is new to the table, expected no marker or"
            f" {record.first}; found {marker} for shard {shard}: an output of this name has sent before",
            hint="give the output another `name`",
        )

    def _send_epochs(
        self, clients: OutputClients, view: TableView, encoder: RecordEncoder, placing: Placing, *, now: datetime
    ) -> int:
        record, sent = self._record(view), 0
        markers = [self._checked(view, record, each.marker(), shard) for shard, each in enumerate(self.producers)]
        unsent = [unsent_epochs(view, self.output, marker) for marker in markers]
        for epoch in max(unsent, key=len):
            shards = [
                ShardSending(shard, self.producers[shard], marker, now, self.clock)
                for shard, marker in enumerate(markers)
                if epoch in unsent[shard]
            ]
            sent += send_epoch(epoch, shards, self._encoded(clients.rows, view, epoch, encoder), placing)
            markers = [epoch.marker if epoch in lacked else each for each, lacked in zip(markers, unsent, strict=True)]
        for producer, marker, lacked in zip(self.producers, markers, unsent, strict=True):
            if not lacked and self._is_due(view, marker, now):
                send_marker(producer, replace(marker, at=now))
        return sent

    def _encoded(
        self, rows: OutputRows, view: TableView, epoch: Epoch, encoder: RecordEncoder
    ) -> Iterator[KeysAndValues]:
        if not self.spec.replaces_rows:
            return rows_of(rows, view, epoch.snapshot.id, encoder)
        check_parent(view, self.output, epoch)
        return changes_of(rows, view, epoch.snapshot.id, encoder)

    def _checked(self, view: TableView, record: OutputRecord, marker: Marker | None, shard: int) -> Marker:
        return check_marker(view, self.output, record, marker, shard=shard)

    def _note_sent(self, lake: Lake, view: TableView) -> None:
        """Move the tag to the snapshot of the epoch sent last. Others may commit meanwhile; then the tag stays behind.

        A tag that is behind is right, too: markers may be ahead of it.
        """
        sent = head_epoch(view).snapshot.id
        for _ in range(ATTEMPTS):
            if view.tags.get(self.output.tag) == sent:
                return
            try:
                lake.move_tags(view, put={self.output.tag: sent})
            except CommitRejectedError:
                view = lake.load(view.identifier) or view
            else:
                return


def without_gone(lake: Lake, view: TableView, outputs: Sequence[OutputSpec]) -> TableView:
    """Drop the tags of outputs that the spec no longer has, which keep snapshots from expiring."""
    gone = [tag for tag in view.tags if tag.startswith(OUTPUT_TAG) and tag not in {each.tag for each in outputs}]
    if not gone:
        return view
    with suppress(CommitRejectedError):  # the next batch tries again
        lake.move_tags(view, put={}, drop=gone)
    return lake.load(view.identifier) or view
