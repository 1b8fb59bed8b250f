"""The changes that envelopes are (docs/decisions/0040)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.arrow import arrow_schema
from frazil.formats.connect import ConnectTypes
from frazil.formats.debezium import numeric_times
from frazil.formats.debezium.columns import LogicalColumns, within
from frazil.formats.debezium.converted import Flags
from frazil.formats.debezium.envelope import (
    DELETED,
    OP,
    SOURCE_TIME,
    UPDATE_DESCRIPTION,
    check_names,
    check_position,
    image_columns,
    metadata_columns,
)
from frazil.formats.debezium.images import Images, Indexes, images_of
from frazil.formats.debezium.logical_types import MICRO, MILLI
from frazil.formats.debezium.position import Position, position
from frazil.formats.debezium.unavailable import unavailable
from frazil.model.change_events import ChangeEvents, kept_name
from frazil.model.columns import Column
from frazil.model.dead_letter import Reason, Reject

SNAPSHOT, CREATE, UPDATE, DELETE, TRUNCATE, MESSAGE = "r", "c", "u", "d", "t", "m"
OPERATIONS = (SNAPSHOT, CREATE, UPDATE, DELETE, TRUNCATE, MESSAGE)
TOMBSTONE = "tombstone"
"""What a record without a value is, among the operations."""
_WORDS = (*OPERATIONS, TOMBSTONE)
_WITHOUT_DOCUMENT = "the event lacks the document; capture.mode: change_streams_update_full gives it to later ones"
_SKIPPED = {MESSAGE: "message", TOMBSTONE: "tombstone"}


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of some records: each is a row, a delete or a truncate, or was skipped or rejected.

    `indexes` are the records of the rows, ascending, and the flags belong to the rows. `keeps_row`: the stored values
    stay, but those of the metadata columns; where no row is stored, the values given are the row, or the record changes
    nothing if it `needs_row`. `unavailable` are the columns of which some values stay as they are stored; here these
    are null.
    `deletes` are the records that take out the row of their key, `truncates` those that take out all rows.
    `delete_position` orders the deletes as the source's log does, as columns of the rows order these, the most
    significant number first; it is empty if the offset orders. `skipped` are records by the reason under which they are
    counted.
    """

    rows: pa.RecordBatch
    indexes: Indexes
    keeps_row: Flags
    needs_row: Flags
    unavailable: Mapping[str, Flags]
    deletes: Indexes
    delete_position: tuple[Indexes, ...]
    truncates: Indexes
    skipped: Mapping[str, Indexes]
    rejects: tuple[Reject, ...]
    truncated_nanos: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """Envelopes as arrays. `words` are indexes of `_WORDS`, -1 for any other operation."""

    words: npt.NDArray[np.int8]
    after: Images
    fields: Mapping[str, pa.Array]

    @property
    def has_after(self) -> Flags:
        return self.after.has

    @property
    def are_partial(self) -> Flags:
        """The updates of documents that do not have the document, but describe at most what changed."""
        if not pa.types.is_large_string(self.fields["after"].type):
            return np.zeros(len(self), np.bool_)
        return self.are(UPDATE) & ~self.has_after

    def field(self, path: str) -> pa.Array:
        """Return a field, by a path of one of the envelope's own fields or of one inside a struct."""
        first, *rest = path.split(".")
        return pc.struct_field(self.fields[first], rest) if rest else self.fields[first]

    def are(self, *words: str) -> Flags:
        found: Flags = np.zeros(len(self.words), np.bool_)
        for word in words:
            found |= self.words == _WORDS.index(word)
        return found

    def __len__(self) -> int:
        return len(self.words)


class Envelopes:
    """Makes changes of the envelopes of one writer schema, whose columns and named types are given.

    Raises IncompatibleSchemaError if the table cannot have the columns that `settings` asks for.
    """

    def __init__(self, stored: tuple[Column, ...], types: ConnectTypes, settings: ChangeEvents) -> None:
        self._image = LogicalColumns(image_columns(stored), within(types, "after"))
        self._metadata = metadata_columns(stored, settings)
        check_names(self._image.columns, self._metadata)
        check_position(stored, settings)
        self.settings = settings
        self.columns = (*self._image.columns, *self._metadata)
        self.schema = arrow_schema(self.columns)

    def changes(self, envelopes: pa.RecordBatch, is_tombstone: Flags | None = None) -> Changes:
        """Return the changes of decoded envelopes; those of tombstones are null in every column."""
        parts = _parts(envelopes, is_tombstone)
        at, rejects = self._position(parts), _rejects(parts)
        is_delete, keeps_row = self._deletes(parts), self._keeps_row(parts)
        skipped = self._skipped(parts, is_delete)
        is_row = parts.are(SNAPSHOT, CREATE, UPDATE) & parts.has_after
        has_row, is_truncate = is_row | keeps_row, parts.are(TRUNCATE)
        rejects += [each for each in at.rejects if (has_row | is_delete | is_truncate)[each.index]]
        lost = [each.index for each in at.rejects]
        has_row[lost] = is_delete[lost] = is_truncate[lost] = False
        chosen, deletes, truncates = (np.flatnonzero(each) for each in (has_row, is_delete, is_truncate))
        images = self._images(parts, chosen)
        marks = self._marks(images)
        converted = self._image.convert(_without_marked(images, marks) if marks else images)
        rejects += [_at(each, int(chosen[each.index]), parts) for each in converted.rejects]
        stays = np.delete(np.arange(len(chosen)), [each.index for each in converted.rejects])
        indexes = chosen[stays]
        return Changes(
            rows=self._rows(converted.rows, parts, indexes, at),
            indexes=indexes,
            keeps_row=keeps_row[indexes],
            needs_row=(keeps_row & parts.are(UPDATE))[indexes],
            unavailable=_kept({name: mark & is_row[chosen] for name, mark in marks.items()}, stays),
            deletes=deletes,
            delete_position=tuple(column[deletes] for column in at.columns),
            truncates=truncates,
            skipped=skipped,
            rejects=tuple(sorted(rejects, key=lambda each: each.index)),
            truncated_nanos=converted.truncated_nanos,
        )

    def _position(self, parts: _Parts) -> Position:
        connector = self.settings.connector
        return (
            Position((), ()) if connector is None else position(connector, parts.fields["source"], parts.are(SNAPSHOT))
        )

    def _deletes(self, parts: _Parts) -> Flags:
        """Return which records take a row out. A tombstone has no position in the source, and follows a delete."""
        if self.settings.soft_deletes:
            return np.zeros(len(parts), np.bool_)
        return parts.are(DELETE) if self.settings.connector else parts.are(DELETE, TOMBSTONE)

    def _keeps_row(self, parts: _Parts) -> Flags:
        without_after: Flags = parts.are(UPDATE) & ~parts.has_after & ~parts.are_partial
        return without_after | parts.are(DELETE) if self.settings.soft_deletes else without_after

    def _images(self, parts: _Parts, chosen: Indexes) -> pa.RecordBatch:
        """Return the images of the records: `before` for soft deletes, else `after`, which deletes lack."""
        wanted = parts.after
        if self.settings.soft_deletes and "before" in parts.fields:
            wanted = wanted.with_others(images_of(parts.fields["before"]), parts.are(DELETE))
        names = [column.name for column in self._image.columns]
        return pa.RecordBatch.from_arrays(wanted.chosen(chosen), names=names)

    def _marks(self, images: pa.RecordBatch) -> dict[str, Flags]:
        """Return which values of each column are unavailable; columns without any are left out."""
        found = {
            name: unavailable(array, self.settings.placeholder)
            for name, array in zip(images.schema.names, images.columns, strict=True)
        }
        return {name: marks for name, marks in found.items() if marks.any()}

    def _rows(self, images: pa.RecordBatch, parts: _Parts, indexes: Indexes, at: Position) -> pa.RecordBatch:
        positions = dict(zip(self.settings.position, at.columns, strict=True))
        arrays = [
            pa.array(positions[column.name]) if column.name in positions else self._about(column, parts)
            for column in self._metadata
        ]
        if len(indexes) < len(parts):
            arrays = [array.take(pa.array(indexes)) for array in arrays]
        return pa.RecordBatch.from_arrays([*images.columns, *arrays], schema=self.schema)

    def _about(self, column: Column, parts: _Parts) -> pa.Array:
        if column.name == OP:
            return parts.fields["op"]
        if column.name == SOURCE_TIME:
            return _source_time(parts)
        if column.name == DELETED:
            return pa.array(parts.are(DELETE))
        path = next(each for each in self.settings.kept if kept_name(each) == column.name)
        return parts.field(path)

    def _skipped(self, parts: _Parts, is_delete: Flags) -> dict[str, Indexes]:
        found = {reason: np.flatnonzero(parts.are(word) & ~is_delete) for word, reason in _SKIPPED.items()}
        return {reason: indexes for reason, indexes in found.items() if len(indexes)}


def _parts(envelopes: pa.RecordBatch, is_tombstone: Flags | None) -> _Parts:
    fields = dict(zip(envelopes.schema.names, envelopes.columns, strict=True))
    words = pc.index_in(fields["op"], pa.array(OPERATIONS, fields["op"].type)).fill_null(-1).to_numpy().astype(np.int8)
    if is_tombstone is not None:
        words = np.where(is_tombstone, _WORDS.index(TOMBSTONE), words)
    return _Parts(words, images_of(fields["after"]), fields)


def _rejects(parts: _Parts) -> list[Reject]:
    expected = f"expected one of {', '.join(OPERATIONS)}"
    unknown = [Reject(i, Reason.UNKNOWN_OPERATION, expected, "op") for i in np.flatnonzero(parts.words < 0).tolist()]
    is_missing = parts.are(SNAPSHOT, CREATE) & ~parts.has_after
    detail = "a record that adds a row needs one"
    missing = [Reject(i, Reason.MISSING_AFTER, detail, "after") for i in np.flatnonzero(is_missing).tolist()]
    partial = np.flatnonzero(parts.are_partial).tolist()
    return (
        unknown + missing + [Reject(i, Reason.PARTIAL_UPDATE, _WITHOUT_DOCUMENT, UPDATE_DESCRIPTION) for i in partial]
    )


def _at(reject: Reject, index: int, parts: _Parts) -> Reject:
    """Return the reject of an image's value as one of its record."""
    image = "after" if parts.has_after[index] else "before"
    return reject._replace(index=index, path=f"{image}.{reject.path}")


def _kept(marks: Mapping[str, Flags], stays: Indexes) -> dict[str, Flags]:
    """Return the marks of the rows that stay. A value that is kept with its whole row has none."""
    return {name: mark[stays] for name, mark in marks.items() if mark.any()}


def _without_marked(images: pa.RecordBatch, marks: Mapping[str, Flags]) -> pa.RecordBatch:
    arrays = [
        array.take(pa.array(np.arange(len(array)), mask=marks[name])) if name in marks else array
        for name, array in zip(images.schema.names, images.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=images.schema.names)


def _source_time(parts: _Parts) -> pa.Array:
    """Return when the database made each change, as exactly as the envelope says it in a whole number."""
    source = parts.fields.get("source")
    fields = () if source is None or not pa.types.is_struct(source.type) else source.type
    whole = {each.name for each in fields if pa.types.is_integer(each.type)}
    times = pa.nulls(len(parts), pa.timestamp("us"))
    for name, unit in (("ts_us", MICRO), ("ts_ms", MILLI)):
        if name in whole and times.null_count:
            found = numeric_times.timestamp(unit)(parts.field(f"source.{name}")).values
            times = pc.coalesce(times, found) if times.null_count < len(times) else found
    return times.view(pa.timestamp("us", "UTC"))


def no_envelopes(records: int) -> tuple[Reject, ...]:
    """Return a reject for each record of a schema that is not of change events."""
    return tuple(map(no_envelope, range(records)))


def no_envelope(index: int) -> Reject:
    return Reject(index, Reason.NOT_AN_ENVELOPE, "expected the fields op and after")
