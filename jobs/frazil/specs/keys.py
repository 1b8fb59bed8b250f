"""Declarations of keys and sections. A section parses its mapping and reports unknown keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Generic, TypeVar, cast

from frazil.model.secret import Secret, SettingValue
from frazil.model.spelling import did_you_mean
from frazil.specs.document import MapNode, Mark, Node, ScalarNode, duplicates, parse
from frazil.specs.placeholders import PlaceholderSources
from frazil.specs.problems import Position, Problems, suggest
from frazil.specs.shapes import At, Choice, HandedOn, JsonSchema, NotYet, Rejected, Shape, describe
from frazil.specs.words_of_others import Hints, squeezed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SENSITIVE = ("password", "secret", "token", "access-key", "credential", "user.info", "authorization")


@dataclass(frozen=True, slots=True)
class Required:
    """The key must be given."""


@dataclass(frozen=True, slots=True)
class Derived:
    """The default follows from other settings, as `sentence` says; the parser treats the key as not given."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """One setting. A default is written as in the file and parsed in the same way."""

    name: str
    shape: Shape[T_co]
    description: str
    default: str | Required | Derived
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Keys (a pattern with *) that other tools support and Frazil does not, and what to do instead."""

    pattern: str
    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a section, by key. `places` has the position of each given key's value."""

    place: Position
    found: Mapping[str, object]
    places: Mapping[str, Position]
    handed_on: Mapping[str, SettingValue]

    def __getitem__(self, key: Key[T]) -> T:
        return cast("T", self.found[key.name])

    def get(self, key: Key[T]) -> T | None:
        """Return the value, or None if it was not given and its default is derived."""
        return cast("T | None", self.found.get(key.name))

    def is_given(self, key: Key[object]) -> bool:
        return key.name in self.places

    def place_of(self, key: Key[object]) -> Position:
        return self.places.get(key.name, self.place)


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with declared keys. Exactly one of the keys in `exactly_one` must be given.

    `example` is shown where something else than a mapping is given. `elsewhere` has hints for keys that other tools or
    other sections have.
    """

    keys: tuple[Key[object], ...]
    not_yet: tuple[NotYet, ...] = ()
    refused: tuple[Refused, ...] = ()
    handed_on: tuple[str, ...] = ()
    exactly_one: tuple[str, ...] = ()
    label: str = "a mapping of keys"
    example: str = "`name: value` lines, with a space after the colon"
    elsewhere: Hints = field(default_factory=dict, hash=False)

    def read(self, node: Node, at: At) -> Values:
        if not isinstance(node, MapNode):
            hint = f"write {self.example}"
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=hint)
        before = len(at.problems.found)
        self._check_names(node, at)
        given = {key.text: value for key, value in node.entries}
        found = dict(self._read_keys(given, node.mark, at))
        handed_on = dict(self._read_handed_on(given, at))
        if len(at.problems.found) > before:
            raise Rejected(at.path)
        places = {key.name: at.under(key.name).place(given[key.name].mark) for key in self.keys if key.name in given}
        return Values(at.place(node.mark), found, places, handed_on)

    def _read_keys(self, given: Mapping[str, Node], mark: Mark, at: At) -> Iterator[tuple[str, object]]:
        for key in self.keys:
            try:
                if key.name in given:
                    yield key.name, key.shape.read(given[key.name], at.under(key.name))
                elif isinstance(key.default, str):
                    yield key.name, default_of(key, at)
                elif isinstance(key.default, Required) and not self._is_misspelt(key.name, given):
                    at.under(key.name).reject(mark, "required key is missing", hint=key.description)
            except Rejected:
                continue

    def _is_misspelt(self, missing: str, given: Mapping[str, Node]) -> bool:
        """Return whether an unknown key is likely a misspelling of `missing`, so that only one problem is reported."""
        known = [key.name for key in self.keys]
        return any(did_you_mean(name, known) == missing for name in given if name not in known)

    def _read_handed_on(self, given: Mapping[str, Node], at: At) -> Iterator[tuple[str, SettingValue]]:
        for name, node in given.items():
            if not name.startswith(self.handed_on) or not self.handed_on:
                continue
            try:
                value = HandedOn().read(node, at.under(name))
            except Rejected:
                continue
            yield name, Secret(value) if isinstance(value, str) and is_sensitive(name) else value

    def _check_names(self, node: MapNode, at: At) -> None:
        for first, again in duplicates(node):
            what = f"duplicate key; first on line {first.mark.line}"
            at.under(again.text).reject(again.mark, what, hint="keep one of them")
        names = {key.text: key for key, _ in node.entries}
        for name, value in node.entries:
            self._check_name(name, value, at)
        chosen = [name for name in self.exactly_one if name in names]
        if self.exactly_one and len(chosen) != 1:
            choices = " or ".join(self.exactly_one)
            mark = names[chosen[-1]].mark if chosen else node.mark
            at.reject(mark, f"exactly one of {choices} must be given, found {len(chosen)}", hint=f"give {choices}")

    def _check_name(self, key: ScalarNode, value: Node, at: At) -> None:
        name, here = key.text, at.under(key.text)
        known = [declared.name for declared in self.keys]
        if name in known or (self.handed_on and name.startswith(self.handed_on)):
            return
        for planned in self.not_yet:
            if planned.name == name:
                if not (isinstance(value, ScalarNode) and value.is_null()):
                    here.reject(key.mark, "this key is not supported in this release", hint=planned.instead)
                return
        for refused in self.refused:
            if fnmatchcase(name.lower(), refused.pattern):
                here.reject(key.mark, refused.why, hint=refused.hint)
                return
        here.reject(key.mark, "unknown key", hint=self.elsewhere.get(squeezed(name)) or suggest(name, known))

    def json_schema(self) -> JsonSchema:
        required = [key.name for key in self.keys if isinstance(key.default, Required)]
        schema: JsonSchema = {
            "type": "object",
            "properties": {key.name: key_schema(key) for key in self.keys},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        if self.exactly_one:
            schema["oneOf"] = [{"required": [name]} for name in self.exactly_one]
        if self.handed_on:
            schema["patternProperties"] = {f"^{prefix}": HandedOn().json_schema() for prefix in self.handed_on}
        return schema


@dataclass(frozen=True, slots=True)
class Built(Generic[T]):
    """A section that is converted to one value."""

    section: Section
    build: Callable[[Values], T]

    @property
    def label(self) -> str:
        return self.section.label

    def read(self, node: Node, at: At) -> T:
        return self.build(self.section.read(node, at))

    def json_schema(self) -> JsonSchema:
        return self.section.json_schema()


@dataclass(frozen=True, slots=True)
class WordOr(Generic[T]):
    """One of a few words, each with its value, or a mapping that is converted to a value."""

    words: Mapping[str, T] = field(hash=False)
    mapping: Built[T]

    @property
    def label(self) -> str:
        section = self.mapping.section
        names = [f"{key.name}: …" for key in section.keys]
        mappings = names if section.exactly_one else [", ".join(names)]
        return " or ".join((", ".join(self.words), *(f"{{{mapping}}}" for mapping in mappings)))

    def read(self, node: Node, at: At) -> T:
        if isinstance(node, MapNode):
            return self.mapping.read(node, at)
        names = [key.name for key in self.mapping.section.keys]
        if isinstance(node, ScalarNode) and node.text in names:
            hint = f"write {{{node.text}: …}}"
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=hint)
        if not isinstance(node, ScalarNode) or node.is_null():
            hint = f"use one of: {self.label}"
            raise at.reject(node.mark, f"expected {self.label}, found {describe(node)}", hint=hint)
        possible = self.label.replace("{name: …}", f"{{name: {node.text}}}")
        return self.words[Choice(tuple(self.words)).read_as(node, at, expected=self.label, possible=possible)]

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [{"enum": list(self.words)}, self.mapping.json_schema()]}


def default_of(key: Key[T], at: At) -> T:
    """Return the default, parsed as if it were in the file."""
    assert isinstance(key.default, str), f"{key.name} has no default of its own"  # noqa: S101 - narrows the type
    return key.shape.read(parse(key.default), at.under(key.name))


def nowhere(file: str = "the declaration") -> At:
    """Return a position for parsing defaults, without environment variables and secrets."""
    return At(file, Path(), PlaceholderSources({}, NoSecrets()), Problems())


class NoSecrets:
    """A source without secrets."""

    def read(self, name: str) -> str | None:
        return None


def is_sensitive(name: str) -> bool:
    """Return whether a key's name suggests that its value is a secret."""
    return any(word in name.lower() for word in SENSITIVE)


def key_schema(key: Key[object]) -> JsonSchema:
    """Return the key's part of the JSON schema; `${…}` is allowed for every scalar."""
    unit = f" Unit: {key.unit}." if key.unit else ""
    shape = key.shape.json_schema()
    if "enum" in shape or shape.get("type") in ("integer", "boolean"):
        shape = {"anyOf": [shape, {"type": "string", "pattern": r"\$\{.+\}"}]}
    schema: JsonSchema = {"description": key.description + unit, **shape}
    if isinstance(key.default, str):
        schema["default"] = _plain(parse(key.default))
    return schema


def _plain(node: Node) -> object:
    match node:
        case ScalarNode():
            return int(node.text) if node.text.isdigit() and not node.quoted else node.text
        case MapNode():
            return {key.text: _plain(value) for key, value in node.entries}
        case _:
            return [_plain(item) for item in node.items]
