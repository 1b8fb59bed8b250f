"""The tokens of JSON (RFC 8259): white space, strings, numbers and literals. Positions are bytes of the JSON text."""

from __future__ import annotations

import re
from re import Match

from frazil.formats.faults import Broken
from frazil.model.dead_letter import Reason

_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_SO_FAR = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE][+-]?)?)?|[eE][+-]?)?)?")
"""The longest beginning that more bytes could complete to a number."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_HEX = re.compile(rb"[0-9a-fA-F]{0,4}")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPACE_OR_STRING = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\n\r]+', re.DOTALL)
DIGITS = b"-0123456789"


def unexpected(data: bytes, at: int, what: str) -> Broken:
    """Return the fault of a token other than the expected one."""
    if at >= len(data):
        return Broken(Reason.TRUNCATED, f"expected {what}, found the end of the payload")
    byte = data[at]
    found = f'"{chr(byte)}"' if 0x20 <= byte < 0x7F else f"the byte {byte}"
    return Broken(Reason.BAD_JSON, f"expected {what} at byte {at}, found {found}")


def skip_space(data: bytes, at: int) -> int:
    return _matched(_SPACE, data, at).end()


def skip_literal(data: bytes, at: int) -> int:
    """Skip true, false or null, of which the first byte is known."""
    for expected in _LITERALS[data[at : at + 1]]:
        if at >= len(data) or data[at] != expected:
            raise unexpected(data, at, "true, false or null")
        at += 1
    return at


def skip_number(data: bytes, at: int) -> int:
    """Skip a number, of which the first byte is known."""
    so_far = _matched(_NUMBER_SO_FAR, data, at).end()
    whole = _NUMBER.match(data, at)
    if whole is None or whole.end() < so_far:
        raise unexpected(data, so_far, "a digit")
    return whole.end()


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Read a string, whose quotation mark is at `at`; return it and the position after it."""
    start = at + 1
    end, escaped = _end_of_string(data, start)
    try:
        text = data[start:end].decode()
    except UnicodeDecodeError as error:
        detail = f"the string is not valid UTF-8 at byte {start + error.start}"
        raise Broken(Reason.BAD_UTF8, detail) from error
    return (_unescaped(text, start) if escaped else text), end + 1


def _end_of_string(data: bytes, at: int) -> tuple[int, bool]:
    escaped = False
    while True:
        at = _matched(_PLAIN, data, at).end()
        byte = data[at : at + 1]
        if byte == b'"':
            return at, escaped
        if not byte:
            raise unexpected(data, at, "the end of a string")
        if byte != b"\\":
            raise Broken(Reason.BAD_JSON, f"the control character at byte {at} is not escaped")
        escaped, at = True, _end_of_escape(data, at)


def _end_of_escape(data: bytes, at: int) -> int:
    kind = data[at + 1 : at + 2]
    if kind and kind in b'"\\/bfnrt':
        return at + 2
    if kind == b"u":
        found = _matched(_HEX, data, at + 2)
        if len(found[0]) == 4:
            return found.end()
        if found.end() < len(data):
            kind = b"?"
    if kind in (b"", b"u"):
        raise unexpected(data, len(data), "the end of a string")
    raise Broken(Reason.BAD_JSON, f"the escape at byte {at} is not one of JSON's")


def _unescaped(text: str, start: int) -> str:
    """Replace escapes. `start` is the position of the text, whose escapes are all well-formed."""
    parts: list[str] = []
    done = 0
    escapes = list(_ESCAPE.finditer(text))
    for number, escape in enumerate(escapes):
        if escape.start() < done:  # the second half of a pair
            continue
        parts.append(text[done : escape.start()])
        character, done = _character(escape, escapes[number + 1] if number + 1 < len(escapes) else None)
        if character is None:
            at = start + len(text[: escape.start()].encode())
            raise Broken(Reason.BAD_UTF8, f"the escape at byte {at} is half of a surrogate pair")
        parts.append(character)
    return "".join([*parts, text[done:]])


def _character(escape: Match[str], after: Match[str] | None) -> tuple[str | None, int]:
    """Return the character of an escape, None for half a pair, and where it ends: a pair takes the escape after it."""
    if escape[1] is None:
        return _SHORT.get(escape[2], escape[2]), escape.end()
    code = int(escape[1], 16)
    if not 0xD800 <= code < 0xE000:
        return chr(code), escape.end()
    is_next = after is not None and after[1] is not None and after.start() == escape.end()
    low = int(after[1], 16) if after is not None and is_next else 0
    if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
        return None, escape.end()
    return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00), escape.end() + 6


def without_space(text: bytes) -> bytes:
    """Return valid JSON without the white space between its tokens, which stay as they are."""
    return _SPACE_OR_STRING.sub(rb"\1", text)


def _matched(pattern: re.Pattern[bytes], data: bytes, at: int) -> Match[bytes]:
    found = pattern.match(data, at)
    assert found is not None  # noqa: S101 - the pattern matches nothing as well
    return found
