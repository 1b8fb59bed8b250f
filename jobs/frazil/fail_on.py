"""The conditions of `frazil status --fail-on`, which make a scheduler notice a table that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from frazil.model.errors import Misuse
from frazil.specs.scalars import parse_duration, parse_whole
from frazil.specs.shapes import Unfit
from frazil.status import TableStatus
from frazil.transforms.standing import TransformStanding

EXAMPLE = "paused,lag>10000,age>15m"


@dataclass(frozen=True, slots=True)
class Paused:
    """The table is paused."""


@dataclass(frozen=True, slots=True)
class InTrouble:
    """The table does not exist yet, or a batch would fail."""


@dataclass(frozen=True, slots=True)
class LagAbove:
    """More than `records` are left to read, or the lag is unknown."""

    records: int


@dataclass(frozen=True, slots=True)
class AgeAbove:
    """Records are unread, and the table is complete through a moment more than `seconds` ago, or through none yet.

    A table that has all records of a topic without new ones is up to date, however old they are.
    """

    seconds: float
    text: str


Condition = Paused | InTrouble | LagAbove | AgeAbove


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Parse a comma-separated list such as `paused,lag>10000,age>15m`. Raises Misuse."""
    return tuple(_condition(word.strip()) for word in text.split(","))


def _condition(word: str) -> Condition:
    name, _, limit = (part.strip() for part in word.partition(">"))
    try:
        match name, bool(limit):
            case "paused", False:
                return Paused()
            case "problem", False:
                return InTrouble()
            case "lag", True:
                return LagAbove(parse_whole(limit))
            case "age", True:
                return AgeAbove(parse_duration(limit).total_seconds(), limit)
    except Unfit as unfit:
        raise Misuse(f'--fail-on: the limit of {name} is "{limit}"', hint=str(unfit)) from unfit
    raise Misuse(
        f'--fail-on: unknown condition "{word}": expected paused, problem, lag>RECORDS or age>TIME',
        hint=f"for example --fail-on '{EXAMPLE}' (quoted, because of the >)",
    )


def met_by(found: Sequence[TableStatus], conditions: Sequence[Condition]) -> Iterator[str]:
    """Yield one line for each condition that a table meets. An unknown lag or age counts as too high."""
    for each in found:
        for condition in conditions:
            reason = _reason(each, condition)
            if reason is not None:
                yield f"{each.table}: {reason}"


def met_by_transforms(found: Sequence[TransformStanding], conditions: Sequence[Condition]) -> Iterator[str]:
    """Yield one line for each problem of a transformation, if `problem` is a condition."""
    if InTrouble() in conditions:
        yield from (f"{each.spec.identifier}: {problem}" for each in found for problem in each.problems)


def _reason(each: TableStatus, condition: Condition) -> str | None:
    match condition:
        case Paused():
            return None if each.pause is None else "paused"
        case InTrouble():
            return each.problem or each.output_problem
        case LagAbove(records):
            if each.lag is None or each.epoch is None:
                return "lag unknown"
            return f"lag {each.lag:,}, more than {records:,}" if each.lag > records else None
        case AgeAbove():
            return None if each.lag == 0 else _too_old(each, condition)
        case _:
            assert_never(condition)


def _too_old(each: TableStatus, limit: AgeAbove) -> str | None:
    if each.age_seconds is None:
        return "age unknown: the table is not complete through any moment yet"
    return f"age {each.age_seconds:,.0f} s, more than {limit.text}" if each.age_seconds > limit.seconds else None
