"""`start: {offsets: {0: 12, 1: 40}}`: a mapping whose keys are partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from frazil.specs.document import MapNode, Node, ScalarNode, duplicates
from frazil.specs.scalars import WHOLE
from frazil.specs.shapes import At, JsonSchema, Rejected, describe


@dataclass(frozen=True, slots=True)
class Offsets:
    """A mapping from partition numbers to their first offsets."""

    label: str = "a mapping from partitions to offsets"

    def read(self, node: Node, at: At) -> Mapping[int, int]:
        if not isinstance(node, MapNode) or not node.entries:
            hint = "write {0: 12, 1: 40}"
            raise at.reject(node.mark, f"expected {self.label}, found {_found(node)}", hint=hint)
        for first, again in duplicates(node):
            what = f"duplicate partition; first on line {first.mark.line}"
            at.under(again.text).reject(again.mark, what, hint="keep one of them")
        before = len(at.problems.found)
        offsets = dict(_read_entries(node.entries, at))
        if len(at.problems.found) > before or len(offsets) < len(node.entries):
            raise Rejected(at.path)
        return offsets

    def json_schema(self) -> JsonSchema:
        number = WHOLE.json_schema()
        return {"type": "object", "patternProperties": {"^[0-9]+$": number}, "additionalProperties": False}


def _read_entries(entries: tuple[tuple[ScalarNode, Node], ...], at: At) -> Iterator[tuple[int, int]]:
    for key, value in entries:
        try:
            yield WHOLE.read(key, at.under(key.text)), WHOLE.read(value, at.under(key.text))
        except Rejected:
            continue


def _found(node: Node) -> str:
    return "an empty mapping" if isinstance(node, MapNode) else describe(node)


OFFSETS = Offsets()
