"""The tags of a JSON Schema: `confluent:tags`, beside the other keywords of a schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.json_schema.conjunction import REFS
from frazil.formats.json_schema.documents import DATA, Documents, Node
from frazil.formats.json_values.shape import Members
from frazil.formats.tags import TAGS, tags_of

_ELSEWHERE = frozenset({"properties", "$defs", "definitions", TAGS}) | DATA
"""Keywords with schemas of other columns, with schemas that only a `$ref` uses, and with values that are no schemas."""

_UNDECLARED = frozenset({"patternProperties", "additionalProperties", "unevaluatedProperties"})
"""Keywords with schemas of values that are undeclared fields if there are properties too: these are JSON text."""

_ITEMS = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"})

_NAMED = frozenset({"patternProperties", "dependentSchemas", "dependencies"})
"""Keywords with schemas by names."""

_DIFFERS = re.compile(r"\\[sSAzQC]")
"""What RE2 knows with another meaning than ECMA-262, whose patterns those of JSON Schema are."""


@dataclass(frozen=True, slots=True)
class Tags:
    """Finds tags in one set of documents.

    `around` are the schemas of an object or an array. A part of it has further schemas than those that always count:
    those that an alternative, a condition or a pattern gives it.
    """

    documents: Documents

    def of(self, nodes: Sequence[Node]) -> tuple[str, ...]:
        """Return the tags of a value: of its own schemas, of alternatives and conditions, and of items and entries."""
        if not self.documents.mentions(TAGS):
            return ()
        found = (tags_of(node.raw) for node in self._reached(nodes, _ELSEWHERE) if isinstance(node.raw, dict))
        return tuple(dict.fromkeys(tag for tags in found for tag in tags))

    def property_schemas(self, keys: Sequence[str], around: Sequence[Node]) -> dict[str, list[Node]]:
        """Return by property the schemas that may give it tags. All are found in one walk: there may be thousands."""
        found: dict[str, list[Node]] = {key: [] for key in keys}
        texts = _as_texts(keys)
        for node in self._of_one_value(around) if keys else ():
            for key, child in _of_properties(node, found, texts):
                found[key].append(child)
        return found

    def inner_schemas(self, around: Sequence[Node]) -> list[Node]:
        """Return the schemas of items, or of the values of a map, that may give them tags."""
        parts = ((node, node.get(keyword)) for node in self._of_one_value(around) for keyword in _ITEMS | _UNDECLARED)
        return [node.child(given) for node, given in parts if isinstance(given, dict | list)]

    def _of_one_value(self, around: Sequence[Node]) -> Iterator[Node]:
        if self.documents.mentions(TAGS):
            yield from self._reached(around, _ELSEWHERE | _UNDECLARED | _ITEMS)

    def _reached(self, nodes: Sequence[Node], without: frozenset[str]) -> Iterator[Node]:
        """Yield all schemas inside these and those that they refer to, each once."""
        seen: set[int] = set()
        waiting = list(reversed(nodes))
        while waiting:
            node = waiting.pop()
            if id(node.raw) in seen:
                continue
            seen.add(id(node.raw))
            yield node
            waiting += reversed(list(self._inside(node, without)))

    def _inside(self, node: Node, without: frozenset[str]) -> Iterator[Node]:
        if isinstance(node.raw, list):
            yield from (node.child(each) for each in node.raw if isinstance(each, dict | list))
        if not isinstance(node.raw, dict):
            return
        hidden = without | (_UNDECLARED if "properties" in node.raw else frozenset())
        for keyword, given in node.raw.items():
            if keyword in REFS and isinstance(given, str):
                target = self.documents.resolve(node, given)
                yield from [target] if target is not None else []
            elif keyword in _NAMED - hidden and isinstance(given, dict):
                yield from (node.child(each) for each in given.values())
            elif keyword not in hidden and isinstance(given, dict | list):
                yield node.child(given)


def _of_properties(node: Node, keys: Collection[str], texts: pa.StringArray | None) -> Iterator[tuple[str, Node]]:
    """Yield the schemas of properties with these names, which `texts` are, in the schema of an object."""
    named, patterns = node.get("properties"), node.get("patternProperties")
    if isinstance(named, dict):
        yield from ((key, node.child(raw)) for key, raw in named.items() if key in keys)
    if isinstance(patterns, dict):
        for pattern, raw in patterns.items():
            yield from ((key, node.child(raw)) for key in _may_match(pattern, keys, texts))


def _as_texts(keys: Sequence[str]) -> pa.StringArray | None:
    """Return the names as RE2 reads them; None if one has half of a surrogate pair."""
    try:
        return pa.array([*keys], pa.string())
    except ValueError:
        return None


def _may_match(pattern: str, keys: Collection[str], texts: pa.StringArray | None) -> Collection[str]:
    """Return the properties that a pattern may match: all if RE2, whose time is linear, cannot read it or differs."""
    if texts is None or _DIFFERS.search(pattern):
        return keys
    try:
        matches = pc.match_substring_regex(texts, pattern)
    except ValueError:
        return keys
    return [key for key, matched in zip(keys, matches.to_pylist(), strict=True) if matched]


def with_tags(members: Members, tags: tuple[str, ...]) -> Members:
    """Return the members of a record with the tags of the record as well."""
    if not tags:
        return members
    return Members(tuple(replace(each, tags=(*each.tags, *tags)) for each in members.fields))
