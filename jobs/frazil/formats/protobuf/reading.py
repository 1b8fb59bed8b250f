"""Read a payload as the column values of its message, or find the first rule of the wire format that it breaks.

| Rule | Reason |
|---|---|
| the message indexes name the message that makes the rows | wrong_message |
| the message indexes name a message of the file | bad_index |
| the message does not end inside a value | truncated |
| a varint takes at most 10 bytes, 64 bits; a tag, a length or a message index at most 5 bytes, 32 bits | bad_varint |
| a length is not past the end of the message | bad_length |
| a field number is not 0, a wire type exists and is that of the field, a group ends where it began | bad_tag |
| strings are UTF-8, also those of proto2 | bad_utf8 |
| times, dates, durations and decimals are in the range of their types, and exact at the column's scale | out_of_range |
| messages and groups are nested at most 100 levels deep | too_large |
| the items of lists and maps fill at most 2^25 slots in columns | too_large |

A message may have its fields in any order, and more than once: the last value of a scalar counts, messages are merged,
lists grow. So one pass over a message notes where the values are, and reads the items of lists and maps; then each
column gets its value. An integer is cut to the bits of its type, as Protobuf specifies. Unknown fields are skipped.

The native module (`native/src/protobuf/`) implements the same rules and gives the same error messages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from frazil.formats.faults import Broken
from frazil.formats.limits import check_slots
from frazil.formats.protobuf import known
from frazil.formats.protobuf.indexes import read_indexes
from frazil.formats.protobuf.known import Fields
from frazil.formats.protobuf.scalars import LENGTH, VARINT, ScalarName, wire_type
from frazil.formats.protobuf.schema import MessagePath, ProtobufSchema
from frazil.formats.protobuf.shape import (
    DecimalValue,
    Empty,
    Entries,
    Enum,
    Items,
    Json,
    Known,
    Leaf,
    Member,
    Members,
    Shape,
    Wrapper,
    json_members,
)
from frazil.formats.protobuf.values import cut, json_map, json_value
from frazil.formats.protobuf.wire import (
    Levels,
    Raw,
    expect,
    read_length,
    read_scalar,
    read_tag,
    read_varint,
    skip,
)
from frazil.model.dead_letter import Reason

Span = tuple[int, int]
"""Where bytes of the payload start and end."""
Row = dict[str, object]


def read_path(schema: ProtobufSchema, data: bytes) -> int:
    """Check which message of the file the payload is, and return where it begins."""
    path, at = read_indexes(data)
    if path == schema.path:
        return at
    found = schema.names.get(path)
    if found is None:
        raise unknown_path(path)
    raise Broken(Reason.WRONG_MESSAGE, f"the record is a {found}, expected a {schema.names[schema.path]}")


def unknown_path(path: MessagePath) -> Broken:
    return Broken(Reason.BAD_INDEX, f"the schema has no message with the index path {list(path)}")


class Reading:
    """Reads one payload. Counts the slots that its items fill, and the times that lost nanoseconds."""

    def __init__(self, schema: ProtobufSchema, data: bytes) -> None:
        self.slots = 0
        self.truncated_nanos = 0
        self._schema = schema
        self._data = data
        self._levels = Levels()
        self._is_json = False

    def row(self, shape: Members) -> Row:
        start = read_path(self._schema, self._data)
        return self.message(shape, [(start, len(self._data))])

    def message(self, shape: Members, parts: Sequence[Span]) -> Row:
        """Read one message, whose parts are merged."""
        self._levels.enter()
        found = _Found(shape, self)
        for part in parts:
            found.scan(part)
        row = {member.name: found.value(member) for member in shape.fields}
        self._levels.leave()
        return row

    def parts(self, shape: Shape, parts: Sequence[Span]) -> object:
        """Read a message that has any shape, whose parts are merged."""
        match shape:
            case Members():
                return self.message(shape, parts)
            case Empty():
                self.fields((), parts)
                return {"present": True}
            case Wrapper(scalar):
                return self.fields((("value", scalar),), parts)[0]
            case Known(name):
                fields, convert = known.KNOWN[name]
                value, is_truncated = convert(self.fields(fields, parts))
                self.truncated_nanos += is_truncated
                return value
            case DecimalValue(precision, scale):
                return known.decimal(self.fields(known.DECIMAL, parts), precision, scale)
            case Json(name):
                value = self.json(name, parts)
                return value if self._is_json else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            case _:
                raise AssertionError(f"{shape} is not a message")

    def fields(self, fields: Fields, parts: Sequence[Span]) -> list[object]:
        """Read the last value of each field of a message; absent fields have their default."""
        values: list[object] = [cut(scalar, None) for _, scalar in fields]
        self._levels.enter()
        for start, end in parts:
            at = start
            while at < end:
                number, wire, at = read_tag(self._data, at, end)
                if number > len(fields):
                    at = self.skip(number, wire, at, end)
                    continue
                name, scalar = fields[number - 1]
                with _Inside(name):
                    expect(wire, wire_type(scalar))
                    raw, at = read_scalar(self._data, scalar, at, end)
                values[number - 1] = cut(scalar, raw)
        self._levels.leave()
        return values

    def item(self, shape: Shape, slots: int, at: int, end: int) -> tuple[object, int]:
        """Read an item of a list, which is a scalar or the number of a symbol."""
        self.reserve(slots)
        with _Inside("[]"):
            raw, at = read_scalar(self._data, _scalar_of(shape), at, end)
        return _value(shape, raw), at

    def entry(self, shape: Entries, span: Span) -> tuple[object, object]:
        """Read an entry of a map, which is a message with a key and a value."""
        self.reserve(shape.slots)
        self._levels.enter()
        key, value, parts = cut(shape.key.scalar, None), _value(shape.value, None), []
        at, end = span
        while at < end:
            number, wire, at = read_tag(self._data, at, end)
            if number == 1:
                with _Inside("{key}"):
                    expect(wire, wire_type(shape.key.scalar))
                    raw, at = read_scalar(self._data, shape.key.scalar, at, end)
                key = cut(shape.key.scalar, raw)
            elif number == 2:
                with _Inside("{}"):
                    expect(wire, _wire(shape.value))
                    if isinstance(shape.value, Leaf | Enum):
                        raw, at = read_scalar(self._data, _scalar_of(shape.value), at, end)
                        value = _value(shape.value, raw)
                    else:
                        parts.append(read_length(self._data, at, end))
                        at = parts[-1][1]
            else:
                at = self.skip(number, wire, at, end)
        if not isinstance(shape.value, Leaf | Enum):
            with _Inside("{}"):
                value = self.parts(shape.value, parts)
        self._levels.leave()
        return key, value

    def length(self, at: int, end: int) -> Span:
        return read_length(self._data, at, end)

    def tag(self, at: int, end: int) -> tuple[int, int, int]:
        return read_tag(self._data, at, end)

    def scalar(self, scalar: ScalarName, at: int, end: int) -> tuple[Raw, int]:
        return read_scalar(self._data, scalar, at, end)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        return read_varint(self._data, at, end)

    def skip(self, number: int, wire: int, at: int, end: int) -> int:
        return skip(self._data, number, wire, at, end, self._levels)

    def reserve(self, slots: int) -> None:
        self.slots += slots
        check_slots(self.slots)

    # --- JSON

    def json(self, name: str, parts: Sequence[Span]) -> object:
        """Read a message as a JSON value: its column values, without absent ones, and bytes as base64."""
        shape, around = json_members(self._schema, name), self._is_json
        self._is_json = True
        row = self.message(shape, parts)
        self._is_json = around
        held = {
            each.name: json_map(value) if isinstance(each.shape, Entries) else json_value(value)
            for each in shape.fields
            if (value := row[each.name]) is not None
        }
        match name:
            case "google.protobuf.Any":
                return {"@type": held["type_url"], "value": held["value"]}
            case "google.protobuf.Struct":
                return held["fields"]
            case "google.protobuf.ListValue":
                return held["values"]
            case "google.protobuf.Value":
                return next((value for key, value in held.items() if key != "null_value"), None)
        return held


class _Found:
    """What one pass over a message finds: the last value of scalars, the parts of messages, the items of lists."""

    def __init__(self, shape: Members, reading: Reading) -> None:
        self._shape = shape
        self._reading = reading
        self._scalars: dict[str, Raw] = {}
        self._parts: dict[str, list[Span]] = {}
        self._items: dict[str, list[object]] = {}
        self._entries: dict[str, dict[object, tuple[object, int]]] = {}

    def scan(self, part: Span) -> None:
        at, end = part
        while at < end:
            number, wire, at = self._reading.tag(at, end)
            member = self._shape.by_number.get(number)
            if member is None:
                at = self._reading.skip(number, wire, at, end)
                continue
            if member.oneof is not None:
                self._leave_others(member)
            with _Inside(member.name):
                at = self._read(member, wire, at, end)

    def _read(self, member: Member, wire: int, at: int, end: int) -> int:
        reading, name = self._reading, member.name
        match member.shape:
            case Leaf(scalar):
                expect(wire, wire_type(scalar))
                self._scalars[name], at = reading.scalar(scalar, at, end)
                return at
            case Enum():
                expect(wire, VARINT)
                self._scalars[name], at = reading.varint(at, end)
                return at
            case Items() as shape:
                return self._read_items(name, shape, wire, at, end)
            case Entries() as shape:
                expect(wire, LENGTH)
                span = reading.length(at, end)
                before = reading.truncated_nanos
                key, value = reading.entry(shape, span)
                self._put(name, key, value, reading.truncated_nanos - before)
                return span[1]
            case _:
                expect(wire, LENGTH)
                span = reading.length(at, end)
                self._parts.setdefault(name, []).append(span)
                return span[1]

    def _read_items(self, name: str, shape: Items, wire: int, at: int, end: int) -> int:
        reading, items, element = self._reading, self._items.setdefault(name, []), shape.element
        if not isinstance(element, Leaf | Enum):
            expect(wire, LENGTH)
            span = reading.length(at, end)
            reading.reserve(shape.slots)
            with _Inside("[]"):
                items.append(reading.parts(element, [span]))
            return span[1]
        if wire != LENGTH or _wire(element) == LENGTH:
            expect(wire, _wire(element))
            value, at = reading.item(element, shape.slots, at, end)
            items.append(value)
            return at
        at, end = reading.length(at, end)
        while at < end:
            value, at = reading.item(element, shape.slots, at, end)
            items.append(value)
        return at

    def _put(self, name: str, key: object, value: object, lost: int) -> None:
        """Add an entry to a map: a key keeps its first position and its last value."""
        entries = self._entries.setdefault(name, {})
        _, lost_before = entries.get(key, (None, 0))
        self._reading.truncated_nanos -= lost_before
        entries[key] = value, lost

    def _leave_others(self, member: Member) -> None:
        """Clear the other fields of a oneof, of which the last one counts. What they held is checked nevertheless."""
        for other in self._shape.fields:
            if other.oneof != member.oneof or other is member:
                continue
            if other.name in self._parts:
                lost = self._reading.truncated_nanos
                self.value(other)
                self._reading.truncated_nanos = lost
                del self._parts[other.name]
            self._scalars.pop(other.name, None)

    def value(self, member: Member) -> object:
        """Return the column value of a field."""
        name, shape = member.name, member.shape
        match shape:
            case Leaf() | Enum():
                is_null = name not in self._scalars and member.is_optional
                return None if is_null else _value(shape, self._scalars.get(name))
            case Items():
                return self._items.get(name, [])
            case Entries():
                return [(key, value) for key, (value, _) in self._entries.get(name, {}).items()]
            case _:
                parts = self._parts.get(name)
                if parts is None:
                    return None
                with _Inside(name):
                    return self._reading.parts(shape, parts)


class _Inside:
    """Adds a segment to the path of a fault that is raised inside."""

    def __init__(self, segment: str) -> None:
        self._segment = segment

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Broken):
            problem.segments.append(self._segment)


def _wire(shape: Shape) -> int:
    return wire_type(_scalar_of(shape)) if isinstance(shape, Leaf | Enum) else LENGTH


def _scalar_of(shape: Shape) -> ScalarName:
    return shape.scalar if isinstance(shape, Leaf) else "int32"


def _value(shape: Shape, raw: Raw | None) -> object:
    """Return the column value of a scalar or of an enum; for None, of an absent one."""
    match shape:
        case Leaf(scalar):
            return cut(scalar, raw)
        case Enum(symbols, default):
            number = default if raw is None else cast(int, cut("int32", raw))
            return symbols.get(number, str(number))
        case _:
            return None
