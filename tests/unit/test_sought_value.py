"""How a value is found in the payloads of dead letters."""

from __future__ import annotations

import json
import zlib

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
