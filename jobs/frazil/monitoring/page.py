"""One HTML page with the state and the past of tables. It needs no server and no script, and loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.key_status import KeyStatus
from frazil.model.moments import rfc3339
from frazil.model.spelling import age, plural, rate
from frazil.monitoring import page_transforms
from frazil.monitoring.axes import Window, size_words
from frazil.monitoring.history import TableHistory
from frazil.monitoring.markup import Markup, element, joined, with_code
from frazil.monitoring.plots import freshness_plot, rejects_plot, sizes_plot, throughput_plot
from frazil.monitoring.remarks import remarks
from frazil.monitoring.style import STYLE
from frazil.status import TableStatus
from frazil.transforms.standing import TransformStanding

LATE = timedelta(minutes=15)
"""A table that is behind needs attention if it lags by more."""

OPEN_TABLES = 6
"""A page with more tables shows the details of those that need attention, and the others when they are clicked."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser is to load and run nothing, whatever a name contains."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A table on the page. `level` says how much it needs attention: `bad`, `warn` or `good`."""

    status: TableStatus
    history: TableHistory
    anchor: str

    @property
    def level(self) -> str:
        if self.status.state in {"in trouble", "paused"}:
            return "bad"
        if self.status.state in {"no table", "lag unknown"} or self.is_late:
            return "warn"
        return "good"

    @property
    def is_late(self) -> bool:
        lag = self.status.lag_seconds
        return self.status.state == "behind" and (lag is None or lag > LATE.total_seconds())

    @property
    def remarks(self) -> Sequence[str]:
        """The remarks of `frazil status` on the table, without its name."""
        lines = (line.strip().removeprefix(f"{self.status.table}: ") for line in remarks([self.status]))
        return [line for line in lines if not line.startswith("lag is unknown: ")]


def status_page(
    found: Sequence[TableStatus],
    histories: Mapping[str, TableHistory],
    keys: Sequence[KeyStatus],
    *,
    now: datetime,
    title: str,
    transforms: Sequence[TransformStanding] = (),
) -> str:
    """Return the page. Tables that need attention are first. `histories` are by the names of tables."""
    tables = [Watched(each, histories.get(each.table, TableHistory()), f"t{n}") for n, each in enumerate(found)]
    tables.sort(key=lambda each: ("bad", "warn", "good").index(each.level))
    begins = min((each.history.since for each in tables if each.history.since is not None), default=None)
    window = Window.ending(now, begins=begins)
    body = (
        element("h1", title),
        element(
            "p", f"{rfc3339(now.replace(microsecond=0))} · times are UTC · plots show {window.words}", class_="when"
        ),
        *_attention(tables, keys, [*page_transforms.boxes(transforms, now=now, late=LATE)]),
        element("h2", plural(len(tables), "table").capitalize()),
        _overview(tables),
        *(_table(each, window, is_open=each.level != "good" or len(tables) <= OPEN_TABLES) for each in tables),
        *page_transforms.overview(transforms, now=now, late=LATE),
        *_keys(keys),
    )
    head = (
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def _attention(tables: Sequence[Watched], keys: Sequence[KeyStatus], transforms: Sequence[Markup]) -> Iterator[Markup]:
    """Yield a box for each thing that needs a person, or one that says that there is none."""
    silent = dict.fromkeys(each.status.kafka_problem for each in tables if each.status.kafka_problem)
    boxes = [
        *(_box("bad", [with_code(f"Kafka: {problem}")]) for problem in silent),
        *(_box(each.level, _what_is_wrong(each)) for each in tables if each.level != "good" and not _only_silent(each)),
        *transforms,
        *(_box("warn", [joined([key.secret, ": ", with_code(line)])]) for key in keys for line in key.warnings),
    ]
    yield from boxes or [_box("good", [joined(["No table needs attention."])])]


def _only_silent(table: Watched) -> bool:
    return table.status.state == "lag unknown" and table.status.kafka_problem is not None


def _what_is_wrong(table: Watched) -> Sequence[Markup]:
    lines = table.remarks or [f"{table.status.lag or 0:,} records are unread"]
    link = element("a", table.status.table, href=f"#{table.anchor}")
    return [joined([element("b", link), f" {_state(table)}"]), *(with_code(line) for line in lines)]


def _box(level: str, lines: Sequence[Markup]) -> Markup:
    return element("div", *(element("p", line) for line in lines), class_=f"box {level}")


def _state(table: Watched) -> str:
    """Return the state in words, such as `behind by 3 h`."""
    seconds = table.status.lag_seconds
    return f"behind by {age(seconds)}" if table.status.state == "behind" and seconds else table.status.state


def _badge(table: Watched) -> Markup:
    return element("span", _state(table), class_=f"badge {table.level}")


COLUMNS = (
    ("table", ""),
    ("state", ""),
    ("lag", "n"),
    ("age", "n"),
    ("rows/s", "n wide"),
    ("rows", "n wide"),
    ("dead letters", "n wide"),
)


def _overview(tables: Sequence[Watched]) -> Markup:
    head = element("tr", *(element("th", name, class_=kind or None) for name, kind in COLUMNS))
    rows = (
        element(
            "tr",
            *(element("td", cell, class_=kind or None) for cell, (_, kind) in zip(_cells(each), COLUMNS, strict=True)),
        )
        for each in tables
    )
    return element("table", element("thead", head), element("tbody", *rows))


def _cells(table: Watched) -> Sequence[str | Markup]:
    status = table.status
    return (
        element("a", status.table, href=f"#{table.anchor}"),
        element("span", status.state, class_=f"badge {table.level}"),
        "?" if status.lag is None else f"{status.lag:,}",
        "-" if status.age_seconds is None else age(status.age_seconds),
        "-" if status.throughput is None else rate(status.throughput.rows_per_second),
        "-" if status.rows is None else f"{status.rows:,}",
        f"{status.accounted.dead_letters:,}",
    )


def _table(table: Watched, window: Window, *, is_open: bool) -> Markup:
    status, history = table.status, table.history
    lines = table.remarks if table.level == "good" else ()  # others are at the top of the page
    notes = element("ul", *(element("li", with_code(line)) for line in lines)) if lines else Markup()
    if status.epoch is None:
        inside: tuple[Markup, ...] = (
            element("p", "The table does not exist, or its state cannot be read.", class_="none"),
        )
    else:
        figures = (element("div", element("dt", name), element("dd", value)) for name, value in _figures(status))
        plots = (
            freshness_plot(history, window, now_seconds=status.lag_seconds or None),
            throughput_plot(history, window),
            rejects_plot(history, window),
            sizes_plot(history),
        )
        inside = (element("dl", *figures), notes, element("div", *plots, class_="plots"))
    summary = element("summary", status.table, _badge(table))
    return element("details", summary, *inside, id=table.anchor, open=is_open)


def _figures(status: TableStatus) -> Iterator[tuple[str, str]]:
    through, last, files = status.complete_through, status.last_batch, status.files
    yield "Unread records", "unknown" if status.lag is None else f"{status.lag:,}"
    yield "Complete through", "not yet" if through is None else rfc3339(through.replace(microsecond=0))
    yield "Rows", "unknown" if status.rows is None else f"{status.rows:,}"
    if status.throughput is not None:
        yield "Rows/s, last hour", rate(status.throughput.rows_per_second)
    if last is not None:
        yield "Last batch", f"{plural(last.counts.read, 'record')} in {last.seconds:.1f} s"
    yield "Dead letters, skipped", f"{status.accounted.dead_letters:,}, {status.accounted.skipped:,}"
    if files is not None:
        yield "Data files", f"{files.data:,}, {size_words(files.bytes)} with deletes"
        yield "Small files", f"{files.small:,} of {files.examined:,}" if files.examined else "unknown"
        yield "Delete files", f"{files.deletes:,}, {plural(files.deleted_rows, 'row')}"
    if status.snapshots is not None:
        yield "Snapshots, epoch", f"{status.snapshots:,}, {status.epoch:,}"


def _keys(keys: Sequence[KeyStatus]) -> Iterator[Markup]:
    if not keys:
        return
    yield element("h2", "Keys")
    rows = (
        element(
            "tr",
            element("td", key.secret),
            element("td", key.state),
            element("td", "-" if key.age_seconds is None else age(key.age_seconds), class_="n"),
        )
        for key in keys
    )
    head = element("tr", element("th", "secret"), element("th", "state"), element("th", "age", class_="n"))
    yield element("table", element("thead", head), element("tbody", *rows))
