"""One line an event."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path

import pytest

from frazil.cli import logs
from frazil.model.dead_letter import Reason


def line(level: int = logging.INFO, **fields: object) -> str:
    record = logging.LogRecord("frazil.x", level, __file__, 1, "committed", None, None)
    record.created = 0
    record.__dict__.update(fields)
    return logs.EventFormatter().format(record)


def test_an_event_is_a_name_and_its_fields() -> None:
    assert line(table="lake.orders", rows=5) == "1970-01-01T00:00:00Z committed table=lake.orders rows=5"


def test_each_line_of_a_run_has_its_id() -> None:
    with logs.lines_of_run("3f2a"):
        during = line(table="lake.orders")

    assert during == "1970-01-01T00:00:00Z committed table=lake.orders run=3f2a"
    assert line() == "1970-01-01T00:00:00Z committed"


def test_a_warning_says_so() -> None:
    assert line(logging.WARNING) == "1970-01-01T00:00:00Z warning committed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("two words", '"two words"'),
        ("", '""'),
        ("a\nb", r'"a\nb"'),
        (None, "none"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        (Path("a/b"), "a/b"),
        (Reason.BAD_KEY, "bad_key"),
        (["a", 1], "a,1"),
        ({"a": 1}, "<dict>"),
        (b"bytes", "<bytes>"),
    ],
)
def test_values_are_shown_by_an_allow_list_of_types(value: object, text: str) -> None:
    assert logs.shown("field", value) == text


def test_libraries_say_warnings_only() -> None:
    before = logging.getLogger().handlers[:], logging.getLogger().level

    logs.configure(__import__("sys").stderr)
    levels = [logging.getLogger(name).isEnabledFor(logging.INFO) for name in ("frazil.materialize", "botocore")]

    logging.getLogger().handlers[:], logging.getLogger().level = before
    assert levels == [True, False]
