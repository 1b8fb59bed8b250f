"""The sample of sales events has the duplicates, late events and bad records that it reports."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from frazil.local.sales_channel import records, schema_text, sent, truth

SCHEMA = fastavro.parse_schema(json.loads(schema_text()))


def decoded(value: bytes) -> str | None:
    """The id of the event, or None if the bytes are none."""
    if value[:5] != b"\0\0\0\0\7":
        return None
    try:
        return str(fastavro.schemaless_reader(io.BytesIO(value[5:]), SCHEMA, None)["event_id"])
    except (EOFError, IndexError, ValueError):
        return None


def test_the_records_are_the_truth_about_them() -> None:
    ids = [decoded(value) for _, value in records(2_000, seed=3, schema_id=7)]

    known = truth(2_000, seed=3)
    found = [each for each in ids if each is not None]
    assert set(found) == set(known.events)
    assert len(ids) - len(found) == known.malformed
    assert len(found) - len(set(found)) == known.again
    assert min(known.malformed, known.again, known.late) > 20


def test_an_event_that_is_sent_again_is_the_same_event() -> None:
    first = truth(2_000, seed=3).events

    assert all(each.event == first[each.event["event_id"]] for each in sent(2_000, seed=3) if each.event is not None)


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_more_rows_continue_the_same_records(rows: int) -> None:
    longer = records(500, seed=1, schema_id=1)

    assert list(records(rows, seed=1, schema_id=1)) == [next(longer) for _ in range(rows)]
