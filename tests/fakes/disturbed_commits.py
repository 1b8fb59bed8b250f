"""What may happen to one commit of a process: the acts of tests that go through all commits."""

from __future__ import annotations

from collections.abc import Callable

from frazil.model.errors import CommitUnknownError
from tests.fakes.watched_lake import Around, Commit

ACTS = ("die before", "die after", "lose the answer", "lose the commit")
COMPACT = "compact before"


class DiedError(BaseException):
    """The process ends here: nothing cleans up, and nothing takes it for an answer of the catalog."""


def disturbed(act: str, number: int, *, compact: Callable[[], None] | None = None) -> Around:
    """Return what makes the act happen to the commit of this number, from 1; the others go through."""
    left = number

    def around(name: str, commit: Commit) -> object:
        nonlocal left
        del name
        left -= 1
        if left != 0:
            return commit()
        if act == COMPACT:
            assert compact is not None
            compact()
            return commit()
        if act in ("die after", "lose the answer"):
            commit()
        if act.startswith("die"):
            raise DiedError
        raise CommitUnknownError(act)

    return around
