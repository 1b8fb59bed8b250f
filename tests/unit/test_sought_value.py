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


@pytest.mark.parametrize("name", ["J\u00fcrgen", 'O"Neill', "CORP\\nina", "\N{GRINNING FACE} me"])
@pytest.mark.parametrize("depth", [2, 3, 7])
def test_a_text_is_found_in_json_in_strings_of_json(name: str, depth: int) -> None:
    payload = name
    for _ in range(depth):
        payload = json.dumps({"name": payload})

    assert sought(name).is_in_payload(payload.encode())
    assert sought(name).is_word_in_payload(payload.encode())


def test_more_escapes_than_rounds_end_and_lose_no_text() -> None:
    payload = b"\\" * 5000 + b'ann"'

    assert sought("ann").is_in_payload(payload)
    assert sought("ann").is_word_in_payload(payload)
    assert not sought("bob").is_in_payload(payload)


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("Ana", "Ana\u00efs"),
        ("Ana", "Ana\u0308s"),
        ("ana", "a\u0308ana"),
        ("\u0418\u0432\u0430\u043d", "\u0418\u0432\u0430\u043d\u043e\u0432"),
        ("\u5c71\u7530", "\u5c0f\u5c71\u7530"),
        ("nina", "\nina"),
        ("ann", "anna"),
        ("17", "2026-11-17"),
        ("17", "17-11-2026"),
        ("17", "17.50"),
        ("17", "3.17"),
        ("17", "-17"),
        ("17", "1e-17"),
        ("17", "\n-17"),
        ("17", "0017"),
        ("ann@x.com", "mary.ann@x.com"),
        ("ann@x.com", "mary-ann@x.com"),
        ("ann@x.com", "mary_ann@x.com"),
        ("ann@x.com", "joann@x.com"),
        ("ann@x.com", "ann@x.com.au"),
    ],
)
def test_a_text_in_a_longer_word_is_no_word(text: str, payload: str) -> None:
    for written in (payload, json.dumps(payload), json.dumps(json.dumps(payload)), f"\udc81 {payload} \udcff"):
        assert not sought(text).is_word_in_payload(written.encode(errors="surrogateescape"))
    escaped = "".join(f"\\u{ord(each):04x}" for each in payload)
    assert not sought(text).is_word_in_payload(f'"{escaped}"'.encode())


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("Ana", "\u00a1Ana!"),
        ("Ana", "\u2764\ufe0fAna"),
        ("Ana", "Ana\nis"),
        ("Ana", "Ana_2"),
        ("\u5c71\u7530", "\u300c\u5c71\u7530\u300d"),
        ("17", "it is 17."),
        ("17", "17-a"),
        ("17", "order-17"),
        ("17", "[1,17,3]"),
        ("-17", "at -17 degrees"),
        ("ann@x.com", "- <ann@x.com>."),
        ("ann@x.com", "-ann@x.com, bob@x.com"),
        ("2026-11-17", "2026-11-17"),
        ("CORP\\nina", "by CORP\\nina"),
    ],
)
def test_a_text_between_borders_is_a_word(text: str, payload: str) -> None:
    for written in (payload, json.dumps(payload), json.dumps(json.dumps(payload)), f"\udc81{payload}\udcff"):
        assert sought(text).is_word_in_payload(written.encode(errors="surrogateescape"))
    escaped = "".join(f"\\u{ord(each):04x}" for each in payload)
    assert sought(text).is_word_in_payload(f'"{escaped}"'.encode())


def test_a_backslash_that_json_escapes_is_a_border() -> None:
    for payload in (json.dumps("CORP\\nina"), r'"CORP\u005cnina"'):
        assert sought("nina").is_word_in_payload(payload.encode())
    assert not sought("nina").is_word_in_payload(json.dumps(json.dumps("CORP\nina")).encode())
    assert sought("nina").is_in_payload(json.dumps(json.dumps("CORP\nina")).encode())


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

    assert sought(text).is_word_in_payload(payload, kind)
    assert sought(text).is_word_in_payload({"key": None, "value": payload}, kind)
    assert not sought(text).is_word_in_payload(payload, "json")
    assert not sought(text).is_word_in_payload(payload)


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
        assert not sought(text).is_word_in_payload(payload, kind)
