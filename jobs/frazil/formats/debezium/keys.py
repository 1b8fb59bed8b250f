"""Keys of change events: a record of the columns of the primary key, whose types are named as those of values are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.formats.avro import mapping as avro_mapping
from frazil.formats.avro import open as avro_decoders
from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.types import AvroSchema
from frazil.formats.connect_json.schema import EmbeddedSchema
from frazil.formats.debezium.columns import LogicalColumns
from frazil.formats.decoder import Decoded, Decoder, Payloads
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import columns_of
from frazil.formats.native import Engine


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


def avro_keys(schema: AvroSchema, engine: Engine | None = None) -> KeyDecoder:
    """Return the decoder of keys of a schema. Raises IncompatibleSchemaError as `avro.open.open_decoder` does."""
    decoder = avro_decoders.open_decoder(schema, engine)
    return KeyDecoder(decoder, LogicalColumns(avro_mapping.map_schema(schema).columns, connect_types(schema)))


def json_keys(schema: EmbeddedSchema, engine: Engine | None = None) -> KeyDecoder:
    """Return the decoder of the payloads of keys that have this schema in them."""
    decoder = json_decoders.open_decoder(schema.row, engine)
    return KeyDecoder(decoder, LogicalColumns(columns_of(schema.row), schema.types))
