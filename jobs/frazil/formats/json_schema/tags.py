"""The tags of a JSON Schema: `confluent:tags`, beside the other keywords of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from frazil.formats.json_schema.conjunction import Conjunction, Conjunctions
from frazil.formats.json_schema.documents import Documents, Node
from frazil.formats.json_values.shape import Members

KEYWORD = "confluent:tags"
_DEEPEST = 10
"""Levels of arrays, maps and alternatives in which tags are looked for: they may refer to themselves."""


@dataclass(frozen=True, slots=True)
class Tags:
    """Finds tags in one set of documents."""

    documents: Documents
    schemas: Conjunctions

    def of(self, nodes: Sequence[Node], schema: Conjunction) -> tuple[str, ...]:
        """Return the tags of a property: beside a `$ref`, in what it refers to, in alternatives, and in items."""
        if not self.documents.mentions(KEYWORD):
            return ()
        beside = (_texts(node.raw.get(KEYWORD)) for node in nodes if isinstance(node.raw, dict))
        return tuple(dict.fromkeys(chain(*beside, self._inside(schema, 0))))

    def _inside(self, schema: Conjunction, depth: int) -> Iterator[str]:
        for _, given in schema.with_keyword(KEYWORD):
            yield from _texts(given)
        if depth == _DEEPEST:
            return
        for branch in chain.from_iterable(schema.alternatives):
            yield from self._inside(branch, depth + 1)
        inner = [
            node.child(given) for name in ("items", "additionalProperties") for node, given in _schemas(schema, name)
        ]
        inner += [node.child(each) for node, given in _schemas(schema, "patternProperties") for each in given.values()]
        for each in inner:
            yield from (() if not isinstance(each.raw, dict) else _texts(each.raw.get(KEYWORD)))
            yield from self._inside(self.schemas.of(each, ""), depth + 1)


def _schemas(schema: Conjunction, keyword: str) -> Iterator[tuple[Node, dict[str, object]]]:
    for node, given in schema.with_keyword(keyword):
        if isinstance(given, dict):
            yield node, given


def _texts(given: object) -> list[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def with_tags(members: Members, tags: tuple[str, ...]) -> Members:
    """Return the members of a record with the tags of the record as well."""
    if not tags:
        return members
    return Members(tuple(replace(each, tags=(*each.tags, *tags)) for each in members.fields))
