"""Conflicts between table specs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from frazil.model.errors import SpecError
from frazil.model.spec import TableSpec
from frazil.specs.problems import Position, Problem
from frazil.specs.table_spec import ReadSpec


def problems_across(specs: Sequence[ReadSpec]) -> Iterator[Problem]:
    """Yield a problem for each spec that writes the same table as one of an earlier file, and for topics in a circle.

    Specs may share a topic.
    """
    pairs = combinations(specs, 2)
    yield from dict.fromkeys(filter(None, (_clash(first, second) for first, second in pairs)))
    yield from dict.fromkeys(_circle_problems(specs))


def _circle_problems(specs: Sequence[ReadSpec]) -> Iterator[Problem]:
    """Yield a problem for each output to a topic of which, through other tables, its own table is made."""
    sent = defaultdict[str, set[str]](set)
    for each in specs:
        for topic in each.spec.topics:
            sent[topic] |= {output.topic for output in each.spec.outputs}
    for each in specs:
        for output in each.spec.outputs:
            back = _following(output.topic, sent).intersection(each.spec.topics)
            if back and output.topic not in back:
                what = f"the output {output.name} goes to {output.topic}, whose records others send back to {min(back)}"
                hint = "send to another topic: each record would return to this table forever"
                yield Problem(each.spec_named_at, what, hint, SpecError)


def _following(topic: str, sent: Mapping[str, set[str]]) -> set[str]:
    """Return a topic, and all those that get what is in it."""
    found, left = set[str](), [topic]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += sent.get(here, ())
    return found


def _clash(first: ReadSpec, second: ReadSpec) -> Problem | None:
    if first.spec.source_file == second.spec.source_file:
        return None  # tables of one group, which `route_problems` compares
    return _clash_of_tables(first, second) or _clash_of_dead_letters(first, second)


def _clash_of_tables(first: ReadSpec, second: ReadSpec) -> Problem | None:
    file, a, b = first.spec.source_file, first.spec.identifier, second.spec.identifier
    if a == b:
        return _problem(second.named_at, f"{file} also writes {b}")
    if a.lower() == b.lower():
        return _problem(second.named_at, f"{b} differs only in case from {a} of {file}")
    return None


def _clash_of_dead_letters(first: ReadSpec, second: ReadSpec) -> Problem | None:
    file, a, b = first.spec.source_file, first.spec.identifier, second.spec.identifier
    letters_of_a, letters_of_b = first.spec.dead_letters_identifier, second.spec.dead_letters_identifier
    if b.lower() == letters_of_a.lower():
        return _problem(second.named_at, f"{b} is the dead letters table of {file}")
    if a.lower() == letters_of_b.lower():
        what = f"the dead letters of {letters_of_b.removesuffix('__dead_letters')} would go to {a}, which {file} writes"
        return _problem(second.spec_named_at, what)
    if letters_of_a.lower() == letters_of_b.lower():
        return _problem(second.spec_named_at, f"{letters_of_b} is the dead letters table of {file}, too")
    return None


def retained_problem(table: str, specs: Iterable[TableSpec], place: Position, *, by: str) -> Problem | None:
    """Return why a table whose rows go after a time cannot be read `by` what needs all of them, or None."""
    kept = next((spec for spec in specs if spec.identifier == table and spec.maintain.retain_rows), None)
    if kept is None:
        return None
    what = f"{by} {table}, whose old rows go (`retain_rows` in {kept.source_file}): it would take them for lost"
    return Problem(place, what, "remove retain_rows, or read another table with the same rows", SpecError)


def _problem(place: Position, what: str) -> Problem:
    return Problem(place, what, "give one of them another name with `table:`", SpecError)
