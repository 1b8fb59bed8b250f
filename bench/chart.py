"""A small line chart as SVG, so that a plot can be checked in as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 40, 74
COLOURS = ("#1f77b4", "#d62728", "#7f7f7f", "#2ca02c")


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: `lines` by name, each a sequence of (x, y); `scale` places x, and y begins at 0.

    `target` is a line across the chart, unless it is None.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    target: float | None
    top: float
    x_is: str = "commits so far"
    scale: Callable[[float], float] = log10


def svg(panels: Sequence[Panel]) -> str:
    """Return the panels side by side."""
    parts = [_panel(panel, n * WIDTH) for n, panel in enumerate(panels)]
    total = WIDTH * len(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{total}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>", ""])


def _panel(panel: Panel, left: int) -> str:
    xs = sorted({x for points in panel.lines.values() for x, _ in points})
    place = panel.scale
    out = [f'<g transform="translate({left},0)">', text(LEFT, 22, panel.title, size=13)]
    for x in xs:
        out += [text(_x(x, xs, place), HEIGHT - BOTTOM + 16, f"{x:,.0f}", anchor="middle")]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _y(share * panel.top, panel.top)
        out += [line(LEFT, y, WIDTH - RIGHT, y, "#dddddd"), text(LEFT - 6, y + 4, f"{share * panel.top:g}", "end")]
    if panel.target is not None:
        y = _y(panel.target, panel.top)
        out += [line(LEFT, y, WIDTH - RIGHT, y, "#2ca02c", "6 3"), text(LEFT + 4, y - 4, f"target {panel.target:g}")]
    for number, (name, points) in enumerate(panel.lines.items()):
        out += _drawn(points, xs, panel, COLOURS[number])
        out += [text(LEFT + number * 135, HEIGHT - 18, f"● {name}", colour=COLOURS[number])]
    out += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, panel.x_is, anchor="middle"), "</g>"]
    return "\n".join(out)


def _drawn(given: Sequence[tuple[float, float]], xs: Sequence[float], panel: Panel, colour: str) -> list[str]:
    """Points beyond the top are drawn at it, with their value."""
    top = panel.top
    points = [(_x(x, xs, panel.scale), _y(min(y, top), top)) for x, y in given]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    beyond = [
        text(_x(x, xs, panel.scale), _y(top, top) - 5, f"{y:,.3g}", "end", colour=colour) for x, y in given if y > top
    ]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots, *beyond]


def _x(value: float, xs: Sequence[float], place: Callable[[float], float]) -> float:
    low, high = place(xs[0]), place(xs[-1])
    return LEFT + 22 + (place(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT - 44)


def _y(value: float, top: float) -> float:
    return TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "none") -> str:
    at = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {at} stroke="{colour}" stroke-dasharray="{dashes}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", *, size: int = 11, colour: str = "#333333") -> str:
    at = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {at}>{words}</text>"
