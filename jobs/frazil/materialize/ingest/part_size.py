"""The number of records of a chunk that are decoded together, if all of them would take too much memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PartSize:
    """Falls to what fits, and doubles again after `wait` parts that fitted: the crowded records may have passed.

    If the doubled size is too much, decoding those records was wasted: the wait doubles until a size fits.
    """

    records: int
    wait: int = 1
    fitted_since: int = 0
    doubled: bool = False

    def fitted(self) -> None:
        if self.doubled:
            self.wait = 1
        self.fitted_since += 1
        self.doubled = self.fitted_since >= self.wait
        if self.doubled:
            self.records *= 2
            self.fitted_since = 0

    def crowded(self, fitting: int) -> None:
        if self.doubled:
            self.wait *= 2
        self.records, self.fitted_since, self.doubled = fitting, 0, False
