"""Parse YAML text into nodes that know their line. The declaration of a key decides how its value is interpreted.

YAML guesses types from spelling: `no` is a boolean, `010` is eight, `1:30` is ninety. Here a scalar stays text, so
these guesses are not made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from frazil.model.spelling import plural

_INDENTED_BY_TAB = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)

NULL_SPELLINGS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Mark:
    """A line and a column in a file, both counted from one."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ScalarNode:
    text: str
    quoted: bool
    mark: Mark

    def is_null(self) -> bool:
        return not self.quoted and self.text in NULL_SPELLINGS


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class MapNode:
    entries: tuple[tuple[ScalarNode, Node], ...]
    mark: Mark


Node = ScalarNode | ListNode | MapNode


class UnreadableError(Exception):
    """The text is not YAML, or uses a part of YAML that is not supported; `mark` says where.

    `instead` is the document that the text would be with spaces for the tabs that lines are indented with: its other
    problems can be found.
    """

    def __init__(self, problem: str, mark: Mark, *, hint: str, instead: Node | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.mark = mark
        self.hint = hint
        self.instead = instead


def parse(text: str) -> Node:
    """Parse a text with one document; an empty text is an empty mapping. Raises UnreadableError."""
    try:
        root = yaml.compose(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        if "'\\t'" in str(error.problem):
            raise _tabs(text) from error
        hint = "indent with spaces, put a space after each colon, and quote text that holds : # { } [ ] or %"
        raise UnreadableError(_sentence(error), _mark(error.problem_mark), hint=hint) from error
    except yaml.reader.ReaderError as error:
        what = f"the character U+{_code_point(error):04X} is not allowed in YAML"
        raise UnreadableError(what, _mark_at(text, error.position), hint="delete it") from error
    return MapNode((), Mark(1, 1)) if root is None else _node(root)


def _tabs(text: str) -> UnreadableError:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _INDENTED_BY_TAB.match(line)]
    others = len(lines) - 1
    more = f", and so {'is' if others == 1 else 'are'} {plural(others, 'other line')}" if others > 0 else ""
    problem, hint = f"indented with a tab{more}", "indent with spaces: YAML allows no tabs there"
    mark = Mark(lines[0] if lines else 1, 1)
    try:
        instead = parse(_INDENTED_BY_TAB.sub(lambda found: found[0].replace("\t", " "), text)) if lines else None
    except UnreadableError:
        instead = None
    return UnreadableError(problem, mark, hint=hint, instead=instead)


def duplicates(node: MapNode) -> Iterator[tuple[ScalarNode, ScalarNode]]:
    """Yield each duplicate key, as a pair: the first occurrence, then the duplicate."""
    seen: dict[str, ScalarNode] = {}
    for key, _ in node.entries:
        if key.text in seen:
            yield seen[key.text], key
        seen.setdefault(key.text, key)


def scalars(node: Node) -> Iterator[ScalarNode]:
    """Yield every scalar value at any depth, without the keys."""
    match node:
        case ScalarNode():
            yield node
        case ListNode():
            for item in node.items:
                yield from scalars(item)
        case MapNode():
            for _, value in node.entries:
                yield from scalars(value)


class _PlainLoader(yaml.SafeLoader):
    """Rejects aliases and tags, so that the value is the text as written and cannot expand while it is parsed."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableError("aliases are not supported", _mark(event.start_mark), hint="write the value out")
        if getattr(event, "tag", None) not in {None, "!"}:
            raise UnreadableError("tags are not supported", _mark(event.start_mark), hint="remove what starts with !")
        return super().compose_node(parent, index)


def _node(node: yaml.Node) -> Node:
    mark = _mark(node.start_mark)
    match node:
        case yaml.ScalarNode():
            return ScalarNode(node.value, node.style is not None, mark)
        case yaml.SequenceNode():
            return ListNode(tuple(_node(item) for item in node.value), mark)
        case yaml.MappingNode():
            return MapNode(tuple((_key(key), _node(value)) for key, value in node.value), mark)
        case _:
            raise AssertionError(node)


def _key(node: yaml.Node) -> ScalarNode:
    key = _node(node)
    if isinstance(key, ScalarNode):
        return key
    raise UnreadableError("a key must be a scalar, not a list or a mapping", key.mark, hint="write `name: value`")


def _mark(mark: object) -> Mark:
    """Convert a mark of PyYAML, which counts from zero. Some errors have no mark."""
    return Mark(getattr(mark, "line", 0) + 1, getattr(mark, "column", 0) + 1)


def _mark_at(text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _code_point(error: yaml.reader.ReaderError) -> int:
    return ord(error.character) if isinstance(error.character, str) else error.character


def _sentence(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return ": ".join(parts) or "not valid YAML"
