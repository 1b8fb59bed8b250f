"""`fields`: fields of JSON values with their types. A mapping is an object, a list of one type an array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from frazil.model.declared import ANY_NAME, EXTRA, NAMED, WORDS, decimal_of
from frazil.specs.document import ListNode, MapNode, Node, ScalarNode, duplicates
from frazil.specs.problems import suggest
from frazil.specs.shapes import At, JsonSchema, Rejected, describe

NAME = re.compile(r"[^\W\d]\w*")
POSSIBLE = f"{', '.join(WORDS)}, decimal(p, s)"
PARTS = "{field: type, …}, [type] or {'*': type}"
_A_TYPE = f"a type, {PARTS}"


@dataclass(frozen=True, slots=True)
class DeclaredFields:
    """A mapping from fields to types, as the JSON text that `model.declared` describes."""

    label: str = "a mapping from fields to types"

    def read(self, node: Node, at: At) -> str:
        if not isinstance(node, MapNode) or not node.entries:
            found = "an empty mapping" if isinstance(node, MapNode) else describe(node)
            raise at.reject(node.mark, f"expected {self.label}, found {found}", hint="write {id: long, name: string}")
        before = len(at.problems.found)
        for name, _ in node.entries:
            if name.text.lower() == EXTRA:
                hint = "leave it out: the table has this column"
                at.under(name.text).reject(name.mark, f"{EXTRA} holds the fields that are not declared", hint=hint)
        declared = _object(node, at)
        if len(at.problems.found) > before:
            raise Rejected(at.path)
        return json.dumps(declared, ensure_ascii=False)

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["string", "object", "array"]}}


def _object(node: MapNode, at: At) -> dict[str, object]:
    _check_names(node, at)
    return dict(_fields(node, at))


def _fields(node: MapNode, at: At) -> Iterator[tuple[str, object]]:
    for name, value in node.entries:
        try:
            yield name.text, _type(value, at.under(name.text))
        except Rejected:
            continue


def _check_names(node: MapNode, at: At) -> None:
    for first, again in duplicates(node):
        at.under(again.text).reject(
            again.mark, f"duplicate field; first on line {first.mark.line}", hint="keep one of them"
        )
    seen: dict[str, str] = {}
    for name, _ in node.entries:
        here = at.under(name.text)
        if not NAME.fullmatch(name.text):
            hint = f"leave the field out: {EXTRA} holds it"
            here.reject(name.mark, "a column's name has letters, digits and _ only, and no digit first", hint=hint)
        other = seen.setdefault(name.text.lower(), name.text)
        if other != name.text:
            hint = f"declare one of them: {EXTRA} holds the other"
            here.reject(name.mark, f"{other} and {name.text} differ only in case", hint=hint)


def _type(node: Node, at: At) -> object:
    match node:
        case MapNode() if [name.text for name, _ in node.entries] == [ANY_NAME]:
            return {ANY_NAME: _type(node.entries[0][1], at.under(ANY_NAME))}
        case MapNode() if node.entries:
            return _object(node, at)
        case ListNode() if len(node.items) == 1:
            return [_type(node.items[0], at.item(0))]
        case ScalarNode() if not node.is_null():
            return _word(node, at)
        case _:
            found = describe(node) if isinstance(node, ScalarNode) else "none"
            raise at.reject(node.mark, f"expected {_A_TYPE}, found {found}", hint="write a type, such as string")


def _word(node: ScalarNode, at: At) -> str:
    text = at.printable(node, expected=_A_TYPE).text
    digits = decimal_of(text)
    if digits is not None:
        return f"decimal({digits[0]}, {digits[1]})"
    if text in (*WORDS, *NAMED):
        return text
    hint = suggest(text, WORDS, possible=POSSIBLE)
    raise at.reject(node.mark, f'expected {_A_TYPE}, found "{text}"', hint=hint)


DECLARED_FIELDS = DeclaredFields()
