"""The documents of a schema: its own text and those of its references, and where a `$ref` points to.

URIs and anchors follow the JSON Schema core specifications ("Schema Identification"). Nothing is fetched: a `$ref` to
another document finds it by the name of a registry reference, or by the document's own `$id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urldefrag, urljoin

from frazil.formats.json_schema.drafts import UNNAMED, Draft, draft_of
from frazil.model.schemas import Reference, SchemaFinding

DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are no schemas."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A schema inside a document, by the document's name. `base` is the URI that a `$ref` in it is relative to."""

    raw: object
    document: str
    base: str
    draft: Draft

    def child(self, raw: object) -> Node:
        """Return a schema inside this one."""
        return Node(raw, self.document, _base(raw, self.base, self.draft), self.draft)

    def get(self, keyword: str) -> object:
        return self.raw.get(keyword) if isinstance(self.raw, dict) else None


class Documents:
    """All documents of one schema. `problems` and `notes` are found while they are read."""

    def __init__(self, text: str, references: Iterable[Reference]) -> None:
        self.problems: list[SchemaFinding] = []
        self.notes: list[SchemaFinding] = []
        self._texts: list[str] = []
        self._mentioned: dict[str, bool] = {}
        """By keyword: each property asks, and a look through the texts takes as long as they are."""
        self._by_uri: dict[str, Node] = {}
        self._own: dict[tuple[str, str], Node] = {}
        """By document and URI: versions of a document often have one `$id`, and each means itself by it."""
        self._anchors: dict[tuple[str, str, str], Node] = {}
        self.root = self._add("", text)
        for reference in references:
            self._add(reference.name, reference.text)

    def mentions(self, keyword: str) -> bool:
        """Return whether a document may contain the keyword, without reading its schemas."""
        if keyword not in self._mentioned:
            self._mentioned[keyword] = any(keyword in text or "\\u" in text for text in self._texts)
        return self._mentioned[keyword]

    def resolve(self, node: Node, ref: str) -> Node | None:
        """Return the schema that a `$ref` in `node` points to; None if there is none."""
        uri, fragment = urldefrag(node.base + ref if ref.startswith("#") else urljoin(node.base, ref))
        own = self._own.get((node.document, uri))
        document = own or self._by_uri.get(uri) or self._by_uri.get(urldefrag(ref)[0])
        if document is None or not fragment:
            return document
        if fragment.startswith("/"):
            return _at(document, unquote(fragment))
        return self._anchors.get((document.document, document.base, unquote(fragment)))

    def _add(self, name: str, text: str) -> Node:
        """Read one document, known by the name that other documents use for it."""
        self._texts.append(text)
        where = f"reference {name}" if name else ""
        raw: object = True
        try:
            raw = json.loads(text)
            json.dumps(raw, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        except (ValueError, RecursionError) as error:
            self.problems.append(SchemaFinding(where, f"not JSON: {error}"))
        draft = draft_of(raw)
        if draft is None:
            self.notes.append(SchemaFinding(where, f"the draft in $schema is unknown: read as {UNNAMED.name}"))
        root = Node(raw, name, name, draft or UNNAMED)
        for schema in _schemas_in(root.child(raw)):
            self._by_uri.setdefault(schema.base, schema)
            self._own.setdefault((name, schema.base), schema)
            for anchor in _anchors_of(schema):
                self._anchors.setdefault((name, schema.base, anchor), schema)
        return self._by_uri.setdefault(name, root.child(raw))


def _schemas_in(node: Node) -> Iterator[Node]:
    """Yield all schemas of a document, the root first. Other objects in it are harmless: they name no URI."""
    waiting = [node]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema.raw, dict):
            yield schema
            inside = [value for keyword, value in schema.raw.items() if keyword not in DATA]
        else:
            inside = schema.raw if isinstance(schema.raw, list) else []
        waiting += [schema.child(value) for value in reversed(inside) if isinstance(value, dict | list)]


def _base(raw: object, base: str, draft: Draft) -> str:
    """Return the URI of a schema: its own, or else that of the schema around it."""
    uri = raw.get(draft.id_key) if isinstance(raw, dict) else None
    return urldefrag(urljoin(base, uri))[0] if isinstance(uri, str) and not uri.startswith("#") else base


def _anchors_of(schema: Node) -> Iterator[str]:
    for keyword in ("$anchor", "$dynamicAnchor"):
        anchor = schema.get(keyword)
        if isinstance(anchor, str):
            yield anchor
    uri = schema.get(schema.draft.id_key)
    if isinstance(uri, str) and uri.startswith("#"):
        yield uri[1:]


def _at(document: Node, pointer: str) -> Node | None:
    """Return the schema at a JSON pointer (RFC 6901)."""
    node = document
    for step in pointer.split("/")[1:]:
        inside = _step(node.raw, step.replace("~1", "/").replace("~0", "~"))
        if inside is None:
            return None
        node = node.child(inside)
    return node


def _step(raw: object, step: str) -> object | None:
    if isinstance(raw, Mapping):
        return raw.get(step)
    if not isinstance(raw, list) or not step.isdecimal() or len(step) > len(str(len(raw))):
        return None
    return raw[int(step)] if int(step) < len(raw) else None
