"""Payloads without a registered schema: bytes, text, and JSON that is kept as text. Each is one column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.arrow import arrow_schema
from frazil.formats.decoder import Decoded, Payloads, in_one_array, without
from frazil.formats.format import PlainFormat
from frazil.formats.mapped import VALUE
from frazil.formats.native import native_available
from frazil.model.columns import Scalar
from frazil.model.dead_letter import Reason, Reject
from frazil.records import value_ends

DEEPEST_JSON = 500
"""Levels of arrays and objects in a JSON text. Python's parser stops at about 1,000, less what called it."""

_BRACKETS_AND_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
"""A string without an end reaches to the end of the text, or it would be read again from each quote in it."""


class PlainDecoder:
    """Keeps payloads as they are (`decoder.Decoder`)."""

    def __init__(self, plain: PlainFormat) -> None:
        self.schema = arrow_schema(plain.columns)
        self._problems = plain.problems

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        given = in_one_array(payloads)
        given = pc.binary_slice(given, skip) if skip else given
        rejects = tuple(self._problems(given))
        kept = without(given, rejects).cast(self.schema.field(VALUE).type)
        return Decoded(pa.RecordBatch.from_arrays([kept], schema=self.schema), rejects)


def no_problems(payloads: pa.LargeBinaryArray) -> Sequence[Reject]:
    del payloads
    return ()


def text_problems(payloads: pa.LargeBinaryArray) -> Sequence[Reject]:
    """Return a reject for each payload that is not UTF-8; null is not a problem."""
    try:
        payloads.cast(pa.large_string())
    except pa.ArrowInvalid:
        found = (_bad_text(index, payloads[index].as_py()) for index in _beyond_ascii(payloads))
        return tuple(reject for reject in found if reject is not None)
    return ()


def json_problems(payloads: pa.LargeBinaryArray) -> Sequence[Reject]:
    """Return a reject for each payload that is not one JSON text in UTF-8 (RFC 8259); null is not a problem."""
    return tuple(_json_problems(payloads))


def _json_problems(payloads: pa.LargeBinaryArray) -> Iterator[Reject]:
    for index in _suspects(payloads):
        payload = payloads[index].as_py()
        problem = _bad_text(index, payload) or _bad_json(index, payload.decode())
        if problem is not None:
            yield problem


def _suspects(payloads: pa.LargeBinaryArray) -> Sequence[int]:
    """Return the indexes of payloads that may not be JSON: without the native module, of all that are not null."""
    if not native_available():
        return cast("list[int]", pc.indices_nonzero(payloads.is_valid()).to_pylist())
    import frazil_native  # noqa: PLC0415 - it may not be built

    return frazil_native.json_suspects(payloads, DEEPEST_JSON)


def _beyond_ascii(payloads: pa.LargeBinaryArray) -> list[int]:
    """The payloads with a byte beyond ASCII, in order: all others are text."""
    ends = value_ends(payloads)
    places = np.flatnonzero(np.frombuffer(payloads.buffers()[2], np.uint8)[: ends[-1]] >= 0x80)
    inside = places[places >= ends[0]]
    found: list[int] = np.unique(np.searchsorted(ends, inside, side="right") - 1).tolist()
    return found


def _bad_text(index: int, payload: bytes | None) -> Reject | None:
    try:
        (payload or b"").decode()
    except UnicodeDecodeError as bad:
        return Reject(index, Reason.BAD_UTF8, f"{bad.reason} at byte {bad.start}")
    return None


def _bad_json(index: int, text: str) -> Reject | None:
    if _nests_too_deeply(text):
        return Reject(index, Reason.TOO_LARGE, f"more than {DEEPEST_JSON} levels of arrays and objects")
    try:
        _JSON.decode(text)
    except json.JSONDecodeError as bad:
        return Reject(index, Reason.BAD_JSON, f"{bad.msg} at character {bad.pos}")
    except _NotANumberError as bad:
        return Reject(index, Reason.BAD_JSON, f"{bad} is not a number of JSON")
    return None


def _nests_too_deeply(text: str) -> bool:
    """Return whether the brackets outside of strings are nested too deeply, also in a text that is not JSON."""
    if text.count("[") + text.count("{") <= DEEPEST_JSON:
        return False
    depth = 0
    for found in _BRACKETS_AND_STRINGS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > DEEPEST_JSON:
            return True
    return False


class _NotANumberError(Exception):
    """A constant that Python's parser accepts, and JSON does not have."""


def _refuse(constant: str) -> NoReturn:
    raise _NotANumberError(constant)


_JSON = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)
"""Checks a text. Numbers are not converted: an integer may have more digits than Python converts."""

PLAIN_FORMATS: Mapping[str, PlainFormat] = {
    "bytes": PlainFormat(Scalar("binary"), no_problems),
    "string": PlainFormat(Scalar("string"), text_problems),
    "json": PlainFormat(Scalar("string"), json_problems),
}
"""By their words in a table spec."""
