"""Bar charts as SVG: horizontal bars, whole or stacked, in panels side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bench.chart import WIDTH, line, text

LEFT, RIGHT, TOP = 140, 76, 44
BAR, GAP = 26, 14
LEGEND = 34
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#bbbbbb")
"""Of the parts of a panel, in the order in which they first occur."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One panel: for each bar its parts by name, whose lengths add up; a part has the same colour in all bars."""

    title: str
    parts_of: Mapping[str, Mapping[str, float]]
    unit: str
    """How a total is written, as a format: "{:,.0f}"."""

    @property
    def longest(self) -> float:
        return max(sum(parts.values()) for parts in self.parts_of.values())

    @property
    def part_names(self) -> list[str]:
        return list(dict.fromkeys(name for parts in self.parts_of.values() for name in parts))


def svg(panels: Sequence[Bars]) -> str:
    """Return the panels side by side."""
    height = TOP + max(len(panel.parts_of) for panel in panels) * (BAR + GAP) + LEGEND
    total = WIDTH * len(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" font-family="sans-serif">'
    drawn = [_panel(panel, number * WIDTH, height) for number, panel in enumerate(panels)]
    return "\n".join([head, f'<rect width="{total}" height="{height}" fill="white"/>', *drawn, "</svg>", ""])


def _panel(panel: Bars, left: int, height: int) -> str:
    out = [f'<g transform="translate({left},0)">', text(14, 24, escape(panel.title), size=13)]
    out += [line(LEFT, TOP - 8, LEFT, height - LEGEND, "#999999")]
    for number, (name, parts) in enumerate(panel.parts_of.items()):
        out += _bar(panel, name, parts, TOP + number * (BAR + GAP))
    return "\n".join([*out, *_legend(panel, height), "</g>"])


def _bar(panel: Bars, name: str, parts: Mapping[str, float], top: int) -> list[str]:
    scale = (WIDTH - LEFT - RIGHT) / panel.longest
    out, at = [text(LEFT - 8, top + BAR / 2 + 4, escape(name), "end")], float(LEFT)
    for part, value in parts.items():
        colour = COLOURS[panel.part_names.index(part)]
        out += [f'<rect x="{at:.1f}" y="{top}" width="{value * scale:.1f}" height="{BAR}" fill="{colour}"/>']
        at += value * scale
    return [*out, text(at + 6, top + BAR / 2 + 4, panel.unit.format(sum(parts.values())))]


def _legend(panel: Bars, height: int) -> list[str]:
    names = panel.part_names
    if len(names) == 1:
        return []
    step = (WIDTH - 28) / len(names)
    return [
        text(14 + number * step, height - 12, f"■ {escape(name)}", colour=COLOURS[number])
        for number, name in enumerate(names)
    ]
