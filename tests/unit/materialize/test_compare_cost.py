"""What a comparison of schemas costs, counted in steps of the interpreter and not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from frazil.materialize.schema.compare import applied, compare
from frazil.model.columns import Column, ListOf, Scalar, Struct

LONG = Scalar("long")
Columns = tuple[Column, ...]


def steps_of(work: Callable[[], object]) -> int:
    """Bytecode instructions that are carried out, loops inside comprehensions included."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def flat(count: int, prefix: str = "c", was: str = "old") -> Columns:
    return tuple(Column(f"{prefix}{n}", LONG, aliases=(f"{was}{n}",)) for n in range(count))


def nested(count: int) -> Columns:
    return (Column("s", ListOf(Struct(flat(count)))),)


@pytest.mark.parametrize(
    ("wanted", "have"),
    [
        (flat, lambda _: ()),
        (flat, flat),
        (nested, nested),
        (lambda count: flat(count, "new", "c"), flat),
        (lambda count: tuple(Column(f"C{n}", LONG) for n in range(count)), flat),
        (lambda count: tuple(Column(f"c{n}", Scalar("string")) for n in range(count)), flat),
    ],
    ids=["all new", "all there", "nested", "all renamed", "all differ in case", "all incompatible"],
)
def test_twice_as_many_columns_cost_twice_as_much(
    wanted: Callable[[int], Columns], have: Callable[[int], Columns]
) -> None:
    def cost(count: int) -> int:
        there = have(count)
        former = compare(there, (), {}).former_names
        columns = wanted(count)
        return steps_of(lambda: applied(there, compare(columns, there, former).changes))

    assert cost(200) < 2.2 * cost(100)
