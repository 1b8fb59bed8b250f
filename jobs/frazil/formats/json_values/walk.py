"""Read one payload as a value of its shape, checking the rules of `rules.py` on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from itertools import count

from frazil.formats.faults import Broken
from frazil.formats.json_values import numbers, texts
from frazil.formats.json_values.rules import Used
from frazil.formats.json_values.shape import (
    Entries,
    Items,
    Leaf,
    LeafKind,
    Members,
    Money,
    Nothing,
    Row,
    Shape,
    slots_of,
)
from frazil.formats.json_values.tokens import (
    DIGITS,
    read_string,
    skip_literal,
    skip_number,
    skip_space,
    unexpected,
    without_space,
)
from frazil.formats.limits import slots_of_bytes
from frazil.model.dead_letter import Reason

_NUMBERS: dict[LeafKind, Callable[[str], object]] = {
    "int": lambda text: numbers.integer(text, 32, whole=False),
    "long": lambda text: numbers.integer(text, 64, whole=False),
    "whole-int": lambda text: numbers.integer(text, 32, whole=True),
    "whole-long": lambda text: numbers.integer(text, 64, whole=True),
    "float": numbers.single,
    "double": numbers.double,
    "date-days": numbers.days,
    "time-millis": numbers.millis_of_day,
    "timestamp-millis": numbers.millis,
}
_MOMENTS: dict[LeafKind, Callable[[str], tuple[int, bool]]] = {"time": texts.time, "timestamp": texts.timestamp}
_TEXTS: dict[LeafKind, Callable[[str], object]] = {
    "string": lambda text: text,
    "base64": texts.from_base64,
    "date": texts.date,
}
_FOUND = {"{": "an object", "[": "an array", '"': "a text", "t": "true", "f": "false", "n": "null"}
_QUOTED_IN_PATHS = frozenset('.["')


class Walk:
    """Reads one payload. `truncated_nanos` and `undeclared` count what the row holds less of, or in `_extra`."""

    def __init__(self, payload: bytes) -> None:
        self.used = Used()
        self.truncated_nanos = 0
        self.undeclared = 0
        self._data = payload
        self._at = 0
        self._extra: list[str] | None = None
        self._path: list[str] = []

    def row(self, row: Row) -> tuple[dict[str, object], str | None]:
        """Return the values by column, and the text of `_extra`. Raises Broken."""
        self._extra = [] if row.keeps_extra else None
        self.used.reserve(slots_of(row.members))
        first = self._next("a value")
        if row.is_object:
            values = self._members(row.members, first)
        else:
            (member,) = row.members.fields
            values = {member.name: self._value(member.shape)}
        self._end()
        return values, "{" + ",".join(self._extra) + "}" if self._extra else None

    def _end(self) -> None:
        self._at = skip_space(self._data, self._at)
        if self._at < len(self._data):
            raise Broken(Reason.TRAILING_BYTES, f"expected the end of the payload at byte {self._at}")

    def _next(self, what: str) -> str:
        """Return the first character of the next token, which must be one that a value can begin with."""
        self._at = skip_space(self._data, self._at)
        first = self._data[self._at : self._at + 1]
        if not first or first not in b'{["tfn' + DIGITS:
            raise unexpected(self._data, self._at, what)
        return first.decode()

    def _value(self, shape: Shape) -> object:
        """Read a value; `null` is one of every shape."""
        first = self._next("a value")
        if first == "n":
            self._at = skip_literal(self._data, self._at)
            return None
        match shape:
            case Leaf(kind):
                return self._json_text() if kind == "json" else self._leaf(kind, first)
            case Money():
                return self._money(shape, first)
            case Items(element):
                return self._items(element, first)
            case Entries(value):
                return self._entries(value, first)
            case Members():
                return self._members(shape, first)
            case Nothing():
                raise _wrong("null", first)

    # --- values without parts

    def _leaf(self, kind: LeafKind, first: str) -> object:
        if kind in _NUMBERS:
            return _NUMBERS[kind](self._number(first, "a number" if kind in ("float", "double") else "an integer"))
        if kind == "boolean":
            if first not in "tf":
                raise _wrong("true or false", first)
            self._at = skip_literal(self._data, self._at)
            return first == "t"
        text = self._text(first)
        if kind not in _MOMENTS:
            return _TEXTS[kind](text)
        micros, is_cut = _MOMENTS[kind](text)
        self.truncated_nanos += is_cut
        return micros

    def _number(self, first: str, what: str) -> str:
        if first.encode() not in DIGITS:
            raise _wrong(what, first)
        start, self._at = self._at, skip_number(self._data, self._at)
        return self._data[start : self._at].decode()

    def _text(self, first: str) -> str:
        if first != '"':
            raise _wrong("a text", first)
        text, self._at = read_string(self._data, self._at)
        return text

    def _money(self, money: Money, first: str) -> object:
        if first == '"' and money.takes_base64:
            return texts.unscaled_decimal(self._text(first), money.precision, money.scale)
        expected = "a number or base64" if money.takes_base64 else "a number"
        return numbers.decimal(self._number(first, expected), money.precision, money.scale)

    # --- arrays and objects

    def _items(self, element: Shape, first: str) -> list[object]:
        if first != "[":
            raise _wrong("an array", first)
        found: list[object] = []
        slots = slots_of(element)
        for index in self._places("]"):
            self.used.reserve(slots)
            with self._inside("[]", f"[{index}]"):
                found.append(self._value(element))
        return found

    def _entries(self, value: Shape, first: str) -> list[tuple[str, object]]:
        if first != "{":
            raise _wrong("an object", first)
        found: dict[str, object] = {}
        slots = 1 + slots_of(value)
        for _ in self._places("}"):
            self.used.reserve(slots)
            with self._inside("{key}"):
                name, at = self._key()
                _check_new(name, found, at)
            with self._inside("{}", _step(name)):
                self._colon()
                found[name] = self._value(value)
        return list(found.items())

    def _members(self, members: Members, first: str) -> dict[str, object]:
        """Read the object's properties. Properties that the payload lacks are null."""
        if first != "{":
            raise _wrong("an object", first)
        declared = {each.key: each for each in members.fields}
        values: dict[str, object] = {each.name: None for each in members.with_data()}
        seen: set[str] = set()
        for _ in self._places("}"):
            name, at = self._key()
            member = declared.get(name)
            if member is None:
                _check_new(name, seen, at)
                self._undeclared(name)
            else:
                with self._inside(name, _step(name)):
                    _check_new(name, seen, at)
                    self._colon()
                    value = self._value(member.shape)
                if not isinstance(member.shape, Nothing):
                    values[member.name] = value
            seen.add(name)
        return values

    def _undeclared(self, name: str) -> None:
        """Keep an undeclared field: its path and its text become an entry of `_extra`."""
        self._colon()
        if self._extra is None:
            self._next("a value")
            self._json_text()
            return
        path = json.dumps(_joined([*self._path, _step(name)]), ensure_ascii=False)
        self.used.reserve(slots_of_bytes(len(path.encode())))
        self._next("a value")
        self._extra.append(f"{path}:{self._json_text()}")
        self.undeclared += 1

    def _json_text(self) -> str:
        start = self._at
        self._skip()
        return without_space(self._data[start : self._at]).decode()

    def _skip(self) -> None:
        """Skip any value. Its rules are those of JSON."""
        match self._next("a value"):
            case "{":
                seen: set[str] = set()
                for _ in self._places("}"):
                    name, at = self._key()
                    _check_new(name, seen, at)
                    seen.add(name)
                    self._colon()
                    self._skip()
            case "[":
                for _ in self._places("]"):
                    self._skip()
            case '"':
                self._at = read_string(self._data, self._at)[1]
            case "t" | "f" | "n":
                self._at = skip_literal(self._data, self._at)
            case _:
                self._at = skip_number(self._data, self._at)

    # --- what is between the values

    def _places(self, end: str) -> Iterator[int]:
        """Yield the number of each item or member of an array or an object, at the position where it begins."""
        self.used.enter()
        self._at = skip_space(self._data, self._at + 1)
        if self._data[self._at : self._at + 1] != end.encode():
            yield from self._separated(end)
        self._at += 1
        self.used.leave()

    def _separated(self, end: str) -> Iterator[int]:
        for number in count():
            yield number
            self._at = skip_space(self._data, self._at)
            separator = self._data[self._at : self._at + 1]
            if separator == end.encode():
                return
            if separator != b",":
                raise unexpected(self._data, self._at, f'"," or "{end}"')
            self._at += 1

    def _key(self) -> tuple[str, int]:
        """Return the name of a member, and its position."""
        at = skip_space(self._data, self._at)
        if self._data[at : at + 1] != b'"':
            raise unexpected(self._data, at, "a key")
        name, self._at = read_string(self._data, at)
        return name, at

    def _colon(self) -> None:
        self._at = skip_space(self._data, self._at)
        if self._data[self._at : self._at + 1] != b":":
            raise unexpected(self._data, self._at, '":"')
        self._at += 1

    @contextmanager
    def _inside(self, segment: str, step: str = "") -> Iterator[None]:
        """Add `segment` to the path of a fault inside, and `step` to the path of undeclared fields."""
        self._path += [step] if step else []
        try:
            yield
        except Broken as broken:
            broken.segments.append(segment)
            raise
        if step:
            self._path.pop()


def _check_new(name: str, seen: Container[str], at: int) -> None:
    if name in seen:
        raise Broken(Reason.DUPLICATE_KEY, f"the key at byte {at} is there twice")


def _wrong(expected: str, first: str) -> Broken:
    return Broken(Reason.WRONG_TYPE, f"expected {expected}, found {_FOUND.get(first, 'a number')}")


def _step(name: str) -> str:
    """Return a name as a step of a path in `_extra`: quoted if it could be read as several steps."""
    return json.dumps(name, ensure_ascii=False) if not name or _QUOTED_IN_PATHS & set(name) else name


def _joined(steps: list[str]) -> str:
    return "".join(step if step[0] == "[" or not number else f".{step}" for number, step in enumerate(steps))
