"""Run the soak, and write its section of bench/RESULTS.md, its plot and its page.

Usage: python -m bench.soak [--minutes N] [--fault-every SECONDS] [--seed N]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from bench.sections import put
from bench.soak.ends import ends
from bench.soak.faults import Driver, Faults
from bench.soak.records import Stream
from bench.soak.report import Run, report
from bench.soak.setting import Folder
from bench.soak.watch import Look, Memory, look, memory
from frazil.local.supervisor import ANY_FREE_PORTS, down, up

HOME = Path(".frazil/bench-soak")
TITLE = "Soak"
MEMORY_SECONDS = 5
LOOK_SECONDS = 30
QUIET_SECONDS = 60
"""The end of the run, without faults."""


def main() -> int:
    asked = _arguments().parse_args()
    folder = Folder(HOME.absolute())
    down(folder.services, wipe=True)
    folder.make()
    load = os.getloadavg()[0]
    services = up(services=("broker", "registry"), directory=folder.services, preferred_ports=ANY_FREE_PORTS)
    driver, stream = Driver(folder), Stream(services, asked.seed)
    faults = Faults(driver, asked.fault_every, asked.seed)
    sizes: list[Memory] = []
    looks: list[Look] = []
    try:
        stream.start()
        _run(driver, faults, sizes, looks, seconds=asked.minutes * 60)
        stream.stop()
        ended = driver.end()
        found = ends(folder)
        page = folder.run("status", "--html", str(folder.path / "soak.html"))
        last = look(folder, asked.minutes * 60)
        run = Run(asked.minutes, load, ended, driver, faults.done, sizes, [*looks, *([last] if last else [])], found)
    finally:
        driver.end()
        down(folder.services, wipe=True)
    put(TITLE, report(run, stream.sent))
    print(report(run, stream.sent))
    print(f"the status page: {folder.path / 'soak.html'}" if page.returncode == 0 else page.stderr, file=sys.stderr)
    return 0 if run.good else 1


def _run(driver: Driver, faults: Faults, sizes: list[Memory], looks: list[Look], *, seconds: float) -> None:
    began = time.monotonic()
    next_look = 0.0
    while (at := time.monotonic() - began) < seconds:
        driver.keep_running()
        found = memory(driver, at)
        if found is not None:
            sizes.append(found)
        if at >= next_look:
            next_look = at + LOOK_SECONDS
            seen = look(driver.folder, at)
            if seen is not None:
                looks.append(seen)
        if at < seconds - QUIET_SECONDS:
            faults.perhaps(at)
        time.sleep(MEMORY_SECONDS)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--fault-every", type=float, default=60, help="seconds between faults")
    parser.add_argument("--seed", type=int, default=1)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
