"""Draw the memory of Frazil's processes over the batches of `bench.upserts`."""

from __future__ import annotations

from pathlib import Path

from bench.chart import Panel, svg
from bench.updates import Updates

CHART = Path("bench/upserts.svg")
POINTS = 10


def draw(updates: Updates) -> None:
    """Write the chart. Each point is the largest size at the end of a batch, of a tenth of the batches."""
    part = max(len(updates.memory) // POINTS, 1)
    parts = [updates.memory[at : at + part] for at in range(0, len(updates.memory), part)]
    lines = {
        kind: [
            (float((number + 1) * part), float(max(each[kind] for each in sizes))) for number, sizes in enumerate(parts)
        ]
        for kind in ("driver", "JVM", "worker")
    }
    highest = max(size for points in lines.values() for _, size in points)
    top = -(-highest // 200) * 200
    panel = Panel("Resident megabytes at the end of a batch", lines, None, top, x_is="batches so far", scale=float)
    CHART.write_text(svg([panel]), encoding="utf-8")
