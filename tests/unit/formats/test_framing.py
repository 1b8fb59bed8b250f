"""Values are sorted by the schema id that they start with."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.framing import (
    FRAME_BYTES,
    Framed,
    Group,
    PlacesById,
    group_by_schema_id,
    places_by_id,
    places_by_id_in_python,
    schema_ids,
)
from frazil.formats.native import native_available
from frazil.model.dead_letter import Reason, Reject
from frazil.records import binary


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def test_one_schema_id_means_all_values_in_order() -> None:
    assert group_by_schema_id(binary([framed(7), framed(7, b"")])) == Framed((Group(7, None, FRAME_BYTES),), (), ())


def test_every_index_is_in_one_place() -> None:
    sorted_values = group_by_schema_id(
        binary([framed(2), None, b"", framed(1), b"\x01\0\0\0\x02x", framed(2), b"\0\0\0\0"])
    )

    indexes = {group.schema_id: group.indexes.tolist() for group in sorted_values.groups if group.indexes is not None}
    assert indexes == {2: [0, 5], 1: [3]}
    assert sorted_values.nulls == (1,)
    not_zero = "starts with byte 1, expected 0: was it written without a schema registry's serializer?"
    assert sorted_values.unframed == (
        Reject(2, Reason.NOT_FRAMED, "0 bytes, expected a header of 5"),
        Reject(4, Reason.NOT_FRAMED, not_zero),
        Reject(6, Reason.NOT_FRAMED, "4 bytes, expected a header of 5"),
    )


def test_a_text_that_is_no_avro_shows_its_first_character() -> None:
    (reject,) = group_by_schema_id(binary([b"no avro at all"])).unframed

    assert reject.detail.startswith('starts with byte 110 ("n"), expected 0')


def test_bytes_that_start_a_value_are_shown_without_a_sign_also_in_a_slice() -> None:
    values = binary([framed(1), b"no avro", b"\xff" * 9, b"\x80" * 5])[1:]

    details = [reject.detail.partition(",")[0] for reject in group_by_schema_id(values).unframed]

    assert details == ['starts with byte 110 ("n")', "starts with byte 255", "starts with byte 128"]


def test_nothing_but_nulls_makes_no_group() -> None:
    assert group_by_schema_id(binary([None, None])) == Framed((), (0, 1), ())
    assert group_by_schema_id(binary([])) == Framed((), (), ())


def test_ids_are_those_of_a_walk_over_the_bytes_in_a_slice_too() -> None:
    rng = random.Random(3)
    values = [rng.choice([None, rng.randbytes(rng.randrange(8)), b"\0" + rng.randbytes(6)]) for _ in range(5000)]

    assert schema_ids(binary(values)).tolist() == list(map(_id_of, values))
    assert schema_ids(binary(values)[17:100]).tolist() == list(map(_id_of, values[17:100]))


def _id_of(value: bytes | None) -> int:
    if value is None:
        return -1
    return int.from_bytes(value[1:5], "big") if len(value) >= 5 and value[0] == 0 else -2


VALUES = st.one_of(st.none(), st.binary(max_size=7), st.integers(0, 3).map(framed), st.just(framed(2**32 - 1)))


@pytest.mark.skipif(not native_available(), reason="the native module is not built")
@given(st.lists(VALUES), st.integers(0, 3))
def test_the_native_module_finds_the_places_that_python_does(values: list[bytes | None], start: int) -> None:
    given_values = binary(values)[start:]

    native, python = places_by_id(given_values), places_by_id_in_python(given_values)

    assert _in_lists(native) == _in_lists(python)
    ids = [_id_of(value) for value in values[start:]]
    whole = {each: [at for at, other in enumerate(ids) if other == each] for each in dict.fromkeys(ids)}
    assert _in_lists(native) == ([(ids[0], None)] if len(whole) == 1 else list(whole.items()))


def _in_lists(places: PlacesById) -> list[tuple[int, list[int] | None]]:
    return [(schema_id, None if indexes is None else indexes.tolist()) for schema_id, indexes in places.items()]


def test_the_largest_id_is_not_taken_for_a_mark() -> None:
    assert group_by_schema_id(binary([framed(2**32 - 1)])).groups == (Group(2**32 - 1, None, FRAME_BYTES),)
