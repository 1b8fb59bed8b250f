"""Payloads of one schema among others are decoded where they are, as if they were copied first."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from frazil.formats.avro.open import open_decoder as open_avro
from frazil.formats.avro.schema import parse_schema
from frazil.formats.decoder import Decoder, chosen_payloads
from frazil.formats.native import Engine
from frazil.formats.open import open_plain
from frazil.formats.parts import DecoderInParts
from frazil.records import binary

AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]})
VALUES = binary([b"\x02a", None, b"\x04bc", b"\xff", b"\x06def", b"", b"\x02g"])
CHOSEN = np.array([6, 3, 2, 5, 0])


def assert_same_as_copied(decoder: Decoder) -> None:
    copied = decoder.decode(VALUES.take(pa.array(CHOSEN)))

    assert decoder.decode(chosen_payloads(VALUES, CHOSEN)) == copied


@pytest.mark.parametrize("engine", ["native", "fallback"])
def test_chosen_payloads_decode_as_copies_of_them(engine: Engine, request: pytest.FixtureRequest) -> None:
    if engine == "native":
        request.getfixturevalue("native")
    decoder = open_avro(parse_schema(AVRO), engine)

    decoded = decoder.decode(chosen_payloads(VALUES, CHOSEN))

    assert decoded.rows.column("text").to_pylist() == ["g", "bc", "a"]
    assert [reject.index for reject in decoded.rejects] == [1, 3]
    assert_same_as_copied(decoder)
    assert_same_as_copied(DecoderInParts(decoder, 2))


@pytest.mark.parametrize("word", ["string", "json", "bytes"])
def test_chosen_payloads_without_a_schema_are_kept_as_copies_of_them(word: str) -> None:
    decoder = open_plain(word)
    assert decoder is not None

    assert_same_as_copied(decoder)


@pytest.mark.usefixtures("native")
def test_a_chosen_null_is_refused() -> None:
    decoder = open_avro(parse_schema(AVRO), "native")

    with pytest.raises(ValueError, match="payloads are large_binary without nulls, or a dictionary of them"):
        decoder.decode(chosen_payloads(VALUES, np.array([0, 1])))


def test_all_payloads_are_the_array_itself() -> None:
    assert chosen_payloads(VALUES, None) is VALUES
