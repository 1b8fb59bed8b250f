"""A schema as the list of all schemas that a value must satisfy: itself, and what `$ref` and `allOf` add to it.

Of alternatives (`oneOf`, `anyOf`) between null and one schema, that schema belongs to it: every column can be null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from frazil.formats.json_schema.documents import Documents, Node
from frazil.model.schemas import SchemaFinding

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
REFS = ("$ref", "$recursiveRef", "$dynamicRef")
_MOST_STEPS = 200_000
"""A small schema can refer to itself in so many ways that reading all of them would never end."""


@dataclass(slots=True)
class Conjunction:
    """The schemas, all of them objects. `targets` identify what `$ref` led to; `alternatives` are those that remain.

    `is_never`: no value satisfies the schema. `tagging` are further schemas that may give tags to values.
    """

    nodes: list[Node] = field(default_factory=list)
    targets: tuple[int, ...] = ()
    alternatives: list[list[Conjunction]] = field(default_factory=list)
    is_never: bool = False
    tagging: list[Node] = field(default_factory=list)

    def first(self, keyword: str) -> object:
        return next((given for _, given in self.with_keyword(keyword)), None)

    def word(self, keyword: str) -> str | None:
        """Return the first value if it is a text: no draft says anything about others of `title` or `format`."""
        given = self.first(keyword)
        return given if isinstance(given, str) else None

    def has(self, *keywords: str) -> bool:
        return any(keyword in _of(node) for node in self.nodes for keyword in keywords)

    def with_keyword(self, keyword: str) -> Iterator[tuple[Node, object]]:
        """Yield each schema that has the keyword, and its value."""
        yield from ((node, _of(node)[keyword]) for node in self.nodes if keyword in _of(node))

    def add(self, other: Conjunction) -> None:
        """Let a value satisfy the other one, too. What it must satisfy already is not added again."""
        there = {id(node.raw) for node in self.nodes}
        self.nodes += [node for node in other.nodes if id(node.raw) not in there]
        self.targets = tuple(dict.fromkeys((*self.targets, *other.targets)))
        self.alternatives += other.alternatives
        self.is_never |= other.is_never


def _of(node: Node) -> dict[str, object]:
    assert isinstance(node.raw, dict)  # noqa: S101 - only those are in a conjunction
    return node.raw


class Conjunctions:
    """Reads schemas of one set of documents. What is no schema is a problem."""

    def __init__(self, documents: Documents) -> None:
        self.problems = documents.problems
        self._documents = documents
        self._steps = 0

    def note(self, path: str, problem: str) -> None:
        self.problems.append(SchemaFinding(path, problem))

    def of_all(self, nodes: list[Node], path: str) -> Conjunction:
        found = Conjunction()
        for node in nodes:
            found.add(self.of(node, path))
        return found

    def of(self, node: Node, path: str, trail: tuple[int, ...] = ()) -> Conjunction:
        """Return all that a value must satisfy. `trail` are the schemas that led here without a value between them."""
        raw = node.raw
        found = Conjunction(is_never=raw is False)
        if isinstance(raw, bool):
            return found
        if not isinstance(raw, dict):
            self.note(path, f"a schema is an object or a boolean, not {_brief(raw)}")
            return found
        if not self._may_read(raw, path, trail):
            return found
        trail = (*trail, id(raw))
        refs = [(keyword, raw[keyword]) for keyword in REFS if keyword in raw]
        if not refs or node.draft.ref_has_siblings:
            self._check(raw, path)
            found.nodes.append(node)
            self._add_parts(found, node, path, trail)
        for keyword, ref in refs:
            target = self._target(node, keyword, ref, path)
            if target is not None:
                found.targets += (id(target.raw),)
                found.add(self.of(target, path, trail))
        return found

    def _may_read(self, raw: dict[str, object], path: str, trail: tuple[int, ...]) -> bool:
        self._steps += 1
        if self._steps == _MOST_STEPS:
            self.note(path, f"more than {_MOST_STEPS} references and alternatives")
        if id(raw) in trail:
            self.note(path, "refers to itself without end")
        return self._steps < _MOST_STEPS and id(raw) not in trail

    def _target(self, node: Node, keyword: str, ref: object, path: str) -> Node | None:
        target = self._documents.resolve(node, ref) if isinstance(ref, str) else None
        if target is None:
            where = "is neither in the schema nor in one of its references"
            self.note(path, f"{keyword} {_brief(ref)} {where if isinstance(ref, str) else 'is no text'}")
        return target

    def _add_parts(self, found: Conjunction, node: Node, path: str, trail: tuple[int, ...]) -> None:
        for part in self._list(node, "allOf", path):
            found.add(self.of(part, path, trail))
        for keyword in ("oneOf", "anyOf"):
            branches = [self.of(each, path, trail) for each in self._list(node, keyword, path)]
            values = [each for each in branches if not _is_null(each)]
            if len(values) == 1:
                found.add(values[0])
            elif values:
                found.alternatives.append(values)

    def _check(self, raw: dict[str, object], path: str) -> None:
        """Note keywords that decide about columns and have a wrong value."""
        given = raw.get("type", [])
        for name in given if isinstance(given, list) else [given]:
            if not isinstance(name, str) or name not in TYPES:
                self.note(path, f"unknown type {_brief(name)}")
        for keyword in ("properties", "patternProperties"):
            if not isinstance(raw.get(keyword, {}), dict):
                self.note(path, f"{keyword} is an object, not {_brief(raw[keyword])}")
        if not isinstance(raw.get("enum", []), list):
            self.note(path, f"enum is a list, not {_brief(raw['enum'])}")

    def _list(self, node: Node, keyword: str, path: str) -> list[Node]:
        given = node.get(keyword)
        if given is None:
            return []
        if not isinstance(given, list) or not given:
            self.note(path, f"{keyword} is a list of schemas, not {_brief(given)}")
            return []
        return [node.child(each) for each in given]


def types_of(conjunction: Conjunction) -> frozenset[str] | None:
    """Return the types that a value may have, but for null; None if the schema names none."""
    named: frozenset[str] | None = None
    for _, given in conjunction.with_keyword("type"):
        words = given if isinstance(given, list) else [given]
        types = frozenset(each for each in words if isinstance(each, str)) & TYPES
        types = types - {"integer"} if "number" in types else types
        named = types if named is None else _both(named, types)
    return None if named is None else named - {"null"}


def _both(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    """Return the types in both. An integer is a number."""
    integers = {"integer"} if {"integer", "number"} <= one | other else set()
    return (one & other) | (integers if {"integer", "number"} & one and {"integer", "number"} & other else set())


def _is_null(branch: Conjunction) -> bool:
    """Return whether null is the only value of a branch."""
    if branch.alternatives:
        return False
    if types_of(branch) == frozenset():
        return True
    is_const = branch.has("const") and branch.first("const") is None
    return is_const or branch.first("enum") == [None]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
