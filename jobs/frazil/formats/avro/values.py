"""Convert raw values, which fastavro reads without logical types, to column values."""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Callable
from typing import cast
from uuid import UUID

from frazil.formats.avro.shape import Choice, Cut, Empty, Entries, Items, Leaf, Members, Shape, Skipped, branch_names
from frazil.formats.avro.types import Array, AvroSchema, AvroType, Enum, Fixed, Map, Primitive, Record, Ref, Union

Convert = Callable[[object], object]
_EXACT = decimal.Context(prec=1000)


class Values:
    """Converts raw values to column values, and counts the timestamps that lost nanoseconds."""

    def __init__(self, schema: AvroSchema) -> None:
        self.truncated_nanos = 0
        self._schema = schema

    def converter(self, shape: Shape) -> Convert | None:
        """Return the function from a raw value (or None) to the column value; None if both are the same."""
        match shape:
            case Leaf(leaf):
                convert = self._leaf(leaf)
            case Items(element):
                convert = _each(self.converter(element))
            case Entries(value):
                convert = _pairs(self.converter(value))
            case Members(fields):
                convert = _fields({field.name: self.converter(field.shape) for field in fields})
            case Choice():
                values = shape.values()
                if len(values) == 1:
                    return self.converter(values[0].shape)
                convert = _fields({branch.name: self.converter(branch.shape) for branch in values})
            case Cut(name):
                convert = self._json_text(name)
            case Empty():
                convert = _present
            case Skipped():
                return None
        return _unless_none(convert) if convert else None

    def _leaf(self, leaf: Primitive | Fixed | Enum) -> Convert | None:
        if isinstance(leaf, Enum):
            return _symbol(leaf)
        logical = leaf.logical
        if logical is None:
            return None
        if logical.name == "decimal":
            return _decimal(logical.scale)
        if logical.name.endswith("-millis"):
            return lambda value: cast(int, value) * 1000
        return self._microseconds if logical.name.endswith("-nanos") else None

    def _microseconds(self, value: object) -> int:
        micros, lost = divmod(cast(int, value), 1000)
        self.truncated_nanos += lost > 0
        return micros

    def _json_text(self, name: str) -> Convert:
        def convert(value: object) -> str:
            return json.dumps(self._json(Ref(name), value), ensure_ascii=False, separators=(",", ":"))

        return convert

    def _json(self, avro_type: AvroType, value: object) -> object:
        """Return the JSON form of a value: the column value, with bytes as base64."""
        match self._schema.resolve(avro_type):
            case _ if value is None:
                return None
            case Record(fields=fields):
                record = cast("dict[str, object]", value)
                return {field.name: self._json(field.type, record[field.name]) for field in fields}
            case Array(items):
                return [self._json(items, item) for item in cast("list[object]", value)]
            case Map(values):
                return {key: self._json(values, item) for key, item in cast("dict[str, object]", value).items()}
            case Union() as union:
                return self._json_branch(union, value)
            case Primitive() | Fixed() | Enum() as leaf:
                convert = self._leaf(leaf)
                return _json_leaf(leaf, convert(value) if convert else value)

    def _json_branch(self, union: Union, value: object) -> object:
        optional = union.optional()
        if optional is not None:
            return self._json(optional, value)
        ((name, held),) = cast("dict[str, object]", value).items()
        branch = union.branches[branch_names(self._schema, union).index(name)]
        return {name: self._json(branch, held)}


def _json_leaf(leaf: Primitive | Fixed | Enum, value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        is_uuid = isinstance(leaf, Fixed) and leaf.logical is not None and leaf.logical.name == "uuid"
        return str(UUID(bytes=value)) if is_uuid else base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _present(value: object) -> object:
    del value
    return {"present": True}


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _symbol(enum: Enum) -> Convert:
    return {f"s{index}": symbol for index, symbol in enumerate(enum.symbols)}.__getitem__  # type: ignore[return-value]


def _decimal(scale: int) -> Convert:
    def convert(value: object) -> decimal.Decimal:
        unscaled = int.from_bytes(cast(bytes, value), "big", signed=True)
        return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)

    return convert


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [convert(value) for value in cast("list[object]", values)]


def _pairs(convert: Convert | None) -> Convert:
    def pairs(value: object) -> object:
        entries = cast("dict[str, object]", value).items()
        return list(entries) if convert is None else [(key, convert(item)) for key, item in entries]

    return pairs


def _fields(converters: dict[str, Convert | None]) -> Convert | None:
    """Return the converter of a record, or of a union's value, which has only the field of its branch."""
    needed = {name: convert for name, convert in converters.items() if convert}
    if not needed:
        return None

    def fields(value: object) -> object:
        record = cast("dict[str, object]", value)
        return {name: needed[name](item) if name in needed else item for name, item in record.items()}

    return fields
