"""Conflicts between table specs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from frazil.model.errors import SpecError
from frazil.model.spec import TableSpec
from frazil.specs.problems import Problem
from frazil.specs.table_spec import ReadSpec


def problems_across(specs: Sequence[ReadSpec]) -> Iterator[Problem]:
    """Yield a problem for each spec that writes the same table as an earlier one. Specs may share a topic."""
    for first, second in combinations(specs, 2):
        what = _clash(first.spec, second.spec)
        if what is not None:
            hint = "give one of them another name with `table:`"
            yield Problem(second.named_at, what, hint, SpecError)


def _clash(first: TableSpec, second: TableSpec) -> str | None:
    a, b = first.identifier, second.identifier
    if a == b:
        return f"{first.source_file} also writes {b}"
    if a.lower() == b.lower():
        return f"{b} differs only in case from {a} of {first.source_file}"
    if b.lower() == first.dead_letters_identifier.lower():
        return f"{b} is the dead letters table of {first.source_file}"
    if a.lower() == second.dead_letters_identifier.lower():
        return f"the dead letters of {b} would go to {a}, which {first.source_file} writes"
    return None
