"""Where the double answers, and where its files lie."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DoubleFolder:
    """`folder` holds the record of calls, and the logs and work directories of job runs and Lambda functions."""

    endpoint_url: str
    folder: Path

    @property
    def calls(self) -> Path:
        return self.folder / "calls.jsonl"

    @property
    def job_runs(self) -> Path:
        """What each attempt of a job run printed, and the directory that it worked in."""
        return self.folder / "job-runs"

    @property
    def functions(self) -> Path:
        """The code of Lambda functions while they run."""
        return self.folder / "functions"

    @property
    def unpacked(self) -> Path:
        """Archives of job runs by their content, for the next run that names the same one."""
        return self.folder / "unpacked"

    def begin_anew(self) -> None:
        """Remove what belonged to the cloud of the process before, which is gone."""
        for folder in (self.job_runs, self.functions):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
