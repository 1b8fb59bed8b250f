"""The shape of a row, from the text of its JSON Schema.

A value that a schema allows has a place in the shape; constraints such as `required` or `maxLength` have no effect on
it. Recursion is cut off, so the tree is finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from frazil.formats.connect import ConnectType, ConnectTypes, connect_type
from frazil.formats.json_schema.conjunction import Conjunction, Conjunctions
from frazil.formats.json_schema.documents import Documents, Node
from frazil.formats.json_schema.scalars import SCALARS, common, named_types, scalar_of
from frazil.formats.json_schema.tags import Tags, with_tags
from frazil.formats.json_values.shape import (
    EXTRA,
    JSON_TEXT,
    Entries,
    Items,
    Leaf,
    Member,
    Members,
    Money,
    Nothing,
    Row,
    Shape,
    has_objects,
)
from frazil.formats.limits import MAX_COLUMNS, MAX_NESTING, RECURSION_LEVELS
from frazil.formats.mapped import LEFT_OUT, VALUE
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import Reference, SchemaFinding

_OBJECT, _ARRAY = frozenset({"object"}), frozenset({"array"})
_NAMED = ("title", "connect.parameters")


@dataclass(frozen=True, slots=True)
class Expanded:
    """The shape of one row. `findings`: why no table can hold it; `notes`: what a table holds less exactly.

    `unmapped` are the paths of the values that no column can hold. `title` names the type of the record, and `types`
    are the titles of the types in it.
    """

    row: Row
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...]
    unmapped: frozenset[str]
    title: str | None
    types: ConnectTypes


def expand(text: str, references: Iterable[Reference] = (), *, string_formats: bool = True) -> Expanded:
    """Read a schema. `references` are the documents that it uses, by the names that it uses for them.

    Raises IncompatibleSchemaError with every problem if the text is no schema.
    """
    documents = Documents(text, references)
    expansion = _Expansion(documents, string_formats=string_formats)
    try:
        row = expansion.row(documents.root)
    except RecursionError:
        documents.problems.append(SchemaFinding("", "schemas are nested too deeply to be read"))
    if documents.problems:
        raise _refused(dict.fromkeys(documents.problems))
    title = documents.root.get("title")
    notes = tuple(dict.fromkeys((*documents.notes, *expansion.notes)))
    unmapped, name = frozenset(expansion.unmapped), title if isinstance(title, str) else None
    return Expanded(row, tuple(expansion.findings), notes, unmapped, name, expansion.types)


def _refused(problems: Iterable[SchemaFinding]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        "not a valid JSON Schema: " + "; ".join(map(str, problems)),
        hint="compare the registered schema with the specification of its draft and register a corrected one, with a"
        " reference for each document that it uses: Frazil fetches none.",
    )


def refuse(findings: Iterable[SchemaFinding]) -> IncompatibleSchemaError:
    """Return the error for a schema that is valid but that a table cannot hold."""
    return IncompatibleSchemaError(
        "the JSON Schema cannot become columns: " + "; ".join(map(str, findings)),
        hint="register a schema without these, or read the topic with another value format.",
    )


class _Expansion:
    """Builds shapes. `inside` are the schemas around one that a `$ref` led to, which shows recursion."""

    def __init__(self, documents: Documents, *, string_formats: bool) -> None:
        self.findings: list[SchemaFinding] = []
        self.notes: list[SchemaFinding] = []
        self.types: dict[str, ConnectType] = {}
        self.unmapped: set[str] = set()
        self._schemas = Conjunctions(documents)
        self._tags = Tags(documents)
        self._string_formats = string_formats
        self._columns = 0

    def row(self, root: Node) -> Row:
        schema, inside = self._schemas.of(root, ""), (id(root.raw),)
        types = named_types(schema)
        if types == _OBJECT and not self._map_values(schema, ""):
            members = self._members(schema, "", (*inside, *schema.targets))
            if members.fields or not schema.alternatives:
                self._note_extra(members)
                members = with_tags(members, self._tags.of([root]))
                return Row(members, is_object=True, keeps_extra=True)
        shape = self._shape(schema, VALUE, inside)
        member = Member(VALUE, VALUE, shape, tags=self._tags.of([root]))
        return Row(Members((member,)), is_object=False, keeps_extra=has_objects(shape))

    def _shape(self, schema: Conjunction, path: str, inside: tuple[int, ...]) -> Shape:
        if not self._has_room(path, inside):
            return JSON_TEXT
        if any(inside.count(target) >= RECURSION_LEVELS for target in schema.targets):
            self._tell(path, f"a type inside itself: JSON text from the level {RECURSION_LEVELS + 1} on")
            return JSON_TEXT
        self._note_type(schema, path)
        types, inside = named_types(schema), (*inside, *schema.targets)
        if types == _OBJECT:
            return self._object(schema, path, inside)
        if types == _ARRAY:
            return self._array(schema, path, inside)
        return self._leaf(schema, types, path)

    # --- values without parts

    def _leaf(self, schema: Conjunction, types: frozenset[str] | None, path: str) -> Shape:
        if types is not None and not types:
            return Nothing()
        leaf = self._alternatives(schema) if types is None else self._scalar(schema, types)
        if leaf == JSON_TEXT:
            self._tell(path, "values of any type, or of several: JSON text")
        return leaf

    def _scalar(self, schema: Conjunction, types: frozenset[str]) -> Leaf | Money:
        return scalar_of(schema, types, string_formats=self._string_formats) or JSON_TEXT

    def _alternatives(self, schema: Conjunction) -> Leaf | Money | Nothing:
        """Return the leaf of a schema of which only alternatives say the type."""
        if len(schema.alternatives) != 1:
            return JSON_TEXT
        return common(self._alternative(branch) for branch in schema.alternatives[0])

    def _alternative(self, branch: Conjunction) -> Leaf | Money | Nothing:
        types = named_types(branch)
        if types is None:
            return self._alternatives(branch)
        return self._scalar(branch, types) if types <= SCALARS else JSON_TEXT

    # --- arrays and objects

    def _array(self, schema: Conjunction, path: str, inside: tuple[int, ...]) -> Shape:
        given = list(schema.with_keyword("items"))
        if schema.has("prefixItems") or any(isinstance(items, list) for _, items in given):
            self._tell(path, "an array whose items have types of their own: JSON text")
            return JSON_TEXT
        items = self._schemas.of_all([node.child(each) for node, each in given], path + "[]")
        items.tagging = self._tags.inner_schemas([*schema.nodes, *schema.tagging])
        element = self._shape(items, path + "[]", (*inside, 0))
        return Items(JSON_TEXT if isinstance(element, Nothing) else element)

    def _object(self, schema: Conjunction, path: str, inside: tuple[int, ...]) -> Shape:
        members = self._members(schema, path, (*inside, 0))
        if members.with_data():
            self._note_alternatives(schema, path)
            return members
        values = [] if schema.alternatives or members.fields else self._map_values(schema, path)
        if not values:
            self._tell(path, "an object without declared properties: JSON text")
            return JSON_TEXT
        for each in values:
            each.tagging = self._tags.inner_schemas([*schema.nodes, *schema.tagging])
        shapes = {self._shape(each, path + "{}", (*inside, 0)) for each in values}
        value = shapes.pop() if len(shapes) == 1 else JSON_TEXT
        return Entries(JSON_TEXT if isinstance(value, Nothing) else value)

    def _map_values(self, schema: Conjunction, path: str) -> list[Conjunction]:
        """Return the schemas of the values of an object without declared properties; empty if it is no map."""
        if any(given for _, given in schema.with_keyword("properties")):
            return []
        patterns = [
            self._schemas.of(node.child(each), path + "{}")
            for node, given in schema.with_keyword("patternProperties")
            for each in (given.values() if isinstance(given, dict) else ())
        ]
        others = [(node, given) for node, given in schema.with_keyword("additionalProperties") if given is not True]
        declared = [node.child(given) for node, given in others if given is not False]
        if declared:
            return [*patterns, self._schemas.of_all(declared, path + "{}")]
        return [*patterns, *([] if others else [Conjunction()])] if patterns else []

    def _members(self, schema: Conjunction, path: str, inside: tuple[int, ...]) -> Members:
        declared: dict[str, list[Node]] = {}
        for node, given in schema.with_keyword("properties"):
            for name, raw in given.items() if isinstance(given, dict) else ():
                declared.setdefault(name, []).append(node.child(raw))
        lists = (given for _, given in schema.with_keyword("required") if isinstance(given, list))
        required = {name for given in lists for name in given if isinstance(name, str)}
        tagging = self._tags.property_schemas([*declared], [*schema.nodes, *schema.tagging])
        found = [
            replace(member, is_required=name in required and not any(_allows_null(node.raw) for node in nodes))
            for name, nodes in _in_order(declared)
            for member in self._member(name, nodes, tagging[name], path, inside)
        ]
        self._note_names(found, path)
        return Members(tuple(found))

    def _member(
        self, key: str, nodes: list[Node], tagging: list[Node], path: str, inside: tuple[int, ...]
    ) -> Iterator[Member]:
        """Yield the member of a property, to which `tagging` may give tags; none if no value is allowed for it."""
        name = column_name(key)
        here = f"{path}.{name}" if path else name
        schema = self._schemas.of_all(nodes, here)
        if schema.is_never:
            return
        schema.tagging = tagging
        shape = self._shape(schema, here, inside)
        if isinstance(shape, Nothing):
            self._tell(here, LEFT_OUT)
        doc = schema.first("description")
        tags = self._tags.of([*nodes, *schema.tagging])
        has_default = any(node.get("default") is not None for node in nodes)
        doc = doc if isinstance(doc, str) else None
        yield Member(key, name, shape, doc, tags, has_default=has_default, index=_index(nodes))

    # --- limits and notes

    def _has_room(self, path: str, inside: tuple[int, ...]) -> bool:
        self._columns += 1
        levels = inside.count(0)
        if self._columns == MAX_COLUMNS + 1:
            self._note(path, f"more than {MAX_COLUMNS} columns")
        if self._columns <= MAX_COLUMNS and levels > MAX_NESTING:
            self._note(path, f"nested deeper than {MAX_NESTING} levels")
        has_room = self._columns <= MAX_COLUMNS and levels <= MAX_NESTING
        if not has_room:
            self.unmapped.add(path)
        return has_room

    def _note_type(self, schema: Conjunction, path: str) -> None:
        """Note a title. Kafka Connect's converter writes the names of types as titles, with their parameters beside."""
        named = connect_type({each: schema.first(each) for each in _NAMED}, *_NAMED)
        if named is not None:
            self.types[path] = named

    def _note_alternatives(self, schema: Conjunction, path: str) -> None:
        if any(branch.has("properties") for branches in schema.alternatives for branch in branches):
            self._tell(path, f"properties that only some of its alternatives declare are in {EXTRA}")

    def _note_extra(self, members: Members) -> None:
        for each in members.with_data():
            if each.name.lower() == EXTRA:
                self.findings.append(
                    SchemaFinding(each.name, f"takes the name of the column of undeclared fields, {EXTRA}")
                )

    def _note_names(self, members: list[Member], path: str) -> None:
        seen: dict[str, str] = {}
        for member in members:
            if isinstance(member.shape, Nothing):
                continue
            other = seen.setdefault(member.name.lower(), member.key)
            if other == member.key:
                continue
            differ = "differ only in case" if other.lower() == member.key.lower() else "would be the same column"
            here = f"{path}.{member.name}" if path else member.name
            self.findings.append(SchemaFinding(here, f"{other} and {member.key} {differ}"))

    def _tell(self, path: str, what: str) -> None:
        self.notes.append(SchemaFinding(path, what))

    def _note(self, path: str, problem: str) -> None:
        self.findings.append(SchemaFinding(path, problem))


def _in_order(declared: dict[str, list[Node]]) -> list[tuple[str, list[Node]]]:
    """Return properties in the order of `connect.index`, then that of the schema."""

    def place(entry: tuple[str, list[Node]]) -> float:
        index = _index(entry[1])
        return float("inf") if index is None else index

    return sorted(declared.items(), key=place)


def _index(nodes: list[Node]) -> int | None:
    """Return the `connect.index` of a property, which all of these schemas declare."""
    given = (node.get("connect.index") for node in nodes)
    return next((each for each in given if isinstance(each, int) and not isinstance(each, bool)), None)


def column_name(key: str) -> str:
    """Return the column of a property: characters other than letters, digits and `_` become `_`."""
    name = "".join(character if f"_{character}".isidentifier() else "_" for character in key)
    return name if name.isidentifier() else f"_{name}"


def _allows_null(raw: Any) -> bool:
    """Return whether a property's own schema names null, as its type or as an alternative."""
    if not isinstance(raw, dict):
        return False
    types, branches = raw.get("type"), (raw.get(keyword) for keyword in ("oneOf", "anyOf"))
    if types == "null" or (isinstance(types, list) and "null" in types):
        return True
    return any(_allows_null(each) for given in branches if isinstance(given, list) for each in given)
