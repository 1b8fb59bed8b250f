"""The tokens of a `.proto` text (Protocol Buffers language specification, "Lexical elements")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["name", "number", "string", "symbol", "end"]

_TOKEN = re.compile(
    r"""
      (?P<space>[\s\ufeff]+|//[^\n]*|/\*.*?\*/)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fF]?)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<symbol>[{}()\[\]<>=;:,.\-+/])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ProtoTextError(Exception):
    """The text is not a `.proto` file."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    at: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens without spaces and comments, then one of the kind `end`."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise error_at(text, at, f"unexpected {text[at : at + 10]!r}")
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match.group(), at)  # type: ignore[arg-type]  # the groups are the kinds
        at = match.end()
    yield Token("end", "the end of the text", at)


def error_at(text: str, at: int, problem: str) -> ProtoTextError:
    return ProtoTextError(f"line {text.count(chr(10), 0, at) + 1}: {problem}")


def number_of(text: str) -> int:
    """Return the value of an integer: decimal, octal with a leading 0, or hexadecimal. Raises ValueError."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)


def string_of(text: str) -> str:
    """Return the value of a string with its quotes."""
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    octal, hexadecimal, short, long, other = match.groups()
    if other is not None:
        return _ESCAPED.get(other, other)
    number = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    return chr(number) if number < 0x110000 else "\ufffd"
