"""Parse and check `partition_by`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.model.partitioning import CALL, TIMES, PartitionField
from frazil.specs.document import ListNode, Node, ScalarNode
from frazil.specs.problems import suggest
from frazil.specs.shapes import At, JsonSchema, ListOf, Scalar, Unfit

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
    if "." in text:
        raise Unfit(
            f"partitions by a column inside a struct ({text}) are not supported in this release; name a"
            " top-level column"
        )
    if not COLUMN.fullmatch(text):
        raise Unfit("write a column, or a transform of one: symbol, day(kafka_timestamp), bucket(16, account)")
    return text


PARTITION = Scalar("a column or a transform of one", parse_partition)


@dataclass(frozen=True, slots=True)
class PartitionList:
    """A list of transforms. YAML splits `[bucket(16, account)]` into two items, which are joined here."""

    label: str = "a list, each a column or a transform of one"

    def read(self, node: Node, at: At) -> tuple[PartitionField, ...]:
        whole = ListNode(_rejoined(node.items), node.mark) if isinstance(node, ListNode) else node
        return ListOf(PARTITION).read(whole, at)

    def json_schema(self) -> JsonSchema:
        return ListOf(PARTITION).json_schema()


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
