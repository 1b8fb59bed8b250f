"""The benchmark's picture, and the costs of Frazil's stages: bench/peers.svg and a section of RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.bars import Bars, svg
from bench.comparison import SYSTEMS, Target, cpu, median
from bench.subjects import FRAZIL, Run

PICTURE = Path(__file__).parent / "peers.svg"
STAGES_TITLE = "Stages"
STAGE_TARGET = 65
NATIVE_STAGES = {"fetch": "fetch, native", "decode": "decode, native", "encode": "encode"}


def draw(runs: Sequence[Run], stages: Mapping[str, float]) -> None:
    """Write the picture: rows per CPU-second by system, and where the microseconds go."""
    by_system = {system.name: {"rows": median(system.name, runs, cpu)} for system in SYSTEMS}
    micros = {name: {"all stages": 1e6 / parts["rows"]} for name, parts in by_system.items()}
    micros[FRAZIL.name] = split(micros[FRAZIL.name]["all stages"], stages)
    panels = (
        Bars("Rows per CPU-second (more is better)", by_system, "{:,.0f}"),
        Bars("CPU microseconds a row (less is better)", micros, "{:.1f} µs"),
    )
    PICTURE.write_text(svg(panels), encoding="utf-8")


def split(whole: float, stages: Mapping[str, float]) -> dict[str, float]:
    """Return the microseconds of the stages alone, and the rest of the whole; none if the stages alone cost more."""
    alone = {stage: stages[name] for stage, name in NATIVE_STAGES.items()}
    return {**alone, "the rest": max(0.0, whole - sum(alone.values()))}


def stages_report(stages: Mapping[str, float], runs: Sequence[Run]) -> str:
    alone = sum(stages[name] for name in NATIVE_STAGES.values())
    lines = [
        "CPU microseconds a row of each stage alone, in one process, 20 columns; the least of three runs.",
        "",
        *(f"- {name}: {value:.2f}" for name, value in stages.items()),
        f"- native fetch + native decode + encode: {alone:.2f}",
    ]
    if not runs:
        return "\n".join(lines)
    whole = 1e6 / median(FRAZIL.name, runs, cpu)
    share = Target("stages alone, as a share of all of Frazil", STAGE_TARGET, 100 * alone / whole, " %")
    table = ["", "| Frazil's measure | target | found | met |", "|---|---|---|---|", str(share)]
    return "\n".join([*lines, f"- Frazil, all of it, 25 columns: {whole:.2f}", *table])
