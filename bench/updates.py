"""What a subject reports of its batches of updates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measure import Cost


@dataclass(frozen=True, slots=True)
class Updates:
    """The cost of all batches, the wall seconds of each, and those of its steps, where they are known.

    `memory` are the resident megabytes of each kind of process at the end of each batch, where they are known.
    `rewrites` are the figures of each rewrite of files between two batches: `files`, `copied_rows`, `seconds`.
    """

    cost: Cost
    seconds: Sequence[float]
    steps: Sequence[Mapping[str, float]] = ()
    memory: Sequence[Mapping[str, int]] = ()
    rewrites: Sequence[Mapping[str, float]] = ()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Updates:
        found = json.loads(path.read_text())
        return cls(Cost(**found["cost"]), found["seconds"], found["steps"], found["memory"], found["rewrites"])
