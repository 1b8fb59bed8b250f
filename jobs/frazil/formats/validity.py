"""The rules by which Confluent's checker refuses a schema by itself, for Iceberg tables of format version 2.

The rules and their names are those of `policy/ValidityChecker.java` in the repository confluentinc/schema-registry,
module `logical-types` (commit 794611bd86d1). `CONVERSION` is what the converters in front of the checker refuse, which
its registry reports as `Schema cannot be represented as a logical type`. `lenient` refuses all that
`UNRESOLVED_TYPE_REF` does, which has no code here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

MAX_DIGITS = 38
MICROSECONDS = 6
"""The number of fractional digits that Iceberg's timestamps have before format version 3."""
NANOSECONDS = 9


class Rule(StrEnum):
    """A rule by Confluent's name for it."""

    EMPTY_STRUCT = "EMPTY_STRUCT"
    FIELD_NAME_CASE_COLLISION = "FIELD_NAME_CASE_COLLISION"
    CYCLIC_TYPE = "CYCLIC_TYPE"
    PRECISION_OUT_OF_RANGE = "PRECISION_OUT_OF_RANGE"
    SCALE_OUT_OF_RANGE = "SCALE_OUT_OF_RANGE"
    LENGTH_OUT_OF_RANGE = "LENGTH_OUT_OF_RANGE"
    UNREPRESENTABLE_TYPE = "UNREPRESENTABLE_TYPE"
    CONVERSION = "CONVERSION"


WITH_LENIENT = frozenset((Rule.FIELD_NAME_CASE_COLLISION, Rule.CYCLIC_TYPE, Rule.PRECISION_OUT_OF_RANGE))
"""Rules for what `lenient` may refuse at the same path: decimals of more than 38 digits, endless records, and names."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A part of a schema that a rule refuses, by its dotted path; the path is empty for the whole schema."""

    rule: Rule
    path: str
    problem: str


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def clashes(names: Iterable[str], path: str) -> Iterator[Invalid]:
    """Yield the names of one record or union that differ only in case from an earlier one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield Invalid(Rule.FIELD_NAME_CASE_COLLISION, join(path, name), f"{other} and {name} differ only in case")


def no_fields(kind: str, path: str) -> Invalid:
    return Invalid(Rule.EMPTY_STRUCT, path, f"{kind}: there are no columns for it")


def cyclic(name: str, path: str) -> Invalid:
    return Invalid(Rule.CYCLIC_TYPE, path, f"{name} contains itself")


def unconvertible(path: str, problem: str) -> Invalid:
    return Invalid(Rule.CONVERSION, path, problem)


def variant(what: str, path: str) -> Invalid:
    return Invalid(Rule.UNREPRESENTABLE_TYPE, path, f"is {what}: a variant, which needs format version 3")


def of_decimal(precision: int, scale: int, path: str) -> Iterator[Invalid]:
    """Yield what is wrong with a decimal. The scale -1 is Confluent's mark of one that is not given."""
    if not 1 <= precision <= MAX_DIGITS:
        problem = f"is a decimal of {precision} digits: 1 to {MAX_DIGITS} are allowed"
        yield Invalid(Rule.PRECISION_OUT_OF_RANGE, path, problem)
    if scale != -1 and not 0 <= scale <= precision:
        yield Invalid(
            Rule.SCALE_OUT_OF_RANGE, path, f"is a decimal({precision}, {scale}): the scale is 0 to {precision}"
        )


def of_precision(digits: int, path: str) -> Iterator[Invalid]:
    """Yield why a time or a timestamp cannot have so many fractional digits in any table."""
    if not 0 <= digits <= NANOSECONDS:
        yield unconvertible(path, f"has the precision {digits}: 0 to {NANOSECONDS} fractional digits are allowed")


def of_timestamp(digits: int, path: str) -> Iterator[Invalid]:
    yield from of_precision(digits, path)
    if MICROSECONDS < digits <= NANOSECONDS:
        problem = f"is a timestamp of {digits} fractional digits: more than {MICROSECONDS} need format version 3"
        yield Invalid(Rule.UNREPRESENTABLE_TYPE, path, problem)


def of_length(length: int, path: str, *, least: int) -> Iterator[Invalid]:
    if length < least:
        yield Invalid(Rule.LENGTH_OUT_OF_RANGE, path, f"has the length {length}: at least {least} is allowed")


def whole(given: object) -> int | None:
    """Return a number without its fraction; None for what is no finite number: 1e999 and NaN are numbers in JSON."""
    if isinstance(given, float):
        return int(given) if math.isfinite(given) else None
    return int(given) if isinstance(given, int) else None


class Recursive(Generic[Name]):
    """Knows which named types contain themselves. `uses` returns the named types in the definition of one."""

    def __init__(self, uses: Callable[[Name], Iterable[Name]]) -> None:
        self._uses = uses
        self._used: dict[Name, tuple[Name, ...]] = {}
        self._found: dict[Name, bool] = {}

    def __contains__(self, name: Name) -> bool:
        if name not in self._found:
            self._found[name] = self._reaches_itself(name)
        return self._found[name]

    def _reaches_itself(self, name: Name) -> bool:
        waiting, seen = [*self._used_by(name)], set[Name]()
        while waiting:
            each = waiting.pop()
            if each == name:
                return True
            if each not in seen:
                seen.add(each)
                waiting += self._used_by(each)
        return False

    def _used_by(self, name: Name) -> tuple[Name, ...]:
        if name not in self._used:
            self._used[name] = tuple(dict.fromkeys(self._uses(name)))
        return self._used[name]
