"""Payloads of change events, decoded into changes, and the columns that they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.avro import mapping as avro_mapping
from frazil.formats.avro import open as avro_decoders
from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.types import AvroSchema
from frazil.formats.connect import ConnectTypes
from frazil.formats.connect_json.schema import EmbeddedSchema
from frazil.formats.debezium.changes import Changes, Envelopes, no_envelopes
from frazil.formats.debezium.envelope import Kind, about_names, fields_read, kind_of
from frazil.formats.decoder import Decoded, Decoder, Incomplete, Indexes, Payloads, WithoutRow
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped
from frazil.formats.native import Engine
from frazil.model.change_events import ChangeEvents
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaFinding

IMAGES = ("before", "after")
_IMAGE = "after."


class ChangeDecoder:
    """Decodes change events of one writer schema (`decoder.Decoder`)."""

    def __init__(self, decoder: Decoder, envelopes: Envelopes) -> None:
        self.schema = envelopes.schema
        self._settings = envelopes.settings
        self._decoder = decoder
        self._envelopes = envelopes

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        decoded = self._decoder.decode(payloads, skip=skip)
        changes, among = self._envelopes.changes(decoded.rows), accepted_of(decoded)
        rejects = [*decoded.rejects, *(each.at(int(among[each.index])) for each in changes.rejects)]
        return Decoded(
            changes.rows,
            tuple(sorted(rejects, key=lambda each: each.index)),
            decoded.truncated_nanos + changes.truncated_nanos,
            decoded.undeclared,
            WithoutRow(changes.deletes, changes.truncates, changes.skipped, changes.delete_position).among(among),
            tuple(each.among(among) for each in _incomplete(changes, self._settings)),
        )


class OtherEvents:
    """Skips or rejects all payloads of a schema that is not of envelopes (`decoder.Decoder`)."""

    def __init__(self, kind: Kind) -> None:
        self.schema = arrow_schema(())
        self._kind = kind

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        del skip
        nothing, count = pa.RecordBatch.from_arrays([], schema=self.schema), len(payloads)
        if self._kind == "other":
            return Decoded(nothing, no_envelopes(count))
        return Decoded(nothing, (), without_row=WithoutRow(skipped={self._kind: np.arange(count)}))


def accepted_of(decoded: Decoded) -> Indexes:
    """Return the indexes of the payloads that have a row in what a decoder of envelopes returned."""
    return np.delete(np.arange(decoded.taken), [reject.index for reject in decoded.rejects])


def _incomplete(changes: Changes, settings: ChangeEvents) -> Iterator[Incomplete]:
    """Yield the rows that take values from stored ones: by the columns that they take."""
    for needs_row in (False, True):
        which = changes.indexes[changes.keeps_row & (changes.needs_row == needs_row)]
        if len(which):
            yield Incomplete(about_names(settings), which, are_own=True, needs_row=needs_row)
    if changes.unavailable:
        names, marks = tuple(changes.unavailable), np.stack([*changes.unavailable.values()], axis=1)
        rows = np.flatnonzero(marks.any(axis=1))
        for kind in np.unique(marks[rows], axis=0):
            columns = tuple(name for name, marked in zip(names, kind.tolist(), strict=True) if marked)
            yield Incomplete(columns, changes.indexes[rows[(marks[rows] == kind).all(axis=1)]])


def avro_changes(schema: AvroSchema, settings: ChangeEvents, engine: Engine | None = None) -> Decoder:
    """Return the decoder of a schema of change events. Raises IncompatibleSchemaError as `Envelopes` does."""
    mapped = avro_mapping.map_schema(schema)
    columns = () if mapped.findings else mapped.columns
    kind = kind_of(columns, mapped.record)
    if kind != "envelope":
        return OtherEvents(kind)
    decoder = avro_decoders.open_decoder(schema, engine, fields_read(settings), IMAGES)
    return ChangeDecoder(decoder, Envelopes(columns, connect_types(schema), settings))


def json_changes(schema: EmbeddedSchema, settings: ChangeEvents, engine: Engine | None = None) -> Decoder:
    """Return the decoder of the payloads of records that have this schema in them."""
    kind = kind_of(columns_of(schema.row), schema.name)
    if kind != "envelope":
        return OtherEvents(kind)
    decoder = json_decoders.open_decoder(schema.row, engine)
    return ChangeDecoder(decoder, Envelopes(columns_of(schema.row), schema.types, settings))


def map_avro(schema: AvroSchema, settings: ChangeEvents) -> Mapped:
    """Return the columns of the rows in change events of a schema, and why there are none."""
    return mapped_envelopes(avro_mapping.map_schema(schema), connect_types(schema), settings)


def map_json(schema: EmbeddedSchema, settings: ChangeEvents) -> Mapped:
    return mapped_envelopes(Mapped(columns_of(schema.row), (), record=schema.name or ""), schema.types, settings)


def mapped_envelopes(stored: Mapped, types: ConnectTypes, settings: ChangeEvents) -> Mapped:
    """Other records of a connector have no columns. Of heartbeats and the like, which are skipped, nothing is found."""
    kind = kind_of(stored.columns, stored.record)
    if kind == "other" and stored.findings:
        return replace(stored, columns=())
    if kind != "envelope":
        return Mapped((), (), record=stored.record, is_of_rows=kind == "other")
    try:
        columns = Envelopes(stored.columns, types, settings).columns
    except IncompatibleSchemaError as error:
        return Mapped((), (*stored.findings, SchemaFinding("", error.what)), record=stored.record)
    notes = (SchemaFinding(each.path.removeprefix(_IMAGE), each.problem) for each in stored.notes if _is_of_row(each))
    return Mapped(columns, stored.findings, tuple(notes), record=stored.record)


def _is_of_row(note: SchemaFinding) -> bool:
    return note.path.startswith(_IMAGE)
