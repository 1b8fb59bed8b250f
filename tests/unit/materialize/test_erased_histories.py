"""Erasures from histories and from change events: by the identity, all versions of a row are taken out together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from change_streams import ChangeStream
from erased_tables import erase
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Stamped
from policed_tables import HASH_KEY
from rebuilt_tables import rebuild
from test_ordered_histories import OrderedHistory

from frazil.model.change_events import ChangeEvents
from frazil.model.errors import ErasureError
from tests.fakes.debezium_samples import UNAVAILABLE, order, postgres
from tests.sampling import examples


def test_all_versions_of_a_key_are_erased_and_stay_so_in_a_rebuild(tmp_path: Path) -> None:
    log = OrderedHistory.at(tmp_path, erasure_key=HASH_KEY)
    log.send_at(("a", 1, 10, 0), ("b", 2, 20, 1), ("a", 3, 13, 0), ("a", None, 16, 1))
    log.catch_up()

    done = erase(log, "a")
    rebuild(cast(Any, log)).perform()

    assert (done.rows, done.is_complete, done.no_hash) == (2, True, "")
    assert [key for key, versions in log.stored().items() if versions] == ["b"]
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


@given(steps=st.lists(st.lists(STAMPED, min_size=1, max_size=6) | st.sampled_from("abc"), min_size=2, max_size=6))
@settings(max_examples=examples(2, 100), deadline=None)
def test_any_records_and_erasures_leave_the_versions_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Stamped] | str]
) -> None:
    log = OrderedHistory.at(tmp_path_factory.mktemp("log"), erasure_key=HASH_KEY)
    log.send_at(("a", 1, 10, 0), ("b", 1, 5, 1))
    log.catch_up()
    for step in steps:
        if isinstance(step, str):
            erase(log, step)
            log.sent = {
                key: left for key, records in log.sent.items() if (left := [r for r in records if key != step or r[1]])
            }
        else:
            log.send_at(*step)
            log.catch_up()
        log.check()
    assert log.against_kafka().findings == ()
    before = log.stored()

    rebuild(cast(Any, log)).perform()

    assert log.stored() == before
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


def test_a_column_that_is_not_the_identity_is_refused(tmp_path: Path) -> None:
    log = OrderedHistory.at(tmp_path)
    log.send_at(("a", 1, 10, 0))
    log.catch_up()

    with pytest.raises(ErasureError, match="erase by the identity, kafka_key, and value is not in it"):
        erase(log, "1", "value")


@pytest.mark.parametrize(("form", "soft"), [("avro", False), ("json", True)])
def test_a_key_of_change_events_is_erased_with_what_later_events_would_take(
    tmp_path: Path, form: str, soft: bool
) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=soft), form, erasure_key=HASH_KEY)
    stream.send(1, postgres("c", after=order(1)))
    stream.send(2, postgres("c", after=order(2)))
    stream.send(1, postgres("u", after=order(1, **UNAVAILABLE)))
    stream.send(3, postgres("d", before=order(3)))
    stream.catch_up()
    done = erase(stream, "1", "kafka_key.id")
    kept = stream.rows("id")
    stream.send(1, postgres("u", after=order(1, **UNAVAILABLE)))
    stream.catch_up()
    after = stream.rows("id", "notes")

    rebuild(cast(Any, stream)).perform()

    assert (done.rows, done.no_hash) == (1, "")
    assert (1,) not in kept
    assert after[0] == (1, None)  # no row has the value that the later event lacks
    assert stream.rows("id", "notes") == after
    stream.verified()
