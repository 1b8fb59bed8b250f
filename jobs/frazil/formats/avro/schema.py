"""Parse schema texts from a registry into one `AvroSchema`.

Names, namespaces and logical types follow the Apache Avro 1.12 specification, sections "Names", "Complex Types"
and "Logical Types". One error lists every problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast, get_args

from frazil.formats.avro.logical import logical_of
from frazil.formats.avro.memo import MOST_FIELDS
from frazil.formats.avro.scope import Part, Scope
from frazil.formats.avro.text import normalised
from frazil.formats.avro.types import (
    NULL,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    NamedType,
    Names,
    Primitive,
    PrimitiveName,
    Record,
    Ref,
    Union,
)
from frazil.formats.connect import ConnectType, connect_type
from frazil.formats.tags import tags_of
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaFinding

_PRIMITIVES = frozenset(get_args(PrimitiveName))
_DEFINITIONS = ("record", "error", "enum", "fixed")

MOST_TEXT = 1_000
"""The longest text of a field in the memo, in characters, so that the memo takes only a few megabytes."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A field that was read before, with all effects of reading it."""

    field: Field
    defined: dict[str, NamedType]
    used: dict[str, NamedType]
    ignored: tuple[SchemaFinding, ...]
    """Their paths are relative to the field's path."""

    def fits(self, scope: Scope) -> bool:
        """Return whether the names that the field uses mean the same here, and the names that it defines are free."""
        if not scope.is_free_of(self.defined):
            return False
        return not self.used or all(scope.is_complete(name, definition) for name, definition in self.used.items())


_FIELDS: dict[tuple[str, str], _Known] = {}
"""Fields by namespace and text. Schema versions share most fields, and a process may read thousands of versions."""


def parse_schema(text: str, references: Iterable[str] = ()) -> AvroSchema:
    """Parse the schema in `text`. `references` are the texts of the schemas that it uses, dependencies first.

    Raises IncompatibleSchemaError with every problem found.
    """
    parser = _Parser()
    try:
        for reference in dict.fromkeys(references):
            parser.parse(reference)
        root = parser.parse(text)
        if not parser.problems:
            text, named = normalised(root, parser.scope.named), parser.scope.named
            return AvroSchema(text, root, named, tuple(parser.ignored), tuple(parser.tags))
    except RecursionError:
        parser.note("", "types are nested too deeply to be read")
    raise _refused(parser.problems)


def _refused(problems: Iterable[SchemaFinding]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        "not a valid Avro schema: " + "; ".join(map(str, problems)),
        hint="compare the registered schema with the Avro 1.12 specification and register a corrected one.",
    )


def refuse(findings: Iterable[SchemaFinding]) -> IncompatibleSchemaError:
    """Return the error for a schema that is valid but that a table cannot hold."""
    return IncompatibleSchemaError(
        "the Avro schema cannot become columns: " + "; ".join(map(str, findings)),
        hint="register a schema without these, or leave the topic out.",
    )


class _Parser:
    """Reads texts into one set of names. A type that cannot be read is replaced by null and noted as a problem."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.problems: list[SchemaFinding] = []
        self.ignored: list[SchemaFinding] = []
        self.tags: list[str] = []
        """The tags of the types without names in the field that is read."""

    def note(self, path: str, problem: str) -> None:
        self.problems.append(SchemaFinding(path, problem))

    def parse(self, text: str) -> AvroType:
        try:
            raw = json.loads(text)
        except ValueError as error:
            self.note("", f"not JSON: {error}")
            return NULL
        self.tags = []
        return self.type(raw, "", "")

    def type(self, raw: object, namespace: str, path: str) -> AvroType:
        if isinstance(raw, list):
            return self._union(raw, namespace, path)
        if isinstance(raw, dict):
            return self._object(raw, namespace, path)
        return self._by_name(raw, {}, namespace, path)

    def _object(self, raw: Mapping[str, object], namespace: str, path: str) -> AvroType:
        if raw.get("type") not in _DEFINITIONS:
            self.tags += tags_of(raw)
        match raw.get("type"):
            case dict() | list() as inner:
                return self.type(inner, namespace, path)
            case "array":
                return Array(self.type(raw.get("items"), namespace, path + "[]"), _connect(raw))
            case "map":
                return Map(self.type(raw.get("values"), namespace, path + "{}"))
            case kind if kind in _DEFINITIONS:
                return self._definition(str(kind), raw, namespace, path)
            case name:
                return self._by_name(name, raw, namespace, path)

    def _by_name(self, name: object, about: Mapping[str, object], namespace: str, path: str) -> AvroType:
        if isinstance(name, str) and name in _PRIMITIVES:
            return Primitive(cast(PrimitiveName, name), self._logical(about, name, path), _connect(about))
        if isinstance(name, str):
            full_name = self.scope.look_up(_qualified(name, namespace), name)
            if full_name is not None:
                return Ref(full_name)
        self.note(path, "a type is missing" if name is None else f"unknown type {name!r}")
        return NULL

    def _logical(self, about: Mapping[str, object], on: str, path: str) -> Logical | None:
        """Return the logical type, or None. An unknown or invalid logical type is noted as ignored."""
        logical, name = logical_of(about, on=on), about.get("logicalType")
        if logical is None and name is not None:
            self.ignored.append(
                SchemaFinding(path, f"the logical type {name} is ignored: not valid on {on}, or unknown")
            )
        return logical

    def _union(self, given: list[object], namespace: str, path: str) -> AvroType:
        branches = []
        for branch in given:  # a comprehension would add a stack frame per level
            branches.append(self.type(branch, namespace, path))
        kinds = [_kind(branch) for branch in branches]
        if not branches:
            self.note(path, "a union without branches")
        if "union" in kinds:
            self.note(path, "a union directly inside a union")
        for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
            self.note(path, f"a union with two branches of type {kind}")
        return Union(tuple(branches))

    def _definition(self, kind: str, raw: Mapping[str, object], namespace: str, path: str) -> AvroType:
        full_name = self._full_name(raw, namespace, path)
        namespace = full_name.rpartition(".")[0]
        aliases = tuple(_qualified(alias, namespace) for alias in self._texts(raw, "aliases", path))
        if full_name in self.scope.open:
            self.note(path, f"{full_name} is defined inside itself")
            return NULL
        self.scope.begin(full_name)
        if kind == "enum":
            return self._keep(Enum(full_name, self._symbols(raw, path), aliases, _doc(raw), tags_of(raw)), path)
        if kind == "fixed":
            logical = self._logical(raw, "fixed", path)
            return self._keep(Fixed(full_name, self._size(raw, path), logical, aliases, tags_of(raw)), path)
        self.scope.open.add(full_name)
        with self.scope.part() as part:
            fields = self._fields(raw, namespace, path)
        self.scope.open.discard(full_name)
        self.scope.settle(full_name, part)
        return self._keep(Record(full_name, fields, aliases, _doc(raw), tags_of(raw), _connect(raw)), path)

    def _keep(self, named: NamedType, path: str) -> Ref:
        if self.scope.named.setdefault(named.name, named) != named:
            self.note(path, f"{named.name} is defined twice, differently")
        return Ref(named.name)

    def _fields(self, raw: Mapping[str, object], namespace: str, path: str) -> tuple[Field, ...]:
        given = raw.get("fields")
        if not isinstance(given, list):
            self.note(path, "a record without a list of fields")
            return ()
        fields = []
        for item in given:
            if not isinstance(item, dict):
                self.note(path, f"a field is an object, not {item!r}")
                continue
            fields.append(self._known_field(item, namespace, path))
        self._note_repeated([field.name for field in fields], "field", path)
        return tuple(fields)

    def _known_field(self, item: Mapping[str, object], namespace: str, path: str) -> Field:
        """Return the field, from the memo if its text was read before and its names mean the same here."""
        text = repr(item)  # exact for JSON values, and faster than json.dumps
        known = _FIELDS.get((namespace, text))
        if known is not None and known.fits(self.scope):
            self.scope.add(known.defined)
            self.scope.use_all(known.used)
            if known.ignored:
                here = _join(path, known.field.name)
                self.ignored += [SchemaFinding(here + note.path, note.problem) for note in known.ignored]
            return known.field
        count, problems, ignored = len(self.scope.named), len(self.problems), len(self.ignored)
        with self.scope.part() as part:
            field = self._field(item, namespace, path)
        if len(text) > MOST_TEXT or len(self.problems) != problems or not part.is_self_contained:
            return field
        length = len(_join(path, field.name))
        notes = tuple(SchemaFinding(note.path[length:], note.problem) for note in self.ignored[ignored:])
        return self._remember((namespace, text), field, part, self.scope.defined_since(count), notes)

    def _remember(
        self,
        key: tuple[str, str],
        field: Field,
        part: Part,
        defined: dict[str, NamedType],
        ignored: tuple[SchemaFinding, ...],
    ) -> Field:
        used = {name: self.scope.named[name] for name in part.used}
        shared = replace(field, is_shared=True, names=Names(tuple(defined), tuple(used)))
        if len(_FIELDS) >= MOST_FIELDS:
            _FIELDS.clear()
        _FIELDS[key] = _Known(shared, defined, used, ignored)
        return shared

    def _field(self, item: Mapping[str, object], namespace: str, path: str) -> Field:
        name = self._name(item.get("name"), path)
        here = _join(path, name)
        aliases = self._texts(item, "aliases", here)
        around, self.tags = self.tags, [*tags_of(item)]
        field_type = self.type(item.get("type"), namespace, here)
        tags, self.tags = tuple(self.tags), around
        return Field(name, field_type, aliases, _doc(item), tags=tags, has_default="default" in item)

    def _full_name(self, raw: Mapping[str, object], enclosing: str, path: str) -> str:
        name, namespace = raw.get("name"), raw.get("namespace", enclosing)
        if not isinstance(namespace, str):
            self.note(path, f"a namespace is a text, not {namespace!r}")
            namespace = enclosing
        full_name = _qualified(name, namespace) if isinstance(name, str) else name
        parts = full_name.split(".") if isinstance(full_name, str) else [full_name]
        if len(parts) == 1 and isinstance(name, str) and name in _PRIMITIVES:
            self.note(path, f"{parts[-1]} cannot be the name of a definition")
        spaces = [self._name(part, path, of_namespace=True) for part in parts[:-1]]
        return ".".join([*spaces, self._name(parts[-1], path)])

    def _name(self, name: object, path: str, *, of_namespace: bool = False) -> str:
        """Return the name, and note a problem if it is not one.

        Letters of any script are accepted, as in most libraries, although the specification allows only ASCII. A
        namespace may contain `-`, because namespaces are often derived from topic names.
        """
        if isinstance(name, str) and (name.replace("-", "_") if of_namespace else name).isidentifier():
            return name
        self.note(path, "a name is missing" if name is None else f"{name!r} is not a name")
        return str(name)

    def _symbols(self, raw: Mapping[str, object], path: str) -> tuple[str, ...]:
        symbols = self._texts(raw, "symbols", path)
        if not symbols:
            self.note(path, "an enum without symbols")
        self._note_repeated(symbols, "symbol", path)
        return tuple(self._name(symbol, path) for symbol in symbols)

    def _size(self, raw: Mapping[str, object], path: str) -> int:
        size = raw.get("size")
        if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**31:
            return size
        self.note(path, f"{size!r} is not the size of a fixed")
        return 1

    def _texts(self, raw: Mapping[str, object], key: str, path: str) -> tuple[str, ...]:
        given = raw.get(key, [])
        if isinstance(given, list) and all(isinstance(item, str) for item in given):
            return tuple(given)
        self.note(path, f"{key} is a list of texts, not {given!r}")
        return ()

    def _note_repeated(self, names: Iterable[str], what: str, path: str) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.note(path, f"{what} {name} is there twice")
            seen.add(name)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _qualified(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _doc(raw: Mapping[str, object]) -> str | None:
    """Return the comment, as UTF-8 can hold it: half of a surrogate pair, which JSON may have, becomes `?`."""
    doc = raw.get("doc")
    return doc.encode(errors="replace").decode() if isinstance(doc, str) else None


def _connect(raw: Mapping[str, object]) -> ConnectType | None:
    return connect_type(raw, "connect.name", "connect.parameters")


def _kind(avro_type: AvroType) -> str:
    """Return the kind of a type. Two branches of a union must not have the same kind."""
    if isinstance(avro_type, Primitive | Ref):
        return avro_type.name
    return type(avro_type).__name__.lower()
