"""Values are sorted by the schema id that they start with."""

from __future__ import annotations

import random

import pytest

from frazil.formats import framing
from frazil.formats.framing import Framed, Group, group_by_schema_id, read_schema_ids, schema_ids
from frazil.model.dead_letter import Reason, Reject


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


@pytest.fixture(params=["native", "python"], autouse=True)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(framing, "native_available", lambda: False)
    elif not framing.native_available():
        pytest.skip("the native module is not built here (make setup builds it)")


def test_one_schema_id_means_all_values_in_order() -> None:
    assert group_by_schema_id([framed(7), framed(7, b"")]) == Framed((Group(7, None),), (), ())


def test_every_index_is_in_one_place() -> None:
    sorted_values = group_by_schema_id([framed(2), None, b"", framed(1), b"\x01\0\0\0\x02x", framed(2), b"\0\0\0\0"])

    indexes = {group.schema_id: group.indexes.to_pylist() for group in sorted_values.groups if group.indexes}
    assert indexes == {2: [0, 5], 1: [3]}
    assert sorted_values.nulls == (1,)
    not_zero = "starts with byte 1, expected 0: was it written without a schema registry's serializer?"
    assert sorted_values.unframed == (
        Reject(2, Reason.NOT_FRAMED, "0 bytes, expected a header of 5"),
        Reject(4, Reason.NOT_FRAMED, not_zero),
        Reject(6, Reason.NOT_FRAMED, "4 bytes, expected a header of 5"),
    )


def test_a_text_that_is_no_avro_shows_its_first_character() -> None:
    (reject,) = group_by_schema_id([b"no avro at all"]).unframed

    assert reject.detail.startswith('starts with byte 110 ("n"), expected 0')


def test_nothing_but_nulls_makes_no_group() -> None:
    assert group_by_schema_id([None, None]) == Framed((), (0, 1), ())
    assert group_by_schema_id([]) == Framed((), (), ())


def test_the_twins_agree() -> None:
    rng = random.Random(3)
    values = [rng.choice([None, rng.randbytes(rng.randrange(8)), b"\0" + rng.randbytes(6)]) for _ in range(5000)]

    assert schema_ids(values).to_pylist() == list(read_schema_ids(values))


def test_the_largest_id_is_not_taken_for_a_mark() -> None:
    assert group_by_schema_id([framed(2**32 - 1)]).groups == (Group(2**32 - 1, None),)
