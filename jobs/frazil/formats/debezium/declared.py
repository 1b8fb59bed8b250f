"""Change events in JSON without a schema, as `schemas.enable: false` writes them: a table spec declares their row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from frazil.formats.connect import ConnectType, ConnectTypes
from frazil.formats.debezium.apart import Event, EventDecoder
from frazil.formats.debezium.changes import Envelopes
from frazil.formats.debezium.decoder import ChangeDecoder, mapped_envelopes
from frazil.formats.debezium.logical_types import LOGICAL_TYPES
from frazil.formats.debezium.position import FIELDS, TEXT
from frazil.formats.declared import declared_row
from frazil.formats.decoder import Decoder
from frazil.formats.json_values.shape import JSON_TEXT, Entries, Items, Leaf, Member, Members, Money, Row, Shape
from frazil.formats.mapped import Mapped
from frazil.formats.native import Engine
from frazil.model.change_events import ChangeEvents
from frazil.model.columns import Scalar

_WORDS = {Scalar("int"): "int", Scalar("long"): "long", Scalar("string"): "string"}
"""How a spec declares the type under a named one."""


def declared_changes(fields: str, settings: ChangeEvents, engine: Engine | None = None) -> Decoder:
    """Return the decoder of change events whose row has these declared fields (`model.declared`).

    Raises IncompatibleSchemaError as `Envelopes` does.
    """
    event, types = _declared_event(fields, settings)
    return ChangeDecoder(EventDecoder(event, engine), Envelopes(event.columns, types, settings))


def map_declared(fields: str, settings: ChangeEvents) -> Mapped:
    """Return the columns of the rows in such change events, and why there are none."""
    event, types = _declared_event(fields, settings)
    return mapped_envelopes(Mapped(event.columns, (), record=""), types, settings)


def _declared_event(fields: str, settings: ChangeEvents) -> tuple[Event, ConnectTypes]:
    """Return the shapes of an event, and its named types."""
    types: dict[str, ConnectType] = {}
    image = declared_row(json.dumps(_without_names(json.loads(fields), "after", types)))
    images = ("after", "before") if settings.soft_deletes else ("after",)
    members = [*(Member(name, name, JSON_TEXT) for name in images), _member("op", "string")]
    members.append(Member("source", "source", Members(tuple(_source(settings)))))
    envelope = Row(Members(tuple(members)), is_object=True, keeps_extra=False)
    return Event(envelope, replace(image, members=_from_connect(image.members)), images), types


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
