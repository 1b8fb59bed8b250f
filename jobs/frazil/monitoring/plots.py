"""The plots of a table's history, as figures of inline SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from frazil.model.spelling import plural
from frazil.monitoring.axes import Scale, Window, scale_of, scale_of_seconds, size_words
from frazil.monitoring.history import TableHistory
from frazil.monitoring.markup import Markup, element, joined

WIDTH, HEIGHT = 320, 150
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 24
BINS = 48
SIZES = (("10k", 10**4), ("100k", 10**5), ("1M", 10**6), ("10M", 10**7), ("100M", 10**8), ("1G", 10**9))
"""The upper bounds in bytes of the sizes of files that are counted together; larger files come last."""

Ticks = Sequence[tuple[float, str]]


def freshness_plot(history: TableHistory, window: Window, *, now_seconds: float | None) -> Markup:
    """Plot the delay of each batch; `now_seconds` is the lag at the end of the window, None if there is none."""
    delays = ((each.at, each.delay_seconds) for each in history.batches if each.delay_seconds is not None)
    points = list(_in_bins(delays, window))
    if now_seconds is not None:
        points.append((1.0, now_seconds))
    scale = scale_of_seconds(max((value for _, value in points), default=0.0))
    about = f"Freshness: age of records when they became visible, in {scale.unit}"
    if not points:
        return _without_plot(about, f"No batch {_known(history, window)}.")
    places = [(_x(part), _y(scale.part(value))) for part, value in points]
    line = element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_="line")
    dots = (element("circle", cx=round(x, 1), cy=round(y, 1), r=2, class_="dot") for x, y in places)
    return _figure(about, _axes(scale.ticks(), window.ticks()), line, *dots)


def throughput_plot(history: TableHistory, window: Window) -> Markup:
    rows = _summed(((each.at, each.rows) for each in history.batches), window)
    seconds = window.seconds / BINS
    rates = {number: count / seconds for number, count in rows.items()}
    scale = scale_of(max(rates.values(), default=0.0))
    about = "Throughput: rows per second"
    if not rates:
        return _without_plot(about, f"No rows were added {_known(history, window)}.")
    bars = _bars(rates, scale, "bar", lambda number: f"{_time(window, number)}: {rows[number]:,} rows")
    return _figure(about, _axes(scale.ticks(), window.ticks()), *bars)


def rejects_plot(history: TableHistory, window: Window) -> Markup:
    counts = _summed(((each.at, each.records) for each in history.rejects), window)
    scale = scale_of(max(counts.values(), default=0), whole=True)
    about = "Rejects: new dead letters"
    if not counts:
        return _without_plot(about, f"None {_known(history, window)}.")
    bars = _bars(counts, scale, "bar reject", lambda number: f"{_time(window, number)}: {counts[number]:,}")
    return _figure(about, _axes(scale.ticks(), window.ticks()), *bars)


def sizes_plot(history: TableHistory) -> Markup:
    """Plot how many of the newest files have which size; small ones have another colour."""
    if not history.file_sizes:
        return _without_plot("File sizes: newest data files", "No data files.")
    about = (
        f"File sizes: newest data files up to so many bytes, those below {size_words(history.small_bytes)} in orange"
    )
    every = Counter(map(_size_class, history.file_sizes))
    small = Counter(_size_class(size) for size in history.file_sizes if size < history.small_bytes)
    scale = scale_of(max(every.values()), whole=True)
    names = [*(name for name, _ in SIZES), "more"]
    ticks = [((n + 0.5) / len(names), name) for n, name in enumerate(names)]
    bars = []
    for number, count in every.items():
        title = f"{_range(number)}: {plural(count, 'file')}, {small[number]:,} small"
        place = (number + 0.12) / len(names), (number + 0.88) / len(names)
        bars.append(_bar(*place, scale.part(count), "bar size", title))
        bars.append(_bar(*place, scale.part(small[number]), "bar small", title))
    return _figure(about, _axes(scale.ticks(), ticks), *bars)


def _range(number: int) -> str:
    """Return the sizes of a class: `1M to 10M bytes`."""
    if number == len(SIZES):
        return f"{SIZES[-1][0]} bytes and more"
    return f"{SIZES[number - 1][0] if number else 0} to {SIZES[number][0]} bytes"


def _size_class(size: int) -> int:
    return next((n for n, (_, bound) in enumerate(SIZES) if size < bound), len(SIZES))


def _time(window: Window, number: int) -> str:
    start, end = window.at(number / BINS), window.at((number + 1) / BINS)
    return f"{start:%d %b %H:%M} to {end:%H:%M}"


def _known(history: TableHistory, window: Window) -> str:
    """Return of which part of the window the retained snapshots know."""
    since = history.since
    if since is None or since <= window.start:
        return "in this time"
    return f"since {since:%d %b %H:%M}, when the oldest snapshot that is kept was made"


def _in_bins(values: Iterable[tuple[datetime, float]], window: Window) -> Iterator[tuple[float, float]]:
    """Yield the greatest value of each part of the window that has one, at its own time."""
    found: dict[int, tuple[float, float]] = {}
    for at, value in values:
        part = window.part(at)
        if 0 <= part <= 1:
            number = min(int(part * 2 * BINS), 2 * BINS - 1)
            if number not in found or value >= found[number][1]:
                found[number] = (part, value)
    yield from (found[number] for number in sorted(found))


def _summed(values: Iterable[tuple[datetime, int]], window: Window) -> Mapping[int, int]:
    sums: Counter[int] = Counter()
    for at, value in values:
        part = window.part(at)
        if value and 0 <= part <= 1:
            sums[min(int(part * BINS), BINS - 1)] += value
    return sums


def _bars(values: Mapping[int, float], scale: Scale, kind: str, title: Callable[[int], str]) -> Iterator[Markup]:
    for number, value in sorted(values.items()):
        yield _bar((number + 0.1) / BINS, (number + 0.9) / BINS, scale.part(value), kind, title(number))


def _bar(start: float, end: float, part: float, kind: str, title: str) -> Markup:
    """Return a bar between two places; one of a small value is still visible."""
    height = max(part * (HEIGHT - TOP - BOTTOM), 1.5) if part else 0.0
    return element(
        "rect",
        element("title", title),
        x=round(_x(start), 1),
        y=round(HEIGHT - BOTTOM - height, 1),
        width=round(_x(end) - _x(start), 1),
        height=round(height, 1),
        class_=kind,
    )


def _axes(vertical: Ticks, horizontal: Ticks) -> Markup:
    lines = [
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_y(part), y2=_y(part), class_="grid") for part, _ in vertical
    ]
    left = [element("text", text, x=LEFT - 5, y=round(_y(part) + 3.5, 1), class_="y") for part, text in vertical]
    below = [
        element("text", text, x=round(_x(part), 1), y=HEIGHT - BOTTOM + 15, class_=_side(part))
        for part, text in horizontal
    ]
    return joined([*lines, *left, *below])


def _side(part: float) -> str:
    """Return the class of a text that must not reach beyond the plot."""
    return "x first" if part < 0.02 else "x last" if part > 0.97 else "x"


def _figure(about: str, *parts: Markup) -> Markup:
    drawn = element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=about)
    return element("figure", element("figcaption", _title(about)), drawn)


def _without_plot(about: str, why: str) -> Markup:
    return element("figure", element("figcaption", _title(about)), element("p", why, class_="none"))


def _title(about: str) -> Markup:
    name, _, rest = about.partition(": ")
    return joined([element("b", name), f" {rest}"])


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _y(part: float) -> float:
    return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 1)
