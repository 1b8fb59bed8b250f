"""How long does the search for doubled identities take, and how much memory, as a table grows?

The search alone, of random identities with three doubled ones, in a process for each size. Prints a table in Markdown
for the section "Doubled keys" of bench/RESULTS.md.

Usage: python -m bench.doubled_identities [--rows N...]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np

from frazil.verify.by_identity import counted
from frazil.verify.spilled import SpilledIdentities

BATCH = 100_000
DOUBLED = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.doubled_identities", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 30_000_000, 100_000_000])
    parser.add_argument("--one", type=int, help="search this many identities in this process")
    asked = parser.parse_args()
    if asked.one:
        print(search(asked.one))
        return
    print("| identities | parts | CPU seconds | seconds | peak, MB | before, MB |\n|---|---|---|---|---|---|")
    for rows in asked.rows:
        command = [sys.executable, "-m", "bench.doubled_identities", "--one", str(rows)]
        print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, end="", flush=True)


def search(rows: int) -> str:
    """Return a line of the table. The time to make random identities is not counted."""
    random, before, cpu, seconds = np.random.default_rng(rows), _peak_mb(), 0.0, 0.0
    with SpilledIdentities(rows=rows) as spilled:
        for done in range(0, rows, BATCH):
            batch = random.integers(-(2**63), 2**63 - 1, (2, min(BATCH, rows - done)))
            if not done:
                repeated = batch[:, :DOUBLED].copy()
            elif done + BATCH >= rows:
                batch[:, :DOUBLED] = repeated
            began = time.process_time(), time.monotonic()
            spilled.add(*batch)
            cpu, seconds = cpu + time.process_time() - began[0], seconds + time.monotonic() - began[1]
        began = time.process_time(), time.monotonic()
        if not spilled.finish():
            raise SystemExit("the temporary folder has no room")
        found = sum(
            int((each.numbers[0] > 1).sum())
            for number in range(spilled.parts)
            for each in counted(partial(spilled.part, number))
        )
        cpu, seconds = cpu + time.process_time() - began[0], seconds + time.monotonic() - began[1]
        if found != DOUBLED:
            raise SystemExit(f"found {found} doubled identities; expected {DOUBLED}")
        return f"| {rows:,} | {spilled.parts} | {cpu:.1f} | {seconds:.1f} | **{_peak_mb()}** | {before} |"


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
