"""Random JSON Schemas and random payloads of them, valid and broken."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from frazil.formats.json_schema.schema import expand
from frazil.formats.json_values.shape import Row

Json = Any

CONNECT = "org.apache.kafka.connect.data."
SCALARS: list[Json] = [
    {"type": "boolean"},
    {"type": "integer"},
    {"type": "integer", "connect.type": "int16"},
    {"type": "number"},
    {"type": "number", "connect.type": "float32"},
    {"type": "string"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "contentEncoding": "base64"},
    {"type": "integer", "connect.type": "int32", "title": f"{CONNECT}Date"},
    {"type": "integer", "connect.type": "int32", "title": f"{CONNECT}Time"},
    {"type": "integer", "connect.type": "int64", "title": f"{CONNECT}Timestamp"},
    {
        "type": "number",
        "connect.type": "bytes",
        "title": f"{CONNECT}Decimal",
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "7"},
    },
    {"enum": ["a", "b"]},
    {"type": "null"},
    {},
]
KEYS = ["a", "b", "long name", "ä", 'q"', "back\\slash", "tab\t", "a.b"]
WORDS = ["", "a", "b", "Straße", "🧊", "x" * 70, 'quote"', "back\\slash", "line\nbreak", "\x00", "[]{}"]
DRAFTS = ["http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"]


@st.composite
def schemas(draw: st.DrawFn) -> Json:
    """A schema: an object more often than not."""
    drawn = _Drawn(draw)
    top = drawn.object(2) if draw(st.integers(0, 5)) else drawn.any(2)
    return {**top, "$schema": draw(st.sampled_from(DRAFTS))}


class _Drawn:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def any(self, depth: int) -> Json:
        nested = [self.object, self.array, self.map] if depth else []
        return self.draw(st.sampled_from([self.scalar, self.scalar, self.optional, *nested]))(depth)

    def scalar(self, _: int) -> Json:
        return self.draw(st.sampled_from(SCALARS))

    def optional(self, depth: int) -> Json:
        return {"oneOf": [{"type": "null"}, self.scalar(depth)]}

    def array(self, depth: int) -> Json:
        return {"type": "array", "items": self.any(depth - 1)}

    def map(self, depth: int) -> Json:
        return {"type": "object", "additionalProperties": self.any(depth - 1)}

    def object(self, depth: int) -> Json:
        keys = self.draw(st.lists(st.sampled_from(KEYS[:6]), unique=True, min_size=1, max_size=4))
        return {"type": "object", "properties": {key: self.any(depth - 1) for key in keys}}


def row_of(schema: Json, *, string_formats: bool = True) -> Row:
    return expand(json.dumps(schema), string_formats=string_formats).row


def fields(**properties: Json) -> Json:
    """A schema of an object with these properties."""
    return {"type": "object", "properties": properties}


class Sampler:
    """Writes random values of a schema as JSON texts, in every spelling that JSON allows."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def payload(self, schema: Json) -> bytes:
        """Return a value; never null for an object at the top."""
        return (self.space() + self.value(schema, top=True) + self.space()).encode()

    def value(self, schema: Json, *, top: bool = False) -> str:
        if schema == {}:
            return self.anything(2)
        branch = schema["oneOf"][1] if "oneOf" in schema else schema
        if not top and self.rng.random() < 0.2:
            return "null"
        makers: dict[str, Callable[[], str]] = {
            "object": lambda: self.object(branch),
            "array": lambda: self.list([self.value(branch["items"]) for _ in range(self.rng.randrange(3))], "[]"),
            "string": lambda: self.string(branch),
            "null": lambda: "null",
            "boolean": lambda: self.rng.choice(["true", "false"]),
            "integer": lambda: self.number(branch, "integer"),
            "number": lambda: self.number(branch, "number"),
        }
        return makers[branch.get("type", "string")]()

    def object(self, schema: Json) -> str:
        if "additionalProperties" in schema:
            chosen = self.rng.sample(KEYS, self.rng.randrange(4))
            return self.members([(key, self.value(schema["additionalProperties"])) for key in chosen])
        declared = [(k, self.value(each)) for k, each in schema["properties"].items() if self.rng.random() < 0.8]
        extra = [(k, self.anything(1)) for k in ("zz", "a.b", "") if self.rng.random() < 0.1]
        members = declared + extra
        if self.rng.random() < 0.3:
            self.rng.shuffle(members)
        return self.members(members)

    def members(self, members: list[tuple[str, str]]) -> str:
        return self.list([f"{self.quoted(k)}{self.space()}:{self.space()}{value}" for k, value in members], "{}")

    def list(self, items: list[str], brackets: str) -> str:
        spaced = (self.space() + item + self.space() for item in items)
        return brackets[0] + (",".join(spaced) if items else self.space()) + brackets[1]

    def anything(self, depth: int) -> str:
        simple = [lambda: "null", lambda: "true", self.real, lambda: self.quoted(self.rng.choice(WORDS))]
        nested: list[Callable[[], str]] = [
            lambda: self.list([self.anything(depth - 1) for _ in range(self.rng.randrange(3))], "[]"),
            lambda: self.members([(k, self.anything(depth - 1)) for k in self.rng.sample(KEYS, self.rng.randrange(3))]),
        ]
        return self.rng.choice(simple + (nested if depth else []))()

    def string(self, schema: Json) -> str:
        if "enum" in schema:
            return self.quoted(self.rng.choice(schema["enum"]))
        if "contentEncoding" in schema:
            return self.quoted(base64.b64encode(self.rng.randbytes(self.rng.randrange(6))).decode())
        match schema.get("format"):
            case "date":
                return self.quoted(self.date())
            case "time":
                return self.quoted(self.time())
            case "date-time":
                return self.quoted(self.date() + self.rng.choice("Tt ") + self.time())
            case _:
                return self.quoted(self.rng.choice(WORDS))

    def date(self) -> str:
        year, month, day = self.rng.randrange(10_000), self.rng.randint(1, 12), self.rng.randint(1, 28)
        return self.rng.choice([f"{year:04}-{month:02}-{day:02}", "2024-02-29", "0000-01-01", "9999-12-31"])

    def time(self) -> str:
        clock = f"{self.rng.randrange(24):02}:{self.rng.randrange(60):02}:{self.rng.randrange(60):02}"
        fraction = self.rng.choice(["", ".5", ".123456", ".1234567", ".1230000", ".000000001"])
        return clock + fraction + self.rng.choice(["Z", "z", "+00:00", "-23:59", "+05:30"])

    def number(self, schema: Json, kind: str) -> str:
        title = schema.get("title", "")
        if title.endswith("Decimal"):
            unscaled = self.rng.randrange(-(10**7) + 1, 10**7)
            as_bytes = unscaled.to_bytes(4, "big", signed=True)
            exact = f"{'-' if unscaled < 0 else ''}{abs(unscaled) // 100}.{abs(unscaled) % 100:02}"
            return self.rng.choice([self.quoted(base64.b64encode(as_bytes).decode()), exact, f"{unscaled}e-2"])
        if title.endswith("Time"):
            return str(self.rng.randrange(86_400_000))
        if kind == "integer":
            bits = 31 if "connect.type" in schema else 63
            return str(self.rng.randrange(-(2 ** (width := self.rng.randint(1, bits))), 2**width))
        return self.real()

    def real(self) -> str:
        whole = self.rng.choice(["0", "-0", "7", "-12", "123456789012345678901"])
        return whole + self.rng.choice(["", ".0", ".25", ".1234567890123456789"]) + self.rng.choice(["", "e2", "E-7"])

    def quoted(self, text: str) -> str:
        if self.rng.random() < 0.2:
            return json.dumps(text)
        if self.rng.random() < 0.2:
            return '"' + "".join(f"\\u{unit:04X}" for unit in _utf16(text)) + '"'
        return json.dumps(text, ensure_ascii=False)

    def space(self) -> str:
        return self.rng.choice(["", "", "", " ", "\n\t", "\r\n"])


def _utf16(text: str) -> list[int]:
    encoded = text.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]


_TOKENS = [
    '"',
    "\\",
    "\\u",
    "\\ud83e",
    "\\udfff",
    *"{}[],:-0.e9",
    "null",
    "true",
    "1e999",
    "1.5",
    "NaN",
    '"a":1,',
    '":',
]
FRAGMENTS = (
    *(each.encode() for each in _TOKENS),
    b"\xff",
    b"\xed\xa0\x80",
    b"\x00",
    b" ",
    b"99999999999999999999",
)


def broken(payload: bytes, rng: random.Random) -> bytes:
    """Return the payload with one thing wrong, more often than not."""
    data = bytearray(payload)
    where = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            return bytes(data[:where])
        case 1:
            data[where:where] = rng.choice(FRAGMENTS)
        case 2:
            data[where : where + rng.randint(1, 4)] = rng.choice(FRAGMENTS)
        case 3:
            return b"".join(rng.choice(FRAGMENTS) for _ in range(rng.randrange(8)))
        case _:
            for index in rng.sample(range(len(data)), min(len(data), rng.randint(1, 2))):
                data[index] = rng.randrange(256)
    return bytes(data)
