"""Frazil against Structured Streaming over topics of other shapes: a section of RESULTS.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bench.comparison import cpu, wall
from bench.shapes import SHAPES, WARM_UP, Shape, fill, remove
from bench.subjects import FRAZIL, SPARK, Run, drain
from frazil.local.supervisor import LocalServices

TITLE = "Records and topics of other shapes"
SETUP = (
    "Frazil against plain Structured Streaming, in one process each that drains all topics one after the other. The"
    " first topic, of orders, is drained before and not counted, so that the JVM has compiled its code. A topic has at"
    " most 240 MB of values, so some have fewer rows; the rows are drawn from 20,000 different ones. 5, 20 and 100"
    " columns are numbers and strings of 12 characters; 100 B, 1 KB and 10 KB are 5 columns, two of them long strings;"
    " the rest are the orders of the main comparison. Contents of both tables are compared as there."
)


def run_shapes(services: LocalServices, rows: int) -> Mapping[str, tuple[Run, Run]]:
    """Return for each shape what it cost Frazil, and what it cost the peer."""
    shapes = (WARM_UP, *SHAPES)
    remove(services, shapes)
    for shape in shapes:
        print(f"filling the topic of {shape.name} with {fill(services, shape, rows):,} records", file=sys.stderr)
    topics = [shape.topic for shape in shapes]
    ours, theirs = (drain(system, services, topics) for system in (FRAZIL, SPARK))
    remove(services, shapes)
    return {s.name: pair for s, pair in zip(shapes, zip(ours, theirs, strict=True), strict=True) if s in SHAPES}


def report(found: Mapping[str, tuple[Run, Run]], shapes: tuple[Shape, ...] = SHAPES) -> str:
    wrong = [shape.name for shape in shapes if not are_equal(*found[shape.name])]
    checked = f"**The tables differ for {', '.join(wrong)}.**" if wrong else "All pairs of tables are equal."
    return "\n".join(
        [
            f"{SETUP} {checked}",
            "",
            "| topic | rows | Frazil, rows per CPU-second | Structured Streaming | ratio, CPU | ratio, wall |",
            "|---|---|---|---|---|---|",
            *(_row(shape.name, *found[shape.name]) for shape in shapes),
        ]
    )


def are_equal(ours: Run, theirs: Run) -> bool:
    return ours.contents.rows == theirs.contents.rows and not theirs.contents.different_from(ours.contents)


def _row(name: str, ours: Run, theirs: Run) -> str:
    return (
        f"| {name} | {ours.cost.rows:,} | {cpu(ours.cost):,.0f} | {cpu(theirs.cost):,.0f}"
        f" | **{cpu(ours.cost) / cpu(theirs.cost):.2f}** | {wall(ours.cost) / wall(theirs.cost):.2f} |"
    )
