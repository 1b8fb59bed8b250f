"""The double's address and the layout of its folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DoubleFolder:
    """The double's folder: the call record, mails, and the logs and work folders of job runs and Lambda functions."""

    endpoint_url: str
    folder: Path

    @property
    def calls(self) -> Path:
        return self.folder / "calls.jsonl"

    @property
    def job_runs(self) -> Path:
        """The output and the work directory of each attempt of a job run."""
        return self.folder / "job-runs"

    @property
    def functions(self) -> Path:
        """The code of Lambda functions while they run."""
        return self.folder / "functions"

    @property
    def unpacked(self) -> Path:
        """A cache of unpacked job archives, by content."""
        return self.folder / "unpacked"

    @property
    def mail(self) -> Path:
        """The messages that were sent to e-mail addresses."""
        return self.folder / "mail"

    def begin_anew(self) -> None:
        """Remove the files of the previous process, whose in-memory state is lost."""
        for folder in (self.job_runs, self.functions, self.mail):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
