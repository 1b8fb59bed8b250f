"""Keys of change events: a record of the columns of the primary key, whose types are named as those of values are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.avro import mapping as avro_mapping
from frazil.formats.avro import open as avro_decoders
from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.types import AvroSchema
from frazil.formats.connect_json.schema import EmbeddedSchema
from frazil.formats.debezium.columns import LogicalColumns
from frazil.formats.debezium.envelope import is_key_of_row
from frazil.formats.decoder import Decoded, Decoder, Payloads
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.native import Engine
from frazil.model.dead_letter import Reason, Reject


class KeyDecoder:
    """Decodes keys, and converts the values of named types (`decoder.Decoder`)."""

    def __init__(self, decoder: Decoder, columns: LogicalColumns) -> None:
        self.columns = columns.columns
        self.schema: pa.Schema = columns.schema
        self._decoder = decoder
        self._columns = columns

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        decoded = self._decoder.decode(payloads, skip=skip)
        converted = self._columns.convert(decoded.rows)
        rows = np.delete(np.arange(decoded.taken), [reject.index for reject in decoded.rejects])
        bad = (each.at(int(rows[each.index])) for each in converted.rejects)
        return Decoded(
            converted.rows,
            tuple(sorted([*decoded.rejects, *bad], key=lambda each: each.index)),
            decoded.truncated_nanos + converted.truncated_nanos,
            decoded.undeclared,
        )


class OtherKeys:
    """Rejects all keys of records that are about no row, such as heartbeats (`decoder.Decoder`).

    Nothing asks for the keys of records that are skipped.
    """

    schema = arrow_schema(())

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        del skip
        detail = "the key of a heartbeat, a transaction or a schema change"
        nothing = pa.RecordBatch.from_arrays([], schema=self.schema)
        return Decoded(nothing, tuple(Reject(n, Reason.NULL_IDENTITY, detail) for n in range(len(payloads))))


def avro_keys(schema: AvroSchema, engine: Engine | None = None) -> Decoder:
    """Return the decoder of keys of a schema. Raises IncompatibleSchemaError as `avro.open.open_decoder` does."""
    mapped = avro_mapping.map_schema(schema)
    if not is_key_of_row(mapped.record):
        return OtherKeys()
    return KeyDecoder(avro_decoders.open_decoder(schema, engine), LogicalColumns(mapped.columns, connect_types(schema)))


def json_keys(schema: EmbeddedSchema, engine: Engine | None = None) -> Decoder:
    """Return the decoder of the payloads of keys that have this schema in them."""
    if not is_key_of_row(schema.name):
        return OtherKeys()
    decoder = json_decoders.open_decoder(schema.row, engine)
    return KeyDecoder(decoder, LogicalColumns(columns_of(schema.row), schema.types))
