"""Texts and words in payloads of dead letters, which may be compressed, binary, and JSON in strings of JSON."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from bisect import bisect_left
from collections.abc import Iterator

from frazil.model.glue_frame import FRAME_BYTES, MOST_INFLATED, VERSION, ZLIB

MOST_ROUNDS = 8
"""JSON in so many strings of JSON is read. Each round makes a payload shorter."""
NEAR = 8
"""So many characters on each side of a text are enough to see whether it ends there."""

_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\[\"\\/bfnrt]")
_SHORT_ESCAPES = dict(zip((f"\\{each}" for each in '"\\/bfnrt'), '"\\/\b\f\n\r\t', strict=True))
_ESCAPED_QUOTE = re.compile(r"\\(?:\"|u0022)")
"""JSON in a string of JSON has one."""
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_NUMBER_BEGAN = re.compile(r"(?:(?<![^\W\d_])|(?<=\d[eE]))[.+-]\Z")
"""A sign or a point before a number is a part of the number, but not in A-17, where a letter is before the sign."""
_NUMBER_CONTINUES = re.compile(r"[.+-]\d")
_ADDRESS_BEGAN = re.compile(r"\w[.+_-]+\Z")
_ADDRESS_CONTINUES = re.compile(r"[.-]\w")


def pieces_of(payload: object) -> Iterator[bytes]:
    """Yield the bytes of a payload, or of the names and values of headers, and what compressed ones inflate to."""
    match payload:
        case bytes():
            yield payload
            inflated = _inflated(payload)
            if inflated:
                yield inflated
        case str():
            yield from pieces_of(payload.encode())
        case dict():
            yield from pieces_of(list(payload.values()))
        case list() | tuple():
            for each in payload:
                yield from pieces_of(each)
        case _:
            return


def layers_of(piece: bytes) -> list[str]:
    """Return the piece as a text, then without JSON's escapes, again and again until none is left.

    Bytes that are not UTF-8 become surrogates, which are in no word. A text in UTF-8 is found, whatever is beside it.
    """
    layers = [piece.decode(errors="surrogateescape")]
    for _ in range(MOST_ROUNDS):
        if "\\" not in layers[-1]:
            break
        inner = _ESCAPED.sub(_unescaped, layers[-1])
        if inner == layers[-1]:
            break
        layers.append(inner)
    return layers


def has_word(piece: bytes, text: str) -> bool:
    r"""Return whether a piece has the text other than in a longer word, number or mail address.

    A text beside an escape, or with a part of one, is left to the next layer: `\nina` is a new line and `ina`. But in
    what JSON without JSON inside is unescaped to, as `CORP\\nina` is to `CORP\nina`, a backslash is no escape.
    """
    layers = layers_of(piece)
    has_escape = _ESCAPED.search(text) is not None
    for number, layer in enumerate(layers):
        is_plain = number > 0 and not _ESCAPED_QUOTE.search(layers[number - 1])
        is_decided = has_escape or is_plain or number == len(layers) - 1
        escapes = [] if is_decided or text not in layer else [each.span() for each in _ESCAPED.finditer(layer)]
        if any(_is_word(layer, start, text) for start in _places(layer, text, escapes)):
            return True
    return False


def _places(layer: str, text: str, escapes: list[tuple[int, int]]) -> Iterator[int]:
    """Yield where the text is, except near these escapes: a border is decided by 2 characters."""
    begins, ends = [begin for begin, _ in escapes], [end for _, end in escapes]

    def is_near(border: int) -> bool:
        first = bisect_left(ends, border - 1)
        return first < len(ends) and begins[first] <= border + 1

    start = layer.find(text)
    while start >= 0:
        if not is_near(start) and not is_near(start + len(text)):
            yield start
        start = layer.find(text, start + 1)


def _is_word(layer: str, start: int, text: str) -> bool:
    """Return whether the text at this place is a word, number or mail address of its own."""
    end = start + len(text)
    before, behind = layer[max(start - NEAR, 0) : start], layer[end : end + NEAR]
    if _ends_in_word(before) or behind[:1].isalnum() or _is_mark(behind[:1]):
        return False
    if _NUMBER.fullmatch(text):
        return not (_NUMBER_BEGAN.search(before) or _NUMBER_CONTINUES.match(behind))
    if "@" in text:
        return not (_ADDRESS_BEGAN.search(before) or _ADDRESS_CONTINUES.match(behind))
    return True


def _ends_in_word(before: str) -> bool:
    """Return whether a text ends with a letter or a digit, with or without combining marks."""
    return next((each.isalnum() for each in reversed(before) if not _is_mark(each)), False)


def _is_mark(character: str) -> bool:
    return character != "" and unicodedata.category(character).startswith("M")


def _unescaped(found: re.Match[str]) -> str:
    short = _SHORT_ESCAPES.get(found[0])
    if short is not None:
        return short
    text: str = json.loads(f'"{found[0]}"')
    return text


def _inflated(payload: bytes) -> bytes:
    """Return what a compressed payload inflates to, as far as one of a batch may; of any other, nothing."""
    if not payload.startswith(bytes([VERSION, ZLIB])):
        return b""
    try:
        return zlib.decompressobj().decompress(payload[FRAME_BYTES:], MOST_INFLATED)
    except zlib.error:
        return b""
