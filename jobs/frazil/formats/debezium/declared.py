"""Change events in JSON without a schema, as `schemas.enable: false` writes them: a table spec declares their row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.connect import ConnectType
from frazil.formats.debezium.changes import Envelopes, no_envelope
from frazil.formats.debezium.converted import Flags
from frazil.formats.debezium.decoder import ChangeDecoder, accepted_of, mapped_envelopes
from frazil.formats.debezium.logical_types import LOGICAL_TYPES
from frazil.formats.debezium.position import FIELDS, TEXT
from frazil.formats.declared import declared_row
from frazil.formats.decoder import Decoded, Decoder, Indexes, Payloads
from frazil.formats.json_values import open as json_decoders
from frazil.formats.json_values.shape import (
    JSON_TEXT,
    Entries,
    Items,
    Leaf,
    Member,
    Members,
    Money,
    Row,
    Shape,
    columns_of,
)
from frazil.formats.mapped import Mapped
from frazil.formats.native import Engine
from frazil.model.change_events import ChangeEvents
from frazil.model.columns import Column, Scalar, Struct
from frazil.model.dead_letter import Reject

_WORDS = {Scalar("int"): "int", Scalar("long"): "long", Scalar("string"): "string"}
"""How a spec declares the type under a named one."""


def declared_changes(fields: str, settings: ChangeEvents, engine: Engine | None = None) -> Decoder:
    """Return the decoder of change events whose row has these declared fields (`model.declared`).

    Raises IncompatibleSchemaError as `Envelopes` does.
    """
    event = _Event.of(fields, settings)
    envelopes = Envelopes(event.columns, event.types, settings)
    return ChangeDecoder(_DeclaredEnvelopes(event, engine), envelopes)


def map_declared(fields: str, settings: ChangeEvents) -> Mapped:
    """Return the columns of the rows in such change events, and why there are none."""
    event = _Event.of(fields, settings)
    return mapped_envelopes(Mapped(event.columns, (), record=""), event.types, settings)


@dataclass(frozen=True, slots=True)
class _Event:
    """The shape of an envelope, whose images are JSON text there, and that of an image. `types` are named ones."""

    envelope: Row
    image: Row
    images: tuple[str, ...]
    types: Mapping[str, ConnectType]

    @classmethod
    def of(cls, fields: str, settings: ChangeEvents) -> _Event:
        types: dict[str, ConnectType] = {}
        image = declared_row(json.dumps(_without_names(json.loads(fields), "after", types)))
        images = ("after", "before") if settings.soft_deletes else ("after",)
        members = [*(Member(name, name, JSON_TEXT) for name in images), _member("op", "string")]
        members.append(Member("source", "source", Members(tuple(_source(settings)))))
        envelope = Row(Members(tuple(members)), is_object=True, keeps_extra=False)
        return cls(envelope, replace(image, members=_from_connect(image.members)), images, types)

    @property
    def columns(self) -> tuple[Column, ...]:
        row = Struct(columns_of(self.image))
        return tuple(replace(c, type=row) if c.name in self.images else c for c in columns_of(self.envelope))


def _without_names(declared: object, path: str, types: dict[str, ConnectType]) -> object:
    """Return declarations with the types under named ones, whose names are added to `types` by their path."""
    match declared:
        case str() if declared in LOGICAL_TYPES:
            types[path] = ConnectType(declared)
            stored = LOGICAL_TYPES[declared].stored
            assert isinstance(stored, Scalar)  # noqa: S101 - no other can be declared
            return _WORDS[stored]
        case [element]:
            return [_without_names(element, f"{path}[]", types)]
        case dict():
            return {name: _without_names(each, f"{path}.{name}", types) for name, each in declared.items()}
        case _:
            return declared


def _source(settings: ChangeEvents) -> Iterator[Member]:
    yield from (_member(name, "long") for name in ("ts_us", "ts_ms"))
    if settings.connector is not None:
        yield _member("connector", "string")
        for name, field in FIELDS[settings.connector].items():
            if name != "ts_ms":
                yield _member(name, "string" if field.stored == TEXT else "long")


def _member(name: str, kind: str) -> Member:
    return Member(name, name, Leaf("string" if kind == "string" else "long"))


def _from_connect(members: Members) -> Members:
    """Return members whose decimals may be base64, as Kafka Connect writes them unless `decimal.format` says else."""
    return Members(tuple(replace(each, shape=_shape(each.shape)) for each in members.fields))


def _shape(shape: Shape) -> Shape:
    match shape:
        case Money():
            return replace(shape, takes_base64=True)
        case Items(element):
            return Items(_shape(element))
        case Entries(value):
            return Entries(_shape(value))
        case Members():
            return _from_connect(shape)
        case _:
            return shape


class _DeclaredEnvelopes:
    """Decodes envelopes, and then the images in them, whose undeclared fields are kept (`decoder.Decoder`)."""

    def __init__(self, event: _Event, engine: Engine | None) -> None:
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
        columns, taken, undeclared = dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows), 0
        for name in self._images:
            given = np.flatnonzero(columns[name].is_valid().to_numpy(zero_copy_only=False) & ~is_bad)
            images = self._image.decode(columns[name].take(pa.array(given)).cast(pa.large_binary()))
            taken = taken if images.taken == len(given) else min(taken, int(given[images.taken]))
            columns[name] = _struct(images, given, len(rows))
            for each in images.rejects:
                index = int(among[given[each.index]])
                rejects.setdefault(index, each._replace(index=index, path=f"{name}.{each.path}" if each.path else name))
                is_bad[given[each.index]] = True
            undeclared += images.undeclared
        whole = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)
        return _until(taken, whole, is_bad, Decoded(rows, tuple(rejects.values()), undeclared=undeclared), among)


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
