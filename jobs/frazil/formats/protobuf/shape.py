"""The shape of a payload: a message with every type resolved, from which columns and decoders are built.

Recursion is cut off, so the tree is finite; a value below a cut becomes JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

from frazil.formats.limits import MAX_COLUMNS, MAX_DIGITS, MAX_NESTING, RECURSION_LEVELS, slots_of_bytes
from frazil.formats.protobuf.scalars import SCALAR_NAMES, ScalarName
from frazil.formats.protobuf.schema import ProtobufSchema
from frazil.model.schemas import SchemaFinding


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar."""

    scalar: ScalarName


@dataclass(frozen=True, slots=True)
class Enum:
    """The symbols by number. `default` is the number of an absent value where absence is not null."""

    symbols: Mapping[int, str]
    default: int


@dataclass(frozen=True, slots=True)
class Items:
    """A repeated field. `slots` are those in columns that an item fills."""

    element: Shape
    slots: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A map."""

    key: Leaf
    value: Shape
    slots: int


@dataclass(frozen=True, slots=True)
class Member:
    """A field. The column of an absent field is null if it `is_optional`, else it has the type's default value.

    `oneof` numbers the oneofs of a message; None for a field that is not in one. `tags` are those of the field and of
    its type.
    """

    name: str
    number: int
    shape: Shape
    is_optional: bool = False
    oneof: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Members:
    """A message with fields."""

    fields: tuple[Member, ...]

    @cached_property
    def by_number(self) -> Mapping[int, Member]:
        return {each.number: each for each in self.fields}


@dataclass(frozen=True, slots=True)
class Empty:
    """A message without fields: a struct that says whether it is present."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A message such as google.protobuf.Int32Value: a scalar that can be absent."""

    scalar: ScalarName


@dataclass(frozen=True, slots=True)
class Known:
    """A message for a time, which becomes one value."""

    name: Literal["timestamp", "duration", "date", "time-of-day"]


@dataclass(frozen=True, slots=True)
class DecimalValue:
    """A confluent.type.Decimal."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Json:
    """A message, by its full name, that becomes JSON text."""

    name: str


Shape = Leaf | Enum | Items | Entries | Members | Empty | Wrapper | Known | DecimalValue | Json

MAX_SYMBOLS = 200_000
"""The maximum number of symbols in the enums of all columns: each column has the symbols of its enum."""
JSON_MESSAGES = (
    "google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue",
)  # fmt: skip
_KNOWN: dict[str, Known] = {
    "google.protobuf.Timestamp": Known("timestamp"),
    "google.protobuf.Duration": Known("duration"),
    "google.type.Date": Known("date"),
    "google.type.TimeOfDay": Known("time-of-day"),
}
_WRAPPERS: dict[str, Wrapper] = {
    "google.protobuf.DoubleValue": Wrapper("double"),
    "google.protobuf.FloatValue": Wrapper("float"),
    "google.protobuf.Int64Value": Wrapper("int64"),
    "google.protobuf.UInt64Value": Wrapper("uint64"),
    "google.protobuf.Int32Value": Wrapper("int32"),
    "google.protobuf.UInt32Value": Wrapper("uint32"),
    "google.protobuf.BoolValue": Wrapper("bool"),
    "google.protobuf.StringValue": Wrapper("string"),
    "google.protobuf.BytesValue": Wrapper("bytes"),
}
DECIMAL = "confluent.type.Decimal"

_NOTES: dict[str, str] = {
    "google.protobuf.Timestamp": "Timestamp: digits below the microsecond are cut, and counted",
    "google.type.TimeOfDay": "TimeOfDay: digits below the microsecond are cut, and counted",
    "google.protobuf.Duration": "Duration: microseconds; smaller digits are cut, and counted",
    "google.protobuf.Any": "Any: JSON text with the type's URL, and the value as base64",
    "google.protobuf.Struct": "Struct: JSON text",
    "google.protobuf.Value": "Value: JSON text",
    "google.protobuf.ListValue": "ListValue: JSON text",
}


@dataclass(frozen=True, slots=True)
class Expanded:
    """The shape of one row. `findings`: why no table can hold it; `notes`: what a table holds less exactly.

    `unmapped` are the paths of the values that no column can hold.
    """

    row: Members
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...]
    unmapped: frozenset[str]


def expand(schema: ProtobufSchema) -> Expanded:
    expansion = _Expansion(schema)
    row = Members(expansion.fields(schema.message, "", (schema.message.full_name,)))
    notes = tuple(dict.fromkeys(expansion.notes))
    return Expanded(row, tuple(expansion.findings), notes, frozenset(expansion.unmapped))


def json_members(schema: ProtobufSchema, name: str) -> Members:
    """Return the shape of one level of a message that becomes JSON: each message in it is JSON again."""
    if name not in schema.json_shapes:
        fields = _Expansion(schema, is_json=True).fields(schema.find(name), "", (name,))
        schema.json_shapes[name] = Members(fields)
    return cast(Members, schema.json_shapes[name])


def slots_of(shape: Shape) -> int:
    """Return how many slots one value fills, null or not. Items of lists and maps in it are counted separately."""
    match shape:
        case Enum(symbols):
            return slots_of_bytes(max(len(symbol) for symbol in symbols.values()))
        case Members(fields):
            return max(1, sum(slots_of(each.shape) for each in fields))
        case _:
            return 1


def extra_slots(shape: Shape) -> int:
    """Return the slots of a row beyond one per value: those of long symbols, which may be there by default."""
    match shape:
        case Enum():
            return slots_of(shape) - 1
        case Members(fields):
            return sum(extra_slots(each.shape) for each in fields)
        case _:
            return 0


class _Expansion:
    """Resolves types. The full names of the enclosing messages show where a message is recursive."""

    def __init__(self, schema: ProtobufSchema, *, is_json: bool = False) -> None:
        self.findings: list[SchemaFinding] = []
        self.notes: list[SchemaFinding] = []
        self.unmapped: set[str] = set()
        self._schema = schema
        self._is_json = is_json
        self._columns = 0
        self._symbols = 0
        self._enums: dict[str, Enum] = {}

    def fields(self, message: Any, path: str, inside: tuple[str, ...]) -> tuple[Member, ...]:
        oneofs = {each.name: number for number, each in enumerate(message.oneofs)}
        members = tuple(self._member(field, path, inside, oneofs) for field in message.fields)
        self._note_case((each.name for each in members), path)
        if message.full_name in self._schema.extensible:
            self._tell(path, "extensions: left out; the message may have fields that its file does not define")
        return members

    def _member(self, field: Any, path: str, inside: tuple[str, ...], oneofs: Mapping[str, int]) -> Member:
        here = f"{path}.{field.name}" if path else field.name
        oneof = field.containing_oneof
        shape = self._shape_of_field(field, here, inside)
        place = None if oneof is None else oneofs[oneof.name]
        return Member(
            field.name, field.number, shape, bool(field.has_presence), place, tags=self._schema.tags_of(field)
        )

    def _shape_of_field(self, field: Any, path: str, inside: tuple[str, ...]) -> Shape:
        if not self._has_room(path, inside):
            return Json("")
        if field.label != field.LABEL_REPEATED:
            return self._shape(field, path, inside)
        self._columns -= 1
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
            shape = self._shape(value, path + "{}", (*inside, ""))
            return Entries(Leaf(_scalar(key)), shape, 1 + slots_of(shape))
        element = self._shape(field, path + "[]", (*inside, ""))
        return Items(element, slots_of(element))

    def _shape(self, field: Any, path: str, inside: tuple[str, ...]) -> Shape:
        if not self._has_room(path, inside):
            return Json("")
        if field.type == field.TYPE_GROUP:
            self._note(path, "a group, which is not supported: use a message")
        elif field.enum_type is not None:
            return self._enum(field.enum_type, path)
        elif field.message_type is not None:
            return self._message(field, path, inside)
        else:
            return Leaf(_scalar(field))
        return Json("")

    def _enum(self, enum: Any, path: str) -> Enum:
        before = self._symbols
        self._symbols += len(enum.values)
        if before <= MAX_SYMBOLS < self._symbols:
            self._note(path, f"more than {MAX_SYMBOLS} symbols of enums in all columns together")
        if enum.full_name not in self._enums:
            symbols = {value.number: value.name for value in reversed(enum.values)}
            self._enums[enum.full_name] = Enum(dict(sorted(symbols.items())), enum.values[0].number)
        return self._enums[enum.full_name]

    def _message(self, field: Any, path: str, inside: tuple[str, ...]) -> Shape:
        message = field.message_type
        name = message.full_name
        if name in _NOTES:
            self._tell(path, _NOTES[name])
        if name == DECIMAL:
            return self._decimal(field, path)
        for known in (_KNOWN, _WRAPPERS):
            if name in known:
                return known[name]
        if self._is_json or name in JSON_MESSAGES or self._is_cut(name, path, inside):
            return Json(name)
        if not message.fields:
            return Empty()
        return Members(self.fields(message, path, (*inside, name)))

    def _is_cut(self, name: str, path: str, inside: tuple[str, ...]) -> bool:
        if inside.count(name) < RECURSION_LEVELS:
            return False
        self._tell(path, f"{name} inside itself: JSON text from the level {RECURSION_LEVELS + 1} on")
        return True

    def _decimal(self, field: Any, path: str) -> Shape:
        params = self._schema.params_of(field)
        try:
            precision, scale = int(params["precision"]), int(params.get("scale", "0"))
        except KeyError:
            self._note(path, f"a {DECIMAL} without a precision: set params precision and scale in confluent.field_meta")
            return DecimalValue(1, 0)
        except ValueError:
            self._note(path, f"a {DECIMAL} whose precision or scale is not a number")
            return DecimalValue(1, 0)
        if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
            self._note(path, f"a decimal({precision}, {scale}): at most {MAX_DIGITS} digits, a scale of 0 to precision")
        return DecimalValue(precision, scale)

    def _has_room(self, path: str, inside: tuple[str, ...]) -> bool:
        self._columns += 1
        if self._columns == MAX_COLUMNS + 1:
            self._note(path, f"more than {MAX_COLUMNS} columns")
        if self._columns <= MAX_COLUMNS and len(inside) > MAX_NESTING:
            self._note(path, f"nested deeper than {MAX_NESTING} levels")
        has_room = self._columns <= MAX_COLUMNS and len(inside) <= MAX_NESTING
        if not has_room:
            self.unmapped.add(path)
        return has_room

    def _note_case(self, names: Iterable[str], path: str) -> None:
        if self._is_json:
            return
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                here = f"{path}.{name}" if path else name
                self.findings.append(SchemaFinding(here, f"{other} and {name} differ only in case"))

    def _tell(self, path: str, what: str) -> None:
        self.notes.append(SchemaFinding(path, what))

    def _note(self, path: str, problem: str) -> None:
        self.findings.append(SchemaFinding(path, problem))
        self.unmapped.add(path)


def _scalar(field: Any) -> ScalarName:
    """Return the scalar type of a field, whose descriptor has it as a number."""
    return next(name for name in SCALAR_NAMES if getattr(field, f"TYPE_{name.upper()}") == field.type)
