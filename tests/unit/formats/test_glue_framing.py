"""AWS Glue's wire format: the header, compressed data, and the message of a Protobuf schema."""

from __future__ import annotations

import random
import zlib
from uuid import UUID

import pytest

from frazil.formats import unpacking
from frazil.formats.decoder import Decoded
from frazil.formats.framing import Framed, Group
from frazil.formats.glue_framing import FRAME_BYTES, group_by_version_id
from frazil.formats.open import message_names, open_decoder, open_plain
from frazil.formats.unpacking import MOST_INFLATED, decode_group
from frazil.model.dead_letter import Reason
from frazil.model.schemas import RegisteredSchema
from frazil.records import binary

ONE, TWO = UUID(int=1), UUID(int=2)

RANDOM = random.Random(13).randbytes(2**19)


def framed(data: bytes = b"x", version: UUID = ONE, *, compression: int = 0) -> bytes:
    return bytes([3, compression]) + version.bytes + data


def compressed(data: bytes) -> bytes:
    return framed(zlib.compress(data), compression=5)


def decoded(*values: bytes) -> Decoded:
    """The values as text: the decoder is of no matter."""
    text = open_plain("string")
    assert text is not None
    (group,) = group_by_version_id(binary(values)).groups
    return decode_group(text, binary(values), group)


def test_values_are_sorted_by_version_and_compression() -> None:
    found = group_by_version_id(binary([framed(), None, compressed(b"x"), framed(version=TWO), framed(b"")]))

    groups = [(g.schema_id, g.is_compressed, g.header_bytes, None if g.indexes is None else g.indexes.tolist())
              for g in found.groups]  # fmt: skip
    assert groups == [(ONE, False, 18, [0, 4]), (ONE, True, 18, [2]), (TWO, False, 18, [3])]
    assert (found.nulls, found.unframed) == ((1,), ())


def test_one_version_means_all_values_in_order() -> None:
    assert group_by_version_id(binary([framed(), framed(b"")])) == Framed((Group(ONE, None, FRAME_BYTES),), (), ())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "0 bytes, expected a header of 18"),
        (framed()[:17], "17 bytes, expected a header of 18"),
        (b"\0\0\0\0\7" + bytes(20), "starts with byte 0, expected 3: was it written without AWS Glue's serializer?"),
        (framed(compression=1), "the byte of the compression is 1, expected 0 (none) or 5 (zlib)"),
    ],
)
def test_another_beginning_is_not_framed(value: bytes, expected: str) -> None:
    (reject,) = group_by_version_id(binary([value])).unframed

    assert (reject.reason, reject.detail) == (Reason.NOT_FRAMED, expected)


def test_compressed_data_is_inflated_and_rejects_keep_their_places() -> None:
    broken, short, more = framed(b"no zlib", compression=5), compressed(b"abc")[:-3], compressed(b"abc") + b"!"

    found = decoded(compressed(b"a"), broken, short, compressed(b"\xff"), more, compressed(b"b" * 10_000))

    assert found.rows.column(0).to_pylist() == ["a", "b" * 10_000]
    assert [(each.index, each.reason) for each in found.rejects] == [
        (1, Reason.BAD_COMPRESSION),
        (2, Reason.BAD_COMPRESSION),
        (3, Reason.BAD_UTF8),
        (4, Reason.BAD_COMPRESSION),
    ]
    assert found.rejects[2 - 1].detail == "the data ends inside the zlib stream"
    assert found.rejects[3].detail == "1 byte after the end of the zlib stream"


def test_a_bomb_is_a_dead_letter_of_its_own() -> None:
    bomb = compressed(bytes(MOST_INFLATED + 1))

    found = decoded(compressed(b"a"), bomb, compressed(b"b"))

    assert len(bomb) < 40_000
    assert found.rows.column(0).to_pylist() == ["a", "b"]
    assert [(each.index, each.reason) for each in found.rejects] == [(1, Reason.TOO_LARGE)]


@pytest.mark.parametrize(
    ("bomb", "detail"),
    [
        (compressed(bytes(2**20 + 1)), "the data inflates to more than 1,048,576 bytes"),
        (compressed(bytes(2**25)), "the data inflates to more than 3,262,300 bytes, 100 times its 32,623"),
        (compressed(bytes(2**25 + 1) + RANDOM), "the data inflates to more than 33,554,432 bytes"),
    ],
)
def test_a_bomb_is_inflated_to_a_limit_only(bomb: bytes, detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is a multiple of the payload: a bomb of 32 KB does not take the time of 32 MiB."""
    asked: list[int] = []
    monkeypatch.setattr(unpacking, "zlib", InflatingAtMost(asked))

    found = decoded(bomb, compressed(b"a"))

    assert [(each.index, each.reason, each.detail) for each in found.rejects] == [(0, Reason.TOO_LARGE, detail)]
    assert found.rows.column(0).to_pylist() == ["a"]
    assert asked == [unpacking.most_inflated(len(bomb) - FRAME_BYTES) + 1, 2**20 + 1]


def test_data_that_is_no_bomb_may_be_large() -> None:
    texts = [b"a" * 2**20, RANDOM.hex().encode() * 8]

    found = decoded(*map(compressed, texts))

    assert found.rejects == ()
    assert found.rows.column(0).to_pylist() == [text.decode() for text in texts]


class InflatingAtMost:
    """The module zlib, which notes how many bytes a call may inflate."""

    error = zlib.error

    def __init__(self, asked: list[int]) -> None:
        self.asked = asked

    def decompressobj(self) -> InflatingAtMost:
        self.stream = zlib.decompressobj()
        return self

    def decompress(self, data: memoryview, most: int) -> bytes:
        self.asked.append(most)
        return self.stream.decompress(data, most)

    @property
    def eof(self) -> bool:
        return self.stream.eof

    @property
    def unused_data(self) -> bytes:
        return self.stream.unused_data


def test_decoding_ends_early_once_a_call_inflates_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST_INFLATED", 1000)
    values = [compressed(b"a" * 600)] * 5

    found = decoded(values[0], framed(b"-", compression=5), *values)

    assert (found.rows.num_rows, found.taken) == (2, 3)


def test_hostile_values_are_sorted_as_by_a_walk() -> None:
    rng = random.Random(11)
    values = [_hostile(rng) for _ in range(100_000)]

    found = group_by_version_id(binary(values))

    named: dict[int, object] = dict.fromkeys(found.nulls)
    for group in found.groups:
        indexes = range(len(values)) if group.indexes is None else group.indexes.tolist()
        named.update(dict.fromkeys(indexes, (group.schema_id, group.is_compressed)))
    bad = {reject.index for reject in found.unframed}
    assert len(named) + len(bad) == len(values)
    for index, value in enumerate(values):
        valid = value is not None and len(value) >= 18 and value[0] == 3 and value[1] in (0, 5)
        assert (index in bad) == (value is not None and not valid)
        if valid:
            assert value is not None and named[index] == (UUID(bytes=value[2:18]), value[1] == 5)


def test_hostile_streams_never_fail_a_call() -> None:
    rng = random.Random(12)
    good = zlib.compress(b"good" * 20)
    streams = [rng.choice([rng.randbytes(rng.randrange(30)), _flipped(good, rng), good]) for _ in range(20_000)]

    found = decoded(*(framed(stream, compression=5) for stream in streams))

    assert found.taken == len(streams)
    kept = set(range(len(streams))) - {reject.index for reject in found.rejects}
    assert {index for index, stream in enumerate(streams) if stream == good} <= kept


def _hostile(rng: random.Random) -> bytes | None:
    start = bytes([rng.choice([3, 3, 3, 0, 255]), rng.choice([0, 5, 5, 1])])
    return rng.choice([None, rng.randbytes(rng.randrange(30)), start + rng.choice([ONE, TWO]).bytes, start])


def _flipped(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


PROTO = """
syntax = "proto3";
package shop;
message Order { int64 n = 1; message Zone { int32 z = 1; } map<string, int32> counts = 2; }
message Box { message Inner { string s = 1; } int32 b = 1; }
"""
IN_ORDER = ["shop.Box", "shop.Box.Inner", "shop.Order", "shop.Order.CountsEntry", "shop.Order.Zone"]
"""The numbers of AWS Glue's serializer are positions in this list."""


def protobuf(*payloads: bytes) -> Decoded:
    values = binary([framed(payload) for payload in payloads])
    schema = RegisteredSchema(ONE, "PROTOBUF", PROTO)
    return decode_group(open_decoder(schema, wire_format="glue"), values, group_by_version_id(values).groups[0])


def test_a_number_names_the_message_by_its_full_name() -> None:
    found = protobuf(b"\2\x08\7", b"\2", b"\2\x08\1")

    assert found.rejects == ()
    assert found.rows.column("n").to_pylist() == [7, 0, 1]


def test_other_messages_and_unknown_numbers_are_rejects() -> None:
    found = protobuf(b"\0\x08\7", b"\4", b"\3", b"\5", b"\2\x08\7", b"", b"\x82\0\x08\7", b"\xff" * 6)

    assert found.rows.column("n").to_pylist() == [7, 7]
    reasons = [(each.index, each.reason) for each in found.rejects]
    assert reasons == [
        (0, Reason.WRONG_MESSAGE),
        (1, Reason.WRONG_MESSAGE),
        (2, Reason.BAD_INDEX),
        (3, Reason.BAD_INDEX),
        (5, Reason.TRUNCATED),
        (7, Reason.BAD_VARINT),
    ]
    assert "shop.Box," in found.rejects[0].detail


def test_all_payloads_of_one_byte_numbers_are_rewritten_at_once() -> None:
    found = protobuf(*(bytes([number]) for number in range(len(IN_ORDER))))

    assert found.rows.num_rows == 1
    assert [each.index for each in found.rejects] == [0, 1, 3, 4]


def test_each_payload_tells_the_name_of_its_message() -> None:
    schema = RegisteredSchema(ONE, "PROTOBUF", PROTO)
    names = message_names(schema, "glue")
    values = binary([framed(bytes([number])) for number in range(6)] + [framed(b"")])
    assert names is not None

    found = decode_group(names, values, group_by_version_id(values).groups[0])

    assert found.rows.column(0).to_pylist() == [*IN_ORDER[:3], IN_ORDER[4]]
    assert [each.index for each in found.rejects] == [3, 5, 6]
