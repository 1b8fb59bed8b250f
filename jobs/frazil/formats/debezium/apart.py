"""Envelopes in JSON whose images are decoded apart from them, so that `_extra` has columns of the row only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.debezium.changes import no_envelope
from frazil.formats.debezium.converted import Flags
from frazil.formats.debezium.decoder import accepted_of
from frazil.formats.decoder import Decoded, Indexes, Payloads
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import Row, columns_of
from frazil.formats.native import Engine
from frazil.model.columns import Column, Struct
from frazil.model.dead_letter import Reject


@dataclass(frozen=True, slots=True)
class Event:
    """The shape of an envelope, in which the named images are JSON text, and that of an image."""

    envelope: Row
    image: Row
    images: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        row = Struct(columns_of(self.image))
        return tuple(replace(c, type=row) if c.name in self.images else c for c in columns_of(self.envelope))


class EventDecoder:
    """Decodes envelopes, and then the images in them, whose undeclared fields are kept (`decoder.Decoder`)."""

    def __init__(self, event: Event, engine: Engine | None) -> None:
        self.schema = arrow_schema(event.columns)
        self._images = event.images
        self._envelope = json_decoders.open_decoder(event.envelope, engine)
        self._image = json_decoders.open_decoder(event.image, engine)

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        decoded = self._envelope.decode(payloads, skip=skip)
        rows, among = decoded.rows, accepted_of(decoded)
        rejects = {each.index: each for each in decoded.rejects}
        is_bad = rows.column("op").is_null().to_numpy(zero_copy_only=False)
        rejects |= {index: no_envelope(index) for index in among[is_bad].tolist()}
        columns, taken = dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows)
        truncated_nanos, undeclared = decoded.truncated_nanos, 0
        for name in self._images:
            given = np.flatnonzero(columns[name].is_valid().to_numpy(zero_copy_only=False) & ~is_bad)
            images = self._image.decode(columns[name].take(pa.array(given)).cast(pa.large_binary()))
            taken = taken if images.taken == len(given) else min(taken, int(given[images.taken]))
            columns[name] = _struct(images, given, len(rows))
            for each in images.rejects:
                index = int(among[given[each.index]])
                rejects.setdefault(index, each._replace(index=index, path=f"{name}.{each.path}" if each.path else name))
                is_bad[given[each.index]] = True
            truncated_nanos, undeclared = truncated_nanos + images.truncated_nanos, undeclared + images.undeclared
        whole = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)
        return _until(taken, whole, is_bad, Decoded(rows, tuple(rejects.values()), truncated_nanos, undeclared), among)


def _struct(images: Decoded, given: Indexes, count: int) -> pa.StructArray:
    """Return images as structs of `count` events, null for those without one; `given` are the events of the images."""
    places = np.full(count, -1)
    places[given[accepted_of(images)]] = np.arange(len(images.rows))
    rows = pa.StructArray.from_arrays(images.rows.columns, fields=list(images.rows.schema))
    return rows.take(pa.array(places, mask=places < 0))


def _until(taken: int, rows: pa.RecordBatch, is_bad: Flags, decoded: Decoded, among: Indexes) -> Decoded:
    """Return the events before `taken`, without the bad ones."""
    end = int(among[taken]) if taken < len(rows) else None
    rejects: tuple[Reject, ...] = tuple(each for each in decoded.rejects if end is None or each.index < end)
    good = rows.slice(0, taken).filter(pa.array(~is_bad[:taken]))
    return replace(decoded, rows=good, rejects=tuple(sorted(rejects, key=lambda each: each.index)))
