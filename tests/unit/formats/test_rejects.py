"""Rejects as columns behave as a sequence of rejects."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.connect_json.embedded import group_by_embedded_schema
from frazil.formats.framing import Grouping, group_by_schema_id
from frazil.formats.glue_framing import group_by_version_id
from frazil.formats.rejects import NO_REJECTS, Rejects, rejected
from frazil.model.dead_letter import Reason, Reject
from frazil.records import Headers, binary

REJECTS = st.lists(
    st.builds(Reject, st.integers(0, 9), st.sampled_from(Reason), st.sampled_from(["", "a", "ü"]), st.text(max_size=2))
)


@given(REJECTS)
def test_columns_hold_the_rejects_that_they_are_made_of(rejects: list[Reject]) -> None:
    columns = Rejects.of(rejects)

    assert (list(columns), len(columns), bool(columns)) == (rejects, len(rejects), bool(rejects))
    assert [columns[place] for place in range(len(rejects))] == rejects
    assert columns[1:] == rejects[1:]
    assert (columns == tuple(rejects), tuple(rejects) == columns) == (True, True)
    assert rejected(columns).tolist() == rejected(rejects).tolist() == [each.index for each in rejects]


@given(st.lists(REJECTS))
def test_joined_rejects_are_those_of_all_parts(parts: list[list[Reject]]) -> None:
    assert list(Rejects.joined(parts)) == list(chain.from_iterable(parts))


@given(REJECTS)
def test_of_several_rejects_of_a_payload_the_last_one_is_left(rejects: list[Reject]) -> None:
    last = {reject.index: reject for reject in rejects}

    assert list(Rejects.of(rejects).in_order()) == [last[index] for index in sorted(last)]


@given(REJECTS)
def test_rejects_among_other_payloads_have_their_indexes(rejects: list[Reject]) -> None:
    others = np.arange(20, 40, 2)

    assert list(Rejects.of(rejects).among(others)) == [each.at(int(others[each.index])) for each in rejects]
    assert list(Rejects.of(rejects).among(None)) == rejects


def test_rejects_differ_from_other_rejects_and_from_what_is_no_sequence() -> None:
    one = Rejects.of([Reject(1, Reason.BAD_UTF8, "a")])

    assert (one == [Reject(2, Reason.BAD_UTF8, "a")], one == NO_REJECTS, one == 1) == (False, False, False)


def test_payloads_that_are_refused_for_the_same_thing() -> None:
    found = Rejects.alike(np.array([2, 5]), Reason.NOT_FRAMED, "too short")

    assert found == [Reject(2, Reason.NOT_FRAMED, "too short"), Reject(5, Reason.NOT_FRAMED, "too short")]
    assert Rejects.alike((), Reason.NULL_VALUE, "the value is null") == ()


@pytest.mark.parametrize("group", [group_by_schema_id, group_by_version_id, group_by_embedded_schema])
def test_values_without_a_schema_are_refused_as_columns(group: Grouping) -> None:
    found = group(binary([b"no frame", None, b"x"]), Headers.of([[]] * 3)).unframed

    assert isinstance(found, Rejects)
    assert sorted(found.indexes.tolist()) == [0, 2]
