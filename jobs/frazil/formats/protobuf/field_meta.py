"""The parameters that the option `confluent.field_meta` gives to a field, such as the precision of a decimal.

The option is an extension of google.protobuf.FieldOptions: `Meta field_meta = 1088`, with `map<string, string> params =
2` (confluent/meta.proto). It is read from the bytes of the options, so that no pool needs the extension.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frazil.formats.faults import Broken
from frazil.formats.protobuf.scalars import LENGTH
from frazil.formats.protobuf.wire import read_length, read_tag, skip

FIELD_META = "(confluent.field_meta)"
_META, _PARAMS, _KEY, _VALUE = 1088, 2, 1, 2


def params_of_option(name: str, value: Any) -> dict[str, str]:
    """Return the parameters in an option as the parser has read it; none if it is another option."""
    if name == f"{FIELD_META}.params":
        return dict(_entries(value))
    if name != FIELD_META or not isinstance(value, list):
        return {}
    return {key: text for field, held in value if field == "params" for key, text in _entries(held)}


def _entries(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the entries of a map in the text format: one `{key: …, value: …}`, or a list of them."""
    if not isinstance(value, list):
        return
    if any(name == "" for name, _ in value):
        for _, each in value:
            yield from _entries(each)
        return
    fields = {name: held for name, held in value if isinstance(held, str)}
    if "key" in fields:
        yield fields["key"], fields.get("value", "")


def set_params(options: Any, params: dict[str, str]) -> None:
    """Add parameters to the FieldOptions of a field."""
    meta = b"".join(
        _field(_PARAMS, _field(_KEY, key.encode()) + _field(_VALUE, value.encode())) for key, value in params.items()
    )
    options.MergeFromString(_field(_META, meta))


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | LENGTH) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def params_of(options: Any) -> dict[str, str]:
    """Return the parameters in the FieldOptions of a field."""
    params: dict[str, str] = {}
    try:
        for meta in _all(options.SerializeToString(), _META):
            for entry in _all(meta, _PARAMS):
                key, value = (b"".join(_all(entry, each)) for each in (_KEY, _VALUE))
                params[key.decode()] = value.decode()
    except (Broken, UnicodeDecodeError):  # an option that is not Confluent's
        return {}
    return params


def _all(data: bytes, wanted: int) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        number, wire, at = read_tag(data, at, len(data))
        if number == wanted and wire == LENGTH:
            start, at = read_length(data, at, len(data))
            yield data[start:at]
        else:
            at = skip(data, number, wire, at, len(data))
