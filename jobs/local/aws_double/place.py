"""Where the double answers, and where it keeps its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """`folder` holds the record of calls, and the logs and work directories of job runs and Lambda functions."""

    endpoint_url: str
    folder: Path

    @property
    def calls(self) -> Path:
        return self.folder / "calls.jsonl"
