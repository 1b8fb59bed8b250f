"""Values are sorted by the GUID in a header, and their bytes are never searched for an id."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from frazil.formats.framing import Framed, Group
from frazil.formats.header_framing import group_by_header
from frazil.model.dead_letter import Reason, Reject
from frazil.records import HeaderList, Headers, binary

ONE, TWO = UUID(int=1), UUID(int=2)
NAME = "__value_schema_id"


def header(guid: UUID, rest: bytes = b"", name: str = NAME) -> tuple[str, bytes]:
    return name, b"\1" + guid.bytes + rest


def group(values: list[bytes | None], headers: list[HeaderList], word: str | None = "avro") -> Framed:
    return group_by_header(word, of_key=False)(binary(values), Headers.of(headers))


def problem(headers: HeaderList, word: str = "avro") -> str:
    (reject,) = group([b"x"], [headers], word).unframed
    assert reject.reason is Reason.NOT_FRAMED
    return reject.detail


def test_one_guid_means_all_values_in_order() -> None:
    assert group([b"a", b""], [[header(ONE)], [header(ONE)]]) == Framed((Group(ONE, None),), (), ())


def test_a_payload_with_a_zero_byte_and_no_header_is_not_framed() -> None:
    framed = group([b"\0\0\0\0\7x", b"\0\0\0\0\7x"], [None, [header(ONE)]])

    assert [(each.schema_id, each.header_bytes) for each in framed.groups] == [(ONE, 0)]
    detail = f"the record has no header {NAME} with a schema's GUID"
    assert framed.unframed == (Reject(0, Reason.NOT_FRAMED, detail),)


def test_every_index_is_in_one_place_and_groups_are_in_the_order_of_first_use() -> None:
    headers: list[HeaderList] = [[header(TWO)], [], [header(ONE)], [header(TWO)], [header(ONE)], None]
    framed = group([b"a", b"b", b"c", b"d", None, None], headers)

    found = [(each.schema_id, each.indexes.tolist()) for each in framed.groups if each.indexes is not None]
    assert found == [(TWO, [0, 3]), (ONE, [2])]
    assert framed.nulls == (4, 5)
    assert [reject.index for reject in framed.unframed] == [1]


def test_the_last_of_several_headers_counts() -> None:
    headers: HeaderList = [header(ONE), ("other", b"x"), header(TWO)]

    assert group([b"a"], [headers]).groups == (Group(TWO, None),)
    assert problem([header(ONE), (NAME, None)]).startswith("the record has no header")


def test_the_header_of_keys_is_another_one() -> None:
    of_key = header(TWO, name="__key_schema_id")
    framed = group_by_header("avro", of_key=True)(binary([b"k"]), Headers.of([[header(ONE), of_key]]))

    assert framed.groups == (Group(TWO, None),)
    assert problem([of_key]).startswith("the record has no header __value_schema_id")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "the header __value_schema_id has 0 bytes, expected 17"),
        (b"\1" + ONE.bytes[:15], "the header __value_schema_id has 16 bytes, expected 17"),
        (b"\0\0\0\0\7", "the header __value_schema_id has 5 bytes, expected 17"),
        (b"\0" + ONE.bytes, "the header __value_schema_id starts with byte 0, expected 1"),
        (b"A" + ONE.bytes, 'the header __value_schema_id starts with byte 65 ("A"), expected 1'),
        (b"\1" + ONE.bytes + b"\0", "the header __value_schema_id: 1 byte after the GUID"),
    ],
)
def test_another_header_is_not_framed(value: bytes, expected: str) -> None:
    assert problem([(NAME, value)]) == expected


def test_protobuf_has_its_message_indexes_in_the_header() -> None:
    assert group([b"a"], [[header(ONE, b"\0")]], "protobuf").groups == (Group(ONE, None, message=b"\0"),)
    assert group([b"a"], [[header(ONE, b"\4\2\0")]], "protobuf").groups == (Group(ONE, None, message=b"\4\2\0"),)
    assert problem([header(ONE)], "protobuf").endswith("no message indexes after the GUID")
    assert problem([header(ONE, b"\4\2")], "protobuf").endswith("the message ends inside a message index")
    assert problem([header(ONE, b"\0x")], "protobuf").endswith("1 byte after the message indexes")


def test_a_payload_of_an_unknown_format_may_have_message_indexes() -> None:
    framed = group([b"a", b"b"], [[header(ONE)], [header(ONE, b"\0")]], None)

    assert [each.message for each in framed.groups] == [b"", b"\0"]


def test_hostile_headers_and_payloads_are_sorted_as_by_a_walk() -> None:
    rng = random.Random(7)
    values = [rng.choice([None, rng.randbytes(rng.randrange(9)), b"\0" + rng.randbytes(5)]) for _ in range(100_000)]
    headers = [_any_headers(rng) for _ in values]

    framed = group(values, headers)

    found: dict[int, UUID | None] = dict.fromkeys(framed.nulls)
    for each in framed.groups:
        assert isinstance(each.schema_id, UUID)
        indexes = range(len(values)) if each.indexes is None else each.indexes.tolist()
        found.update(dict.fromkeys(indexes, each.schema_id))
    bad = {reject.index for reject in framed.unframed}
    assert len(found) + len(bad) == len(values)
    for index, (value, held) in enumerate(zip(values, headers, strict=True)):
        expected = None if value is None else _walked(held)
        assert (index in bad) == (value is not None and expected is None)
        assert found.get(index) == expected


def _any_headers(rng: random.Random) -> HeaderList:
    if rng.random() < 0.1:
        return None
    shapes = [b"", b"\0\0\0\0\1", b"\1" + ONE.bytes, b"\1" + TWO.bytes, rng.randbytes(17), b"\1" + rng.randbytes(16)]
    names = [NAME, NAME, "__key_schema_id", NAME.upper(), ""]
    return [(rng.choice(names), rng.choice([*shapes, None])) for _ in range(rng.randrange(4))]


def _walked(headers: HeaderList) -> UUID | None:
    assert headers is None or isinstance(headers, list)
    named = [value for name, value in headers or [] if name == NAME]
    held = named[-1] if named else None
    return UUID(bytes=held[1:]) if held is not None and len(held) == 17 and held[0] == 1 else None
