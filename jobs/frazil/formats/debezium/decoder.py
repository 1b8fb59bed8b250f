"""Payloads of change events, decoded into changes, and the columns that they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frazil.formats.avro import mapping as avro_mapping
from frazil.formats.avro import open as avro_decoders
from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.types import AvroSchema
from frazil.formats.connect import ConnectTypes
from frazil.formats.connect_json.schema import EmbeddedSchema
from frazil.formats.debezium.changes import Changes, Envelopes
from frazil.formats.debezium.envelope import Settings, fields_read, kind_of
from frazil.formats.decoder import Decoder, Payloads
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.mapped import Mapped
from frazil.formats.native import Engine
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaFinding

_IMAGE = "after."


@dataclass(frozen=True, slots=True)
class DecodedChanges:
    """The changes of the first `taken` payloads, with their indexes; fields that no schema declares are counted."""

    changes: Changes
    taken: int
    undeclared: int


class ChangeDecoder:
    """Decodes change events of one writer schema. Not thread-safe."""

    def __init__(self, decoder: Decoder, envelopes: Envelopes) -> None:
        self.columns, self.schema = envelopes.columns, envelopes.schema
        self._decoder = decoder
        self._envelopes = envelopes

    def decode(self, payloads: Payloads, *, skip: int = 0) -> DecodedChanges:
        """Decode payloads, each from its byte `skip` on, as `Decoder` does."""
        decoded = self._decoder.decode(payloads, skip=skip)
        records = np.delete(np.arange(decoded.taken), [reject.index for reject in decoded.rejects])
        changes = self._envelopes.changes(decoded.rows).of(records)
        return DecodedChanges(
            changes.rejecting(decoded.rejects, decoded.truncated_nanos), decoded.taken, decoded.undeclared
        )


def avro_changes(schema: AvroSchema, settings: Settings, engine: Engine | None = None) -> ChangeDecoder:
    """Return the decoder of a schema of envelopes. Raises IncompatibleSchemaError as `Envelopes` does."""
    columns = avro_mapping.map_schema(schema).columns
    decoder = avro_decoders.open_decoder(schema, engine, fields_read(settings))
    return ChangeDecoder(decoder, Envelopes(columns, connect_types(schema), settings))


def json_changes(schema: EmbeddedSchema, settings: Settings, engine: Engine | None = None) -> ChangeDecoder:
    """Return the decoder of the payloads of records that have this schema in them."""
    decoder = json_decoders.open_decoder(schema.row, engine)
    return ChangeDecoder(decoder, Envelopes(columns_of(schema.row), schema.types, settings))


def map_avro(schema: AvroSchema, settings: Settings) -> Mapped:
    """Return the columns of the rows in change events of a schema, and why there are none."""
    return _mapped(avro_mapping.map_schema(schema), connect_types(schema), settings)


def map_json(schema: EmbeddedSchema, settings: Settings) -> Mapped:
    return _mapped(Mapped(columns_of(schema.row), (), record=schema.name or ""), schema.types, settings)


def _mapped(stored: Mapped, types: ConnectTypes, settings: Settings) -> Mapped:
    """Heartbeats and the like have no columns, and no findings either."""
    if stored.findings:
        return stored
    kind = kind_of(stored.columns, stored.record)
    if kind != "envelope":
        findings = (SchemaFinding("", "not a change event: it lacks the fields op and after"),)
        return Mapped((), findings if kind == "other" else (), record=stored.record)
    try:
        columns = Envelopes(stored.columns, types, settings).columns
    except IncompatibleSchemaError as error:
        return Mapped((), (SchemaFinding("", error.what),), record=stored.record)
    notes = (SchemaFinding(each.path.removeprefix(_IMAGE), each.problem) for each in stored.notes if _is_of_row(each))
    return Mapped(columns, (), tuple(notes), record=stored.record)


def _is_of_row(note: SchemaFinding) -> bool:
    return note.path.startswith(_IMAGE)
