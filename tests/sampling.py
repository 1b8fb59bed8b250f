"""What `make test` takes of the combinations that `make test-long` tries all of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

T = TypeVar("T")
CATALOGS = ("jdbc", "glue", "rest")
"""Each test of a fault runs on all in a long run. `make test` takes a few to Glue, where one costs thrice, and REST."""
LONG = bool(os.environ.get("FRAZIL_TEST_LONG"))
"""Set by `make test-long`, which continuous integration does not call."""


def sampled(cases: Iterable[T], keep: Callable[[T], bool]) -> list[T]:
    """All cases in a long run, otherwise those to keep: at least one."""
    found = [case for case in cases if LONG or keep(case)]
    assert found, "a sample keeps at least one case"
    return found


def combined(*choices: Sequence[Any]) -> list[Any]:
    """All combinations in a long run, otherwise a few: each choice of each kind is in one of them, beside others."""
    if LONG:
        return list(product(*choices))
    return [tuple(each[number % len(each)] for each in choices) for number in range(max(map(len, choices)))]


def in_long_runs(test: T) -> T | None:
    """A test that only `make test-long` collects, because cheaper ones have its behaviour. Elsewhere it is no test."""
    return test if LONG else None


def examples(short: int, long: int) -> int:
    """How many examples a search for counterexamples tries."""
    return long if LONG else short
