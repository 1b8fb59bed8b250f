"""Parse and check `partition_by` and `sort_by`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from frazil.model.errors import SpecError
from frazil.model.partitioning import CALL, TIMES, PartitionField
from frazil.model.sort_order import SortField, parts_of
from frazil.model.spec import MOST_Z_ORDERED
from frazil.specs.document import ListNode, Node, ScalarNode
from frazil.specs.problems import Position, Problem, suggest
from frazil.specs.shapes import At, JsonSchema, ListOf, Scalar, Unfit

T = TypeVar("T")
PLAIN = (*sorted(TIMES), "identity", "void")
WITH_NUMBER = ("bucket", "truncate")
COLUMN = re.compile(r"[^\s(),.\[\]]+")


def parse_partition(text: str) -> PartitionField:
    """Parse one transform. Raises ValueError with the correct syntax as its message."""
    call = CALL.fullmatch(text)
    if call is None:
        return PartitionField("identity", _column(text.strip()))
    transform, number, column = call.group(1), call.group(2), call.group(3)
    if transform in WITH_NUMBER:
        return PartitionField(transform, _column(column), _number(transform, number))
    if transform not in PLAIN:
        raise Unfit(f"unknown transform {transform}: {suggest(transform, (*PLAIN, *WITH_NUMBER))}")
    if number is not None:
        raise Unfit(f"{transform} takes the column only: {transform}({column})")
    return PartitionField(transform, _column(column))


def _number(transform: str, text: str | None) -> int:
    if not text or not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise Unfit(f"{transform} takes a number and a column: {transform}(16, account)")
    return int(text)


def _column(text: str) -> str:
    return parse_column(
        text, "write a column, or a transform of one: symbol, day(kafka_timestamp), bucket(16, account)"
    )


def parse_column(text: str, hint: str = "write the name of a column") -> str:
    if "." in text:
        raise Unfit(f"a column inside a struct ({text}) is not supported here in this release; name a top-level column")
    if not COLUMN.fullmatch(text):
        raise Unfit(hint)
    return text


def parse_sort(text: str) -> SortField:
    """Parse one field of a sort order. Raises ValueError with the correct syntax as its message."""
    of, descending, nulls_first = parts_of(text)
    field = parse_partition(of)
    if field.transform == "void":
        raise Unfit("void gives every row the same value, which sorts nothing")
    return SortField(field, descending, nulls_first)


@dataclass(frozen=True, slots=True)
class FieldList(Generic[T]):
    """A list of fields with transforms. YAML splits `[bucket(16, account)]` into two items, which are joined here."""

    item: Scalar[T]

    @property
    def label(self) -> str:
        return ListOf(self.item).label

    def read(self, node: Node, at: At) -> tuple[T, ...]:
        whole = ListNode(_rejoined(node.items), node.mark) if isinstance(node, ListNode) else node
        return ListOf(self.item).read(whole, at)

    def json_schema(self) -> JsonSchema:
        return ListOf(self.item).json_schema()


COLUMN_NAME = Scalar("a column", parse_column)
PARTITIONS = FieldList(Scalar("a column or a transform of one", parse_partition))
SORT_FIELDS = FieldList(Scalar("a column or a transform of one, its direction and its null order", parse_sort))


def _rejoined(items: tuple[Node, ...]) -> tuple[Node, ...]:
    whole: list[Node] = []
    for item in items:
        last = whole[-1] if whole else None
        if isinstance(last, ScalarNode) and isinstance(item, ScalarNode) and _is_open(last):
            whole[-1] = ScalarNode(f"{last.text}, {item.text}", quoted=False, mark=last.mark)
        else:
            whole.append(item)
    return tuple(whole)


def _is_open(node: ScalarNode) -> bool:
    return not node.quoted and node.text.count("(") > node.text.count(")")


def z_order_contradictions(names: Sequence[str], place: Position, *, is_sorted: bool) -> Iterator[Problem]:
    """Yield why rows cannot be put in the z-order of these columns; without columns there is no problem."""
    if names and is_sorted:
        yield Problem(place, "z_order: sort_by orders the rows already", "remove one of them", SpecError)
    elif len(names) == 1 or len(names) > MOST_Z_ORDERED:
        what = f"z_order: expected 2 to {MOST_Z_ORDERED} columns, found {', '.join(names)}"
        hint = "write sort_by to order rows by a single column" if len(names) == 1 else "name fewer columns"
        yield Problem(place, what, hint, SpecError)
