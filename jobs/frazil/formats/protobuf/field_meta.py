"""What Confluent's options say of a field, its type or its file: tags, and parameters such as a decimal's precision.

The options are extensions such as `Meta field_meta = 1088` of google.protobuf.FieldOptions, with `map<string, string>
params = 2` and `repeated string tags = 3` (confluent/meta.proto). Those of messages, enums, their values and files have
the same number. They are read from the bytes of the options, so that no pool needs the extensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from frazil.formats.faults import Broken
from frazil.formats.protobuf.scalars import LENGTH
from frazil.formats.protobuf.wire import read_length, read_tag, skip
from frazil.formats.tags import UNREADABLE

_META, _PARAMS, _TAGS, _KEY, _VALUE = 1088, 2, 3, 1, 2
_NAME = re.compile(r"\((?:confluent\.)?(?:file|message|field|enum|enum_value)_meta\)(?:\.(\w+))?")


def add_option(descriptor: Any, name: str, value: Any) -> None:
    """Add an option as the parser has read it, if it is one of these, to the options of what it belongs to."""
    found = _NAME.fullmatch(name)
    if found is None:
        return
    given = [(found.group(1), value)] if found.group(1) else value if isinstance(value, list) else []
    params = (entry for field, held in given if field == "params" for entry in _entries(held))
    tags = (tag for field, held in given if field == "tags" for tag in _tags(held))
    meta = [_field(_PARAMS, _field(_KEY, key.encode()) + _field(_VALUE, text.encode())) for key, text in params]
    meta += [_field(_TAGS, tag.encode()) for tag in tags]
    if meta:
        descriptor.options.MergeFromString(_field(_META, b"".join(meta)))


def _tags(value: Any) -> Iterator[str]:
    """Yield one tag, or those in a list."""
    if isinstance(value, list):
        for _, each in value:
            yield from _tags(each)
    else:
        yield value if isinstance(value, str) else UNREADABLE


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


def tags_of(options: Any) -> tuple[str, ...]:
    """Return the tags in the options of a field, a message, an enum, one of its values, or a file."""
    try:
        metas = _all(options.SerializeToString(), _META)
        return tuple(tag.decode() for meta in metas for tag in _all(meta, _TAGS))
    except (Broken, UnicodeDecodeError):
        return (UNREADABLE,)


def keep_meta_alone(file: Any) -> None:
    """Remove the other options of a file."""
    metas = tuple(_all(file.options.SerializeToString(), _META))
    file.ClearField("options")
    for meta in metas:
        file.options.MergeFromString(_field(_META, meta))


def _all(data: bytes, wanted: int) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        number, wire, at = read_tag(data, at, len(data))
        if number == wanted and wire == LENGTH:
            start, at = read_length(data, at, len(data))
            yield data[start:at]
        else:
            at = skip(data, number, wire, at, len(data))
