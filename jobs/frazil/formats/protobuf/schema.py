"""A writer schema: the file's messages with every type resolved, and the one message that makes the rows.

`google.protobuf` resolves and checks the descriptors that the parser makes of texts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from frazil.formats.protobuf.builtin import BUILT_IN
from frazil.formats.protobuf.field_meta import keep_meta_alone, params_of, tags_of
from frazil.formats.protobuf.parser import MOST_TEXT, parse
from frazil.formats.protobuf.tokens import ProtoTextError
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import Reference, SchemaFinding

_ROOT = "(schema)"
"""The name of the schema's own file, which no import can have."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")

MessagePath = tuple[int, ...]
"""The index of a message among those of its file, or of the message around it, for each level."""


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """The message that makes the rows, as a descriptor of `google.protobuf`.

    `path` is its path in the file, and `names` are the full names of all messages of the file by their paths.
    `extensible` are the full names of the messages that have extension ranges.
    """

    message: Any
    path: MessagePath
    names: Mapping[MessagePath, str]
    extensible: frozenset[str]
    params: Mapping[str, Mapping[str, str]] = field(repr=False)
    tags: Mapping[str, tuple[str, ...]] = field(repr=False)
    """Of fields, messages and enums, by full name."""
    pool: Any = field(repr=False)
    json_shapes: dict[str, object] = field(default_factory=dict, repr=False)
    """The shapes of messages that become JSON, by full name, once they were needed."""

    def find(self, name: str) -> Any:
        """Return the descriptor of a message that the schema uses."""
        return self.pool.FindMessageTypeByName(name)

    def params_of(self, descriptor: Any) -> Mapping[str, str]:
        """Return the parameters of confluent.field_meta for a field."""
        return self.params.get(descriptor.full_name, {})

    def tags_of(self, descriptor: Any) -> tuple[str, ...]:
        """Return the tags of a field and of its type; of a map, those of its values as well."""
        message, enum = descriptor.message_type, descriptor.enum_type
        found = self.tags.get(descriptor.full_name, ())
        if message is not None and message.GetOptions().map_entry:
            found += self.tags_of(message.fields_by_number[2])
        elif message is not None or enum is not None:
            found += self.tags.get((enum if message is None else message).full_name, ())
        return tuple(dict.fromkeys(found))


def parse_schema(text: str, references: Sequence[Reference] = (), message: str | None = None) -> ProtobufSchema:
    """Read the schema in `text`, whose imports are among the references or built in.

    `message` is the full name of the message that makes the rows; None for the first one of the file. Raises
    IncompatibleSchemaError.
    """
    try:
        root = descriptor_of(text)
        files = tuple(_with_imports(root, references))
        pool = _pool(files, _missing(files, root))
    except ProtoTextError as problem:
        raise refuse([SchemaFinding("", str(problem))]) from problem
    except RecursionError as problem:
        raise refuse([SchemaFinding("", "types are nested too deeply to be read")]) from problem
    except ValueError as problem:  # of texts that are no UTF-8, and numbers of thousands of digits
        raise refuse([SchemaFinding("", f"the text is no schema: {problem}")]) from problem
    names = dict(_names(root.message_type, root.package, with_entries=False))
    path = _path(names, message)
    _check_unambiguous(root, path, names[path])
    extensible, params = _facts(files)
    tags = dict(_tags(files))
    return ProtobufSchema(pool.FindMessageTypeByName(names[path]), path, names, extensible, params, tags, pool)


def refuse(findings: Iterable[SchemaFinding]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        "the Protobuf schema cannot become columns: " + "; ".join(map(str, findings)),
        hint="register a corrected schema, or leave the topic out.",
    )


@lru_cache(maxsize=256)
def descriptor_of(text: str) -> Any:
    """Return the FileDescriptorProto of a `.proto` text, or of a serialized one in base64, as some clients register.

    Raises ProtoTextError. Do not change the result, which is cached.
    """
    if len(text) <= 2 * MOST_TEXT and _BASE64.fullmatch(text):
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
        except (binascii.Error, DecodeError) as problem:
            raise ProtoTextError("neither a .proto text nor a serialized file descriptor") from problem
        if file.syntax == "editions":
            raise ProtoTextError("editions are not supported in this release, only proto2 and proto3")
        _leave_out_extensions(file)
        return file
    return parse(text)


def _leave_out_extensions(file: Any) -> None:
    """Remove what no column depends on; the parser leaves out the same."""
    file.ClearField("service")
    file.ClearField("extension")
    keep_meta_alone(file)
    messages = list(file.message_type)
    while messages:
        message = messages.pop()
        message.ClearField("extension")
        messages += message.nested_type


def _with_imports(root: Any, references: Sequence[Reference]) -> Iterator[Any]:
    """Yield the schema's file and those that it imports, dependencies first, under the names of their imports.

    An import that exists nowhere is left out: files often import options, which are not read. A type that is then
    missing is an error of the pool.
    """
    known: dict[str, str] = {each.name: each.text for each in references}
    states: dict[str, bool] = {}

    def visit(name: str, file: Any) -> Iterator[Any]:
        states[name] = False
        copy = descriptor_pb2.FileDescriptorProto()
        copy.CopyFrom(file)
        copy.name = name
        copy.ClearField("dependency")
        copy.ClearField("public_dependency")
        copy.ClearField("weak_dependency")
        for imported in dict.fromkeys(file.dependency):
            text = BUILT_IN.get(imported, known.get(imported))
            if text is None:
                continue
            if states.get(imported) is False:
                raise ProtoTextError(f"{imported} imports itself")
            if imported not in states:
                yield from visit(imported, _imported(imported, text))
            copy.dependency.append(imported)
        states[name] = True
        yield copy

    yield from visit(_ROOT, root)


def _imported(name: str, text: str) -> Any:
    try:
        return descriptor_of(text)
    except ProtoTextError as problem:
        raise ProtoTextError(f"{name}: {problem}") from problem


def _missing(files: Sequence[Any], root: Any) -> str:
    """Return what is to be said about imports of the schema that are neither built in nor among the references."""
    missing = sorted(set(root.dependency) - {file.name for file in files})
    return f"; it imports {', '.join(missing)}, which its references do not have" if missing else ""


def _pool(files: Sequence[Any], missing: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError, UnicodeEncodeError) as problem:
            where = "" if file.name == _ROOT else f"{file.name}: "
            what = str(problem).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise ProtoTextError(f"{where}the descriptor does not compile: {what}{missing}") from problem
    return pool


def _names(
    messages: Iterable[Any], prefix: str, path: MessagePath = (), *, with_entries: bool
) -> Iterator[tuple[MessagePath, str]]:
    """Yield the full name of each message with its path, in which the entries of maps have a place or have none."""
    counted = (each for each in messages if with_entries or not each.options.map_entry)
    for index, message in enumerate(counted):
        name = f"{prefix}.{message.name}" if prefix else message.name
        yield (*path, index), name
        yield from _names(message.nested_type, name, (*path, index), with_entries=with_entries)


def paths_by_name(text: str) -> tuple[MessagePath, ...]:
    """Return the path of each message of the file, sorted by full name, with the entries of maps among them.

    An entry of a map has a path that no message has.
    """
    root = descriptor_of(text)
    paths = {name: path for path, name in _names(root.message_type, root.package, with_entries=False)}
    names = [name for _, name in _names(root.message_type, root.package, with_entries=True)]
    return tuple(paths.get(name, NO_MESSAGE) for name in sorted(names))


NO_MESSAGE: MessagePath = (2**30,)
"""A path that no message of a file has."""


def _check_unambiguous(root: Any, path: MessagePath, message: str) -> None:
    """Raise IncompatibleSchemaError if clients give the message different paths.

    Descriptors have a message for the entries of each map. Clients that count nested messages in descriptors, such as
    Confluent's in Python, count these as well; its client in Java counts the messages of the text.
    """
    if dict(_names(root.message_type, root.package, with_entries=True)).get(path) != message:
        problem = (
            f"a map comes before {message} in the message around it, so that clients count its index differently, and"
            " records cannot be told apart: move it in front of the map, or out of that message"
        )
        raise refuse([SchemaFinding("", problem)])


def _path(names: Mapping[MessagePath, str], message: str | None) -> MessagePath:
    if not names:
        raise refuse([SchemaFinding("", "the file has no message")])
    if message is None:
        return (0,)
    path = next((path for path, name in names.items() if name == message), None)
    if path is None:
        listed = ", ".join(list(names.values())[:20])
        raise refuse([SchemaFinding("", f"the file has no message {message}, which the spec names; it has {listed}")])
    return path


def _facts(files: Iterable[Any]) -> tuple[frozenset[str], dict[str, dict[str, str]]]:
    """Return the messages with extension ranges, and the parameters of fields, by full name."""
    extensible: set[str] = set()
    params: dict[str, dict[str, str]] = {}
    for file in files:
        pending = [(each, file.package) for each in file.message_type]
        while pending:
            message, prefix = pending.pop()
            name = f"{prefix}.{message.name}" if prefix else message.name
            if message.extension_range:
                extensible.add(name)
            for each in message.field:
                if each.HasField("options") and (found := params_of(each.options)):
                    params[f"{name}.{each.name}"] = found
            pending += [(inner, name) for inner in message.nested_type]
    return frozenset(extensible), params


def _tags(files: Iterable[Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each field, message and enum that has tags, by full name. The tags of a file are those of its types."""
    for file in files:
        of_file = tags_of(file.options) if file.HasField("options") else ()
        pending = [(each, file.package) for each in (*file.message_type, *file.enum_type)]
        while pending:
            kind, prefix = pending.pop()
            name = f"{prefix}.{kind.name}" if prefix else kind.name
            is_message = isinstance(kind, descriptor_pb2.DescriptorProto)
            of_values = () if is_message else (tag for value in kind.value for tag in _own_tags(value))
            if tags := (*of_file, *_own_tags(kind), *of_values):
                yield name, tags
            if is_message:
                yield from ((f"{name}.{each.name}", tags) for each in kind.field if (tags := _own_tags(each)))
                pending += [(inner, name) for inner in (*kind.nested_type, *kind.enum_type)]


def _own_tags(descriptor: Any) -> tuple[str, ...]:
    return tags_of(descriptor.options) if descriptor.HasField("options") else ()
