"""Tables of results: they fit the width by dropping columns, and names stay whole."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from frazil.cli.columns import Column, fitting, show
from frazil.cli.printed_errors import print_error
from frazil.cli.query import show_on_screen
from frazil.cli.screen import print_lines
from frazil.cli.status import _show, overview
from frazil.materialize.pause.pausing import Pause
from frazil.model.errors import CatalogError
from frazil.model.progress import Counts
from frazil.monitoring.remarks import remarks
from frazil.status import LastBatch, PartitionLag, TableStatus

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORDERS = TableStatus(
    "lake.a_rather_long_name_of_a_table",
    epoch=1_234,
    rows=123_456_789,
    counts=Counts(read=123_456_789, rows=123_456_789),
    partitions=(PartitionLag("orders", 0, 5, 9),),
    complete_through=AT,
    age_seconds=90.0,
    last_batch=LastBatch(AT, "b", Counts(read=5_000_000), 12.3, 1),
)


def printed(capsys: pytest.CaptureFixture[str], *, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    show(overview([ORDERS, replace(ORDERS, table="lake.b")]))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_status_fits_the_width_and_keeps_names_whole(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, width=width, monkeypatch=monkeypatch)

    assert max(map(len, lines)) <= width
    assert lines[1].startswith("lake.a_rather_long_name_of_a_table  behind  ")
    assert ("epoch" in lines[0]) is (width == 200)
    assert "lag" in lines[0]


def test_a_name_that_is_wider_than_the_width_stays_whole() -> None:
    name, lag = Column("table", ("x" * 50,), is_number=False), Column("lag", ("7",), rank=1)

    assert fitting([name, lag], 20) == [name]


def test_a_pause_and_what_to_do_are_two_lines() -> None:
    paused = replace(ORDERS, table="lake.a", pause=Pause("ann", "2026-01-31", "a test", hint="wait"))

    assert list(remarks([paused])) == ["lake.a: paused by ann at 2026-01-31: a test", "    hint: wait"]


def test_partitions_are_shown_for_named_tables_only(capsys: pytest.CaptureFixture[str]) -> None:
    _show([ORDERS], partitions_of_each=False)
    assert "next offset" not in capsys.readouterr().out

    _show([ORDERS], partitions_of_each=True)
    assert "partition  next offset  end  lag\norders-0             5    9    4\n" in capsys.readouterr().out


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    no_color: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("TERM", "dumb")

    show([Column("table", ("lake.a",), is_number=False), Column("state", ("paused",), is_number=False)])

    assert ("\x1b[31m" in capsys.readouterr().out) is not no_color


class Screen(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def as_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Make stdout a terminal; pytest sets its own after fixtures."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    made = Screen()
    monkeypatch.setattr(sys, "stdout", made)
    return made


def test_a_query_leaves_out_columns_that_do_not_fit_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = as_screen(monkeypatch)
    names = [f"a_rather_long_name_{n}" for n in range(5)]
    rows = [tuple(range(5)), ("x" * 100, *range(4))]

    said = show_on_screen(names, rows, numeric=[False] + [True] * 4)

    assert said == (
        2,
        ", 2 of 5 columns fit the terminal, long values are shortened; --json and --csv print everything",
    )
    assert [line.rstrip() for line in screen.getvalue().splitlines()] == [
        "a_rather_long_name_0                     a_rather_long_name_1",
        "0                                                           1",
        f"{'x' * 38}…                     0",
    ]


def test_a_query_that_fits_has_no_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = as_screen(monkeypatch)
    assert show_on_screen(["n"], [(1,)], numeric=[True]) == (1, "")
    assert show_on_screen(["text"], [("x" * 80,)], numeric=[False]) == (1, "")
    assert max(map(len, screen.getvalue().splitlines())) == 80


def test_lines_are_broken_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = as_screen(monkeypatch)
    line = "  " + "word " * 15 + "`frazil resume lake.orders --dead-letter-schema 2`"
    pipe = io.StringIO()

    print_lines([line, "short"], screen)
    print_lines([line, "short"], pipe)

    assert screen.getvalue().splitlines() == [
        "  " + " ".join(["word"] * 15),
        "    `frazil resume lake.orders --dead-letter-schema 2`",
        "short",
    ]
    assert pipe.getvalue().splitlines() == [line, "short"]


def test_errors_are_broken_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    as_screen(monkeypatch)
    stderr = Screen()
    monkeypatch.setattr(sys, "stderr", stderr)
    hint = "run `frazil doctor --application 00f1234567890` and then " + "read what it says " * 3

    print_error(CatalogError("the catalog does not answer " * 4, hint=hint.strip()))

    lines = [line.rstrip() for line in stderr.getvalue().splitlines()]
    assert lines[0].startswith("CatalogError: the catalog")
    assert max(map(len, lines)) <= 80
    assert lines[3:] == [
        "hint: run `frazil doctor --application 00f1234567890` and then read what it says",
        "  read what it says read what it says",
    ]


def test_a_partition_stays_with_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = as_screen(monkeypatch)

    print_lines(["  offsets " + ", ".join(f"stock_trades-{n} [1000, 2000)" for n in range(3))], screen)

    assert screen.getvalue().splitlines() == [
        "  offsets stock_trades-0 [1000, 2000), stock_trades-1 [1000, 2000),",
        "    stock_trades-2 [1000, 2000)",
    ]
