"""Types of values: each parses a value, has a label for the reference, and has a JSON schema for editors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from frazil.model.errors import Misuse, SettingError
from frazil.model.secret import DeferredSecret, Secret, SettingValue
from frazil.model.spelling import did_you_mean
from frazil.specs.document import ListNode, MapNode, Mark, Node, ScalarNode, duplicates
from frazil.specs.placeholders import Expanded, PlaceholderSources, UnfilledError, check_placeholders
from frazil.specs.problems import Position, Problem, Problems, suggest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
JsonSchema = dict[str, object]


class Rejected(Exception):  # noqa: N818 - not a failure of its own: the problem has been noted already
    """The value is invalid. The reason has been added to the problems."""


@dataclass(frozen=True, slots=True)
class At:
    """The position of the parser: the file and the path of keys, with the sources of placeholders and the problems."""

    file: str
    folder: Path
    sources: PlaceholderSources
    problems: Problems
    path: str = ""

    def under(self, name: str) -> At:
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> At:
        return replace(self, path=f"{self.path}[{index}]")

    def place(self, mark: Mark) -> Position:
        return Position(self.file, mark.line, mark.column, self.path)

    def reject(self, mark: Mark, what: str, *, hint: str, error: type[Misuse] = SettingError) -> Rejected:
        """Note a problem. The caller raises the returned exception, or continues to find more problems."""
        self.problems.add(Problem(self.place(mark), what, hint, error))
        return Rejected(what)

    def expanded(self, node: Node, *, expected: str) -> Expanded:
        """Return the text of a scalar with its placeholders filled in."""
        if not isinstance(node, ScalarNode) or node.is_null():
            raise self.reject(node.mark, f"expected {expected}, found {describe(node)}", hint=_empty_hint(node))
        try:
            return self.sources.expand(node.text)
        except UnfilledError as error:
            raise self.reject(node.mark, error.what, hint=error.hint) from error

    def printable(self, node: Node, *, expected: str) -> Expanded:
        """Return the value as `expanded` does, but reject secrets, for settings that plans and logs print."""
        value = self.expanded(node, expected=expected)
        if value.is_secret:
            hint = "use ${env:NAME}, or write the value out"
            raise self.reject(
                node.mark, "a secret cannot be used here: this value is shown in plans and logs", hint=hint
            )
        return value


def absolute(folder: Path, text: str) -> str:
    """Return the absolute path of a path that is relative to a folder."""
    return os.path.normpath((folder / text).absolute())


def describe(node: Node) -> str:
    match node:
        case ScalarNode():
            return "nothing" if node.is_null() else f'"{node.text}"'
        case ListNode():
            return "a list"
        case MapNode():
            return "a mapping"


def _empty_hint(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return "give it a value, or remove the key to have its default"
    return "write the value right after the colon"


class Shape(Protocol[T_co]):
    """The type of a value."""

    @property
    def label(self) -> str:
        """The name in the reference and in messages, such as "a duration" or "one of a, b"."""
        ...

    def read(self, node: Node, at: At) -> T_co:
        """Parse a node. Raises Rejected after noting every problem."""
        ...

    def json_schema(self) -> JsonSchema: ...


class Unfit(ValueError):  # noqa: N818 - raised by the small parsers below, never seen outside
    """A text is invalid; the message is the hint."""


@dataclass(frozen=True, slots=True)
class Scalar(Generic[T]):
    """A value that one function parses from its text. `numeric`: quoted text is rejected, as it is not a number.

    `for_lists` is the hint if the value is a list.
    """

    label: str
    parse: Callable[[str], T]
    schema: Mapping[str, object] = field(default_factory=dict, hash=False)
    numeric: bool = False
    for_lists: str = ""

    def read(self, node: Node, at: At) -> T:
        if self.for_lists and isinstance(node, ListNode):
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=self.for_lists)
        value = at.printable(node, expected=self.label)
        if self.numeric and isinstance(node, ScalarNode) and node.quoted and "${" not in node.text:
            raise at.reject(node.mark, f"expected {self.label}, found the text {value.shown}", hint="remove the quotes")
        try:
            return self.parse(value.text)
        except Unfit as error:
            raise at.reject(node.mark, f"expected {self.label}, found {value.shown}", hint=str(error)) from error

    def json_schema(self) -> JsonSchema:
        return dict(self.schema) or {"type": "string"}


@dataclass(frozen=True, slots=True)
class OrNull(Generic[T]):
    """A value, or null where it is not set."""

    shape: Shape[T]

    @property
    def label(self) -> str:
        return f"{self.shape.label}, or null"

    def read(self, node: Node, at: At) -> T | None:
        return None if isinstance(node, ScalarNode) and node.is_null() else self.shape.read(node, at)

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [self.shape.json_schema(), {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class NotYet:
    """A planned value or key that this release rejects, and what to use instead; * matches every other word."""

    name: str
    instead: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words. `ignore_case`: any case is accepted, as in librdkafka; the word is passed on unchanged.

    `elsewhere` has words that other tools use, with what to write here.
    """

    words: tuple[str, ...]
    not_yet: tuple[NotYet, ...] = ()
    ignore_case: bool = False
    elsewhere: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return self.words[0] if len(self.words) == 1 else f"one of {', '.join(self.words)}"

    def read(self, node: Node, at: At) -> str:
        return self.read_as(node, at, expected=self.label, possible=", ".join(self.words))

    def read_as(self, node: Node, at: At, *, expected: str, possible: str) -> str:
        value = at.printable(node, expected=expected)
        if value.text in self.words or (self.ignore_case and self._has(value.text)):
            return value.text
        names = {each.name.lower(): each for each in self.not_yet}
        planned = names.get(value.text.lower()) or names.get("*")
        if planned is not None:
            name = value.shown if planned.name == "*" else planned.name
            raise at.reject(node.mark, f"{name} is not supported in this release", hint=planned.instead)
        raise at.reject(
            node.mark, f"expected {expected}, found {value.shown}", hint=self._suggest(value.text, possible)
        )

    def _has(self, text: str) -> bool:
        return text.lower() in {word.lower() for word in self.words}

    def _suggest(self, text: str, possible: str) -> str:
        for word, instead in self.elsewhere:
            if text.lower() == word:
                return instead
        planned = {each.name: each for each in self.not_yet}
        likely = did_you_mean(text, (*self.words, *planned))
        if likely in planned:
            return f"did you mean {likely}? It is not supported in this release: {planned[likely].instead}"
        return suggest(text, self.words, possible=possible)

    def json_schema(self) -> JsonSchema:
        words = dict.fromkeys((*self.words, *(word.lower() for word in self.words if self.ignore_case)))
        return {"enum": list(words)}


@dataclass(frozen=True, slots=True)
class SecretText:
    """A text that is never shown, even if the file contains it directly."""

    label: str = "secret text"

    def read(self, node: Node, at: At) -> Secret:
        return Secret(at.expanded(node, expected="text").text)

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "number"]}


@dataclass(frozen=True, slots=True)
class LaterSecret:
    """A text that is never shown and whose placeholders are filled in at each use."""

    label: str = "secret text"

    def read(self, node: Node, at: At) -> DeferredSecret:
        if not isinstance(node, ScalarNode) or node.is_null():
            raise at.reject(node.mark, f"expected text, found {describe(node)}", hint=_empty_hint(node))
        text, place = node.text, at.place(node.mark)
        try:
            check_placeholders(text)
        except UnfilledError as error:
            raise at.reject(node.mark, error.what, hint=error.hint) from error

        def look_up() -> Secret:
            try:
                return Secret(at.sources.expand(text).text)
            except UnfilledError as error:
                raise SettingError(f"{place}: {error.what}", hint=error.hint) from error

        return DeferredSecret(look_up)

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A path of a file whose text is never shown and is read at each use. `if_lost` completes the hint."""

    label: str = "a path"
    if_lost: str = ""

    def read(self, node: Node, at: At) -> DeferredSecret:
        path, place = FilePath().read(node, at), at.place(node.mark)

        def look_up() -> Secret:
            try:
                return Secret(Path(path).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as problem:
                why = problem.strerror if isinstance(problem, OSError) else "it is no text"
                raise SettingError(f"{place}: could not read {path}: {why}", hint=self._hint(path)) from problem

        return DeferredSecret(look_up)

    def _hint(self, path: str) -> str:
        known = f"`ls -l {path}` shows who may read it" if Path(path).exists() else "correct the path"
        return f"{known}, or {self.if_lost}" if self.if_lost else known

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A text that is passed to a library uninterpreted; a secret stays a Secret."""

    label: str = "text"

    def read(self, node: Node, at: At) -> SettingValue:
        value = at.expanded(node, expected="text")
        return Secret(value.text) if value.is_secret else value.text

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path; a relative one is relative to the folder of the file that contains it. `words` are not paths."""

    label: str = "a path"
    words: tuple[str, ...] = ()

    def read(self, node: Node, at: At) -> str:
        text = at.printable(node, expected=self.label).text
        if text in self.words:
            return text
        if text.startswith("~"):
            raise at.reject(node.mark, f'"{text}": ~ is not a folder here', hint="write ${env:HOME}/… instead")
        return absolute(at.folder, text)

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list. A single value without brackets is rejected, so that there is only one syntax."""

    element: Shape[T]
    at_least_one: bool = False
    example: str = "[first, second]"

    @property
    def label(self) -> str:
        return f"a list, each {self.element.label}"

    def read(self, node: Node, at: At) -> tuple[T, ...]:
        if not isinstance(node, ListNode):
            hint = f"write [{node.text}]" if isinstance(node, ScalarNode) and node.text else f"write {self.example}"
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=hint)
        if self.at_least_one and not node.items:
            raise at.reject(node.mark, "the list is empty", hint="give at least one")
        values: list[T] = []
        for index, item in enumerate(node.items):
            try:
                values.append(self.element.read(item, at.item(index)))
            except Rejected:
                continue
        if len(values) < len(node.items):
            raise Rejected(at.path)
        self._check_unique(values, node, at)
        return tuple(values)

    def _check_unique(self, values: list[T], node: ListNode, at: At) -> None:
        for index, value in enumerate(values):
            if value in values[:index]:
                hint = "keep one of them"
                raise at.item(index).reject(node.items[index].mark, f"duplicate {value} in the list", hint=hint)

    def json_schema(self) -> JsonSchema:
        return {"type": "array", "items": self.element.json_schema()} | ({"minItems": 1} if self.at_least_one else {})


@dataclass(frozen=True, slots=True)
class MapOf(Generic[T]):
    """A mapping with free names, which have one shape; the values have another."""

    name: Shape[str]
    element: Shape[T]

    @property
    def label(self) -> str:
        return f"a mapping from {self.name.label} to {self.element.label}"

    def read(self, node: Node, at: At) -> Mapping[str, T]:
        if not isinstance(node, MapNode):
            hint = "write `name: value` lines, with a space after the colon"
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=hint)
        for first, again in duplicates(node):
            what = f"duplicate key; first on line {first.mark.line}"
            at.under(again.text).reject(again.mark, what, hint="keep one of them")
        values: dict[str, T] = {}
        for name, value in node.entries:
            try:
                values[self.name.read(name, at)] = self.element.read(value, at.under(name.text))
            except Rejected:
                continue
        if len(values) < len(node.entries):
            raise Rejected(at.path)
        return values

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "additionalProperties": self.element.json_schema()}
