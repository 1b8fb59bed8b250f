"""How a value is found in the payloads of dead letters."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from frazil.model.traces import SoughtValue

GLUE_HEADER = b"\3\5" + bytes(16)


def sought(text: str) -> SoughtValue:
    return SoughtValue("name", text, ())


@pytest.mark.parametrize("name", ["J\u00fcrgen", 'O"Neill', "a\\b", "x/y", "\N{GRINNING FACE} me"])
def test_a_text_is_found_as_json_writes_it(name: str) -> None:
    for payload in (json.dumps({"name": name}), json.dumps({"name": name}).replace("/", "\\/")):
        assert sought(name).is_in_payload(payload.encode())
        assert sought(name).is_word_in_payload(payload.encode())
        assert sought(name).is_in_payload({"header": payload})
    assert not sought(name).is_in_payload(json.dumps({"name": "another"}).encode())


def test_half_a_pair_of_surrogates_is_no_text_and_no_failure() -> None:
    assert not sought("ann").is_in_payload(b'{"name": "\\ud83d"}')
    assert sought("ann").is_in_payload(b'{"name": "\\ud83d", "by": "ann"}')


def test_a_text_is_found_in_a_compressed_payload() -> None:
    compressed = zlib.compress(json.dumps({"name": "ann", "notes": "x" * 999}).encode())

    assert sought("ann").is_word_in_payload(GLUE_HEADER + compressed)
    assert sought("ann").is_in_payload(GLUE_HEADER + compressed[:-10])
    assert not sought("bob").is_in_payload(GLUE_HEADER + compressed)
    assert sought("ann").is_in_payload(GLUE_HEADER + b"ann")


ANN = "ann.of.the.green.gables"
"""Of 23 bytes."""


@pytest.mark.parametrize(
    ("kind", "text", "before", "behind"),
    [
        ("avro", ANN + "x", b"0", b""),
        ("avro", ANN, b"\x2e", b"A"),
        ("avro", "J\u00fc" * 8, b"0", b"n"),
        ("avro", "x" * 64, b"a\x80\x01", b"0"),
        ("protobuf", "x" * 48, b"\x0a0", b"2"),
        ("protobuf", "x" * (48 * 128), b"\x0a\x80\x30", b""),
        ("protobuf", ANN, b"\x0a\x17", b"2\x01b"),
    ],
)
def test_a_length_in_front_of_a_text_is_no_letter_and_ends_it(
    kind: Any, text: str, before: bytes, behind: bytes
) -> None:
    payload = before + text.encode() + behind

    assert sought(text).is_word_in_payload(payload, {kind})
    assert sought(text).is_word_in_payload({"key": None, "value": payload}, {kind})
    assert not sought(text).is_word_in_payload(payload, {"json"})


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("avro", b"2" + ANN.encode() + b"x."),
        ("avro", b"\x30" + ANN.encode() + b"x"),
        ("protobuf", b"\x0a0" + ANN.encode() + b"x" * 25),
        ("protobuf", b"\x04" + b"1789"),
        ("avro", b"\x08" + b"2017"),
    ],
)
def test_another_length_in_front_of_a_text_leaves_it_in_a_longer_word(kind: Any, payload: bytes) -> None:
    for text in (ANN, "17"):
        assert not sought(text).is_word_in_payload(payload, {kind})
