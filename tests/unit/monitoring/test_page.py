"""The status page: what it says first, that it runs nothing, and that its plots have axes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from sample_page import HISTORIES, HOSTILE, KEYS, NOW, TABLES, TRANSFORMS, history, hostile, sample

from frazil.monitoring.axes import Window, scale_of, scale_of_seconds, short, size_words
from frazil.monitoring.history import TableHistory
from frazil.monitoring.markup import VOID, Markup, element, joined, with_code
from frazil.monitoring.page import status_page
from frazil.monitoring.plots import rejects_plot, sizes_plot, throughput_plot
from frazil.status import TableStatus


class Parsed(HTMLParser):
    """The elements of a page, its text, and whether each element is closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data + " "

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_the_page_loads_and_runs_nothing() -> None:
    page = Parsed(sample())
    tags = {tag for tag, _ in page.found}

    assert page.open == []
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert "http://" not in sample()
    assert "https://" not in sample()
    assert {each.get("http-equiv"): each.get("content") for each in page.of("meta")}["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'"
    )


def test_names_reasons_and_problems_of_strangers_are_text() -> None:
    benign, attacked = Parsed(sample()), Parsed(hostile())

    assert attacked.open == []
    assert {tag for tag, _ in attacked.found} <= {tag for tag, _ in benign.found}
    assert not [name for _, attributes in attacked.found for name in attributes if name.startswith("on")]
    assert all((each["href"] or "").startswith("#t") for each in attacked.of("a"))
    assert attacked.text.count(HOSTILE) >= 8
    assert "<script" not in hostile()


def test_what_needs_attention_comes_first_and_with_what_to_do() -> None:
    text = " ".join(Parsed(sample()).text.split())

    places = [text.index(f"lake.{name}") for name in ("refunds", "customers", "orders", "stock_trades")]
    assert places == sorted(places)
    first = text[: text.index("4 tables")]
    assert "paused by ann at 2026-01-31T09:30:00Z: a schema is checked first" in first
    assert "run frazil rebuild customers" in first
    assert "lake.orders behind by 90 min 48,211 records are unread" in first
    assert "frazil/dev/loader: its rotation is overdue" in first
    assert "stock_trades" not in first


def test_transformations_have_their_lag_and_the_halted_ones_are_at_the_top() -> None:
    text = " ".join(Parsed(sample()).text.split())

    first, second = text[: text.index("4 tables")], text[text.index("2 transformations") :]
    assert "others changed the table of the transformation by_city (append)" in first
    assert "frazil explain by_city shows what to do" in first
    assert "totals" not in first
    assert "totals lake.totals lake.stock_trades behind 70,000 41 s 8,123 101 s" in second
    assert "by_city lake.orders_by_city lake.orders in trouble ? ? 12 -" in second


@pytest.mark.parametrize(("seconds", "is_there"), [(899, False), (901, True)])
def test_a_transformation_that_is_late_needs_attention(seconds: int, is_there: bool) -> None:
    late = replace(TRANSFORMS[0], behind_since=NOW - timedelta(seconds=seconds))

    page = Parsed(status_page(TABLES[:1], HISTORIES, (), now=NOW, title="Tables", transforms=[late]))

    assert ("lacks 1 epoch" in page.text) == is_there
    assert ("No table needs attention." in page.text) != is_there


def test_a_page_without_trouble_says_so() -> None:
    text = Parsed(status_page(TABLES[:1], HISTORIES, KEYS[:1], now=NOW, title="Tables")).text

    assert "No table needs attention." in text


def test_kafka_that_does_not_answer_is_told_once() -> None:
    silent = [TableStatus(f"lake.{n}", epoch=1, kafka_problem="no broker answers; start it") for n in range(3)]

    text = Parsed(status_page(silent, {}, (), now=NOW, title="Tables")).text

    assert text.count("no broker answers") == 1


def test_details_of_many_healthy_tables_are_closed_until_they_are_clicked() -> None:
    many = [replace(TABLES[0], table=f"lake.t{n}") for n in range(8)] + [TABLES[1]]

    details = Parsed(status_page(many, {}, (), now=NOW, title="Tables")).of("details")

    assert ["open" in each for each in details] == [True] + [False] * 8
    assert details[0]["id"] == "t8"


def test_each_plot_has_a_title_with_its_unit_and_numbers_at_both_axes() -> None:
    page = Parsed(status_page(TABLES[:1], HISTORIES, (), now=NOW, title="Tables"))
    labels = [each["aria-label"] for each in page.of("svg")]
    texts = [each["class"] for each in page.of("text")]

    assert labels == [
        "Freshness: age of records when they became visible, in s",
        "Throughput: rows per second",
        "Rejects: new dead letters",
        "File sizes: newest data files up to so many bytes, those below 64 MB in orange",
    ]
    assert texts.count("y") >= 8
    assert sum((each or "").startswith("x") for each in texts) >= 8


def test_bars_add_up_to_all_rows_rejects_and_files() -> None:
    known, window = history(), Window.ending(NOW, begins=history().since)

    def shown(plot: str, pattern: str) -> int:
        return sum(int(count.replace(",", "")) for count in re.findall(pattern, plot))

    assert shown(throughput_plot(known, window), r": ([\d,]+) rows<") == sum(each.rows for each in known.batches)
    assert shown(rejects_plot(known, window), r"\d\d: ([\d,]+)<") == sum(each.records for each in known.rejects)
    sizes = sizes_plot(known)
    assert shown(sizes, r": ([\d,]+) files?,") == 2 * len(known.file_sizes)
    assert shown(sizes, r"files?, ([\d,]+) small") == 2 * sum(size < 64_000_000 for size in known.file_sizes)


def test_a_table_without_a_past_has_words_instead_of_plots() -> None:
    window = Window.ending(NOW, begins=None)

    assert "svg" not in throughput_plot(TableHistory(), window) + sizes_plot(TableHistory())
    assert "None in this time." in rejects_plot(TableHistory(), window)


def test_of_the_time_before_the_oldest_snapshot_nothing_is_said() -> None:
    """An erasure lets all snapshots expire but its own, which is no batch."""
    window = Window(NOW - timedelta(hours=1), NOW)
    erased = TableHistory(since=NOW - timedelta(minutes=10))

    begins = f"{NOW - timedelta(minutes=10):%d %b %H:%M}"
    assert f"No rows were added since {begins}, when the oldest snapshot" in throughput_plot(erased, window)
    assert f"None since {begins}" in rejects_plot(erased, window)


@pytest.mark.parametrize(
    ("ago", "words", "first", "last"),
    [
        (timedelta(minutes=3), "the last 15 min", "11:55", "12:10"),
        (timedelta(minutes=50), "the last 1 h", "11:15", "12:00"),
        (timedelta(hours=5), "the last 6 h", "08:00", "12:00"),
        (timedelta(hours=30), "the last 2 days", "00:00", "12:00"),
        (timedelta(days=6), "the last 7 days", "26 Jan", "30 Jan"),
        (timedelta(days=60), "the last 7 days", "26 Jan", "30 Jan"),
    ],
)
def test_a_window_is_as_short_as_the_past_allows(ago: timedelta, words: str, first: str, last: str) -> None:
    window = Window.ending(NOW, begins=NOW - ago)
    ticks = window.ticks()

    assert window.words == words
    assert (ticks[0][1], ticks[-1][1]) == (first, last)
    assert all(0 <= part <= 1 for part, _ in ticks)
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("greatest", [0.0, 0.4, 1, 3, 7, 59, 99.9, 100, 101, 5_000, 86_400, 1e9])
def test_a_scale_reaches_beyond_the_greatest_value_with_few_round_ticks(greatest: float) -> None:
    for scale in (scale_of(greatest), scale_of_seconds(greatest), scale_of(greatest, whole=True)):
        ticks = scale.ticks()

        assert scale.part(greatest) <= 1
        assert (ticks[0], ticks[-1][0]) == ((0.0, "0"), 1.0)
        assert 2 <= len(ticks) <= 5
        assert len({text for _, text in ticks}) == len(ticks)


def test_numbers_are_short_and_durations_have_the_largest_unit_that_fits() -> None:
    assert [short(value) for value in (0, 0.25, 950, 1_500, 20_000_000, 3e9)] == [
        "0",
        "0.25",
        "950",
        "1.5k",
        "20M",
        "3G",
    ]
    assert [scale_of_seconds(value).unit for value in (90, 300, 10_000, 400_000)] == ["s", "min", "h", "d"]
    assert [size_words(count) for count in (12, 64_000_000, 1_500_000_000)] == ["12 B", "64 MB", "1.5 GB"]


def test_markup_is_escaped_once_and_only_where_it_is_text() -> None:
    inner = element("b", "<&>", title='"<')

    assert inner == '<b title="&quot;&lt;">&lt;&amp;&gt;</b>'
    assert joined([inner, "<"]) == f"{inner}&lt;"
    assert element("p", inner, Markup("&nbsp;"), hidden=True, lang=None) == f"<p hidden>{inner}&nbsp;</p>"
    assert with_code("run `a<b` now") == "run <code>a&lt;b</code> now"
