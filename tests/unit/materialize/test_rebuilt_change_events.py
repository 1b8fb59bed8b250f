"""A rebuild of a table of change events, whose topic was compacted (docs/decisions/0043)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream
from rebuilt_tables import rebuild

from frazil.model.errors import RecordsLostError
from tests.fakes.debezium_samples import UNAVAILABLE, Event, order, postgres


@pytest.mark.parametrize(
    ("first", "newest"),
    [
        (postgres("c", after=order(1, notes="x")), postgres("u", after=order(1, **UNAVAILABLE))),
        (postgres("c", after=order(1, notes="x")), postgres("u")),
    ],
    ids=["takes values", "keeps the row"],
)
def test_a_row_that_is_not_in_its_newest_event_alone_is_not_lost(tmp_path: Path, first: Event, newest: Event) -> None:
    stream: Any = ChangeStream.at(tmp_path)
    for event in (first, newest):
        stream.send(1, event)
        stream.catch_up()
    columns = [column.name for column in stream.view.columns]
    before = stream.rows(*columns)
    stream.world.gone.add(0)

    with pytest.raises(RecordsLostError, match=r"made of 2 records .* Kafka has 1 of them"):
        rebuild(stream).perform()

    assert len(before) == 1 and stream.rows(*columns) == before


def test_events_that_have_all_values_are_rebuilt_from_a_compacted_topic(tmp_path: Path) -> None:
    stream: Any = ChangeStream.at(tmp_path)
    for notes in ("x", "y"):
        stream.send(1, postgres("r", after=order(1, notes=notes)))
    stream.catch_up()
    stream.world.gone.add(0)

    rebuild(stream).perform()

    assert stream.rows("notes", "kafka_offset") == [("y", 1)]
    stream.verified()
