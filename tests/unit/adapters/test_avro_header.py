"""The header of an Avro file, read without the records behind it."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.adapters.iceberg.avro_header import NoAvroHeaderError, read_header

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


def file_with(metadata: dict[str, str]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(SCHEMA), [{"n": 1}], metadata=dict(metadata))
    return out.getvalue()


@given(st.dictionaries(st.text(max_size=5).map(lambda text: f"x.{text}"), st.text(max_size=300), max_size=5))
def test_every_entry_is_read(metadata: dict[str, str]) -> None:
    header = read_header(io.BytesIO(file_with(metadata)))

    assert {key: value.decode() for key, value in header.items() if key.startswith("x.")} == metadata
    assert {"avro.schema", "avro.codec"} <= set(header)


def test_an_entry_longer_than_one_read_is_whole() -> None:
    assert read_header(io.BytesIO(file_with({"long": "x" * 300_000})))["long"] == b"x" * 300_000


@given(st.binary(max_size=64), st.integers(0, 60))
def test_damage_is_an_error_of_its_own_or_leaves_the_entries_readable(noise: bytes, at: int) -> None:
    whole = file_with({"key": "value"})

    for damaged in (noise, b"Obj\x01" + noise, whole[:at] + noise + whole[at + len(noise) :]):
        try:
            header = read_header(io.BytesIO(damaged))
        except NoAvroHeaderError:
            continue
        assert all(value in damaged for value in header.values())
        assert damaged != whole or header["key"] == b"value"


@given(st.integers(0, 100))
def test_a_header_that_was_cut_short_is_an_error(at: int) -> None:
    with pytest.raises(NoAvroHeaderError):
        read_header(io.BytesIO(file_with({"key": "value"})[:at]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"Obj\x01", b"Obj\x01" + b"\xff" * 12])
def test_what_is_no_avro_file_is_said(content: bytes) -> None:
    with pytest.raises(NoAvroHeaderError):
        read_header(io.BytesIO(content))
