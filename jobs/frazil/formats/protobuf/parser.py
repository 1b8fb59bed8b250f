"""Parse a `.proto` text to a file descriptor, which `google.protobuf` then resolves and checks.

Kept are the messages, the enums, the imports, and what Confluent's options say of them (`field_meta.py`).
Services, extensions, defaults and all other options are read and left out: no column depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2

from frazil.formats.protobuf.cursor import Cursor
from frazil.formats.protobuf.field_meta import add_option
from frazil.formats.protobuf.tokens import ProtoTextError

MOST_TEXT = 1_000_000
"""The longest text, in characters."""

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS: dict[str, int] = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS = {
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}
_MOST_NUMBER = 2**29 - 1


def parse(text: str) -> Any:
    """Return the FileDescriptorProto of a text. Its name is not set. Raises ProtoTextError with the first problem."""
    if len(text) > MOST_TEXT:
        raise ProtoTextError(f"the text has {len(text)} characters, more than {MOST_TEXT}")
    return _Parser(text).file()


class _Parser(Cursor):
    def file(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto(syntax="proto2")
        while self._next.kind != "end":
            self._file_element(file)
        if file.syntax == "proto2":
            file.ClearField("syntax")
        return file

    # --- the file

    def _file_element(self, file: Any) -> None:
        if self._accept(";"):
            return
        readers: dict[str, Callable[[Any], object]] = {
            "syntax": self._syntax,
            "edition": self._edition,
            "package": self._package,
            "import": self._import,
            "option": lambda file: add_option(file, *self._option_statement()),
            "message": lambda file: self._message(file.message_type.add(), file.syntax),
            "enum": lambda file: self._enum(file.enum_type.add()),
            "extend": lambda file: self._extend(file.syntax),
            "service": lambda _: self._service(),
        }
        start = self._take()
        if start.text not in readers:
            raise self._fail(f"expected a definition, found {start.text!r}", start)
        readers[start.text](file)

    def _edition(self, file: Any) -> None:
        raise self._fail("editions are not supported in this release, only proto2 and proto3")

    def _package(self, file: Any) -> None:
        file.package = self._full_name()
        self._expect(";")

    def _syntax(self, file: Any) -> None:
        self._expect("=")
        syntax = self._string()
        if syntax not in ("proto2", "proto3"):
            raise self._fail(f"expected the syntax proto2 or proto3, found {syntax!r}")
        self._expect(";")
        file.syntax = syntax

    def _import(self, file: Any) -> None:
        is_public = self._accept("public")
        if not is_public:
            self._accept("weak")
        if is_public:
            file.public_dependency.append(len(file.dependency))
        file.dependency.append(self._string())
        self._expect(";")

    def _service(self) -> None:
        self._name()
        self._expect("{")
        depth = 1
        while depth:
            token = self._take()
            if token.kind == "symbol":
                depth += {"{": 1, "}": -1}.get(token.text, 0)

    # --- messages

    def _message(self, message: Any, syntax: str) -> None:
        message.name = self._name()
        self._message_body(message, syntax)

    def _message_body(self, message: Any, syntax: str) -> None:
        self._enter()
        self._expect("{")
        while not self._accept("}"):
            self._message_element(message, syntax)
        self._leave()
        _add_synthetic_oneofs(message)

    def _message_element(self, message: Any, syntax: str) -> None:
        if self._accept(";"):
            return
        readers: dict[str, Callable[[Any, str], object]] = {
            "message": lambda message, syntax: self._message(message.nested_type.add(), syntax),
            "enum": lambda message, _: self._enum(message.enum_type.add()),
            "option": lambda message, _: self._message_option(message),
            "extensions": lambda message, _: self._extensions(message),
            "reserved": lambda *_: self._reserved(),
            "extend": lambda _, syntax: self._extend(syntax),
            "oneof": self._oneof,
        }
        read = readers.get(self._next.text)
        if read is None:
            self._field(message, syntax)
        else:
            self._take()
            read(message, syntax)

    def _message_option(self, message: Any) -> None:
        option = self._option_statement()
        if option == ("message_set_wire_format", "true"):
            raise self._fail("message_set_wire_format is not supported")
        add_option(message, *option)

    def _extensions(self, message: Any) -> None:
        for start, end in self._ranges(_MOST_NUMBER):
            message.extension_range.add(start=start, end=end + 1)
        self._options()
        self._expect(";")

    def _ranges(self, most: int) -> list[tuple[int, int]]:
        ranges = []
        while True:
            start = self._integer()
            end = start
            if self._accept("to"):
                end = most if self._accept("max") else self._integer()
            ranges.append((start, end))
            if not self._accept(","):
                return ranges

    def _reserved(self) -> None:
        """Read reserved numbers or names: nothing depends on them."""
        if self._next.kind == "string":
            self._string()
            while self._accept(","):
                self._string()
        else:
            self._ranges(_MOST_NUMBER)
        self._expect(";")

    def _oneof(self, message: Any, syntax: str) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._accept("option"):
                self._option_statement()
                continue
            self._field(message, syntax).oneof_index = index

    def _field(self, message: Any, syntax: str) -> Any:
        label = self._take().text if self._next.text in _LABELS else None
        type_name = self._full_name()
        if type_name == "map" and label is None and self._accept("<"):
            return self._map_field(message)
        field = message.field.add(label=_LABELS[label or "optional"])
        if label == "optional" and syntax == "proto3":
            field.proto3_optional = True
        if type_name == "group" and not self._names_a_field():
            return self._group(message, field, syntax)
        if type_name in _SCALARS:
            field.type = _SCALARS[type_name]
        else:
            field.type_name = type_name
        return self._named_field(field)

    def _names_a_field(self) -> bool:
        """Return whether `group` was a field's type, whose name follows; the name of a group has a capital."""
        return not self._next.text[:1].isupper()

    def _named_field(self, field: Any) -> Any:
        field.name = self._name()
        self._numbered(field)
        self._expect(";")
        return field

    def _numbered(self, field: Any) -> None:
        self._expect("=")
        token = self._next
        number = self._integer()
        if not 1 <= number <= _MOST_NUMBER:
            raise self._fail(f"expected a field number from 1 to {_MOST_NUMBER}, found {number}", token)
        field.number = number
        self._add_options(field)

    def _add_options(self, descriptor: Any) -> None:
        for name, value in self._options():
            add_option(descriptor, name, value)

    def _map_field(self, message: Any) -> Any:
        key = self._full_name()
        self._expect(",")
        value = self._full_name()
        self._expect(">")
        field = message.field.add(label=_FIELD.LABEL_REPEATED, type=_FIELD.TYPE_MESSAGE)
        self._named_field(field)
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        field.type_name = entry.name
        if key not in _SCALARS or key in ("float", "double", "bytes"):
            raise self._fail(f"{key} cannot be the type of a map's keys")
        entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_SCALARS[key])
        held = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
        if value in _SCALARS:
            held.type = _SCALARS[value]
        else:
            held.type_name = value
        if field.HasField("options"):
            held.options.CopyFrom(field.options)
        return field

    def _group(self, message: Any, field: Any, syntax: str) -> Any:
        group = message.nested_type.add(name=self._name())
        field.name = group.name.lower()
        field.type, field.type_name = _FIELD.TYPE_GROUP, group.name
        self._numbered(field)
        self._message_body(group, syntax)
        return field

    def _extend(self, syntax: str) -> None:
        """Read extensions of a message, which are left out."""
        self._full_name()
        aside = descriptor_pb2.DescriptorProto()
        self._expect("{")
        while not self._accept("}"):
            if not self._accept(";"):
                self._field(aside, syntax)

    # --- enums

    def _enum(self, enum: Any) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            name = self._name()
            if name == "option" and not self._at("="):
                option = self._option_statement()
                if option == ("allow_alias", "true"):
                    enum.options.allow_alias = True
                add_option(enum, *option)
            elif name == "reserved" and not self._at("="):
                self._reserved()
            else:
                self._expect("=")
                self._add_options(enum.value.add(name=name, number=self._enum_number()))
                self._expect(";")

    def _enum_number(self) -> int:
        token = self._next
        number = self._integer()
        if not -(2**31) <= number < 2**31:
            raise self._fail(f"expected a number of 32 bits, found {number}", token)
        return number


def _entry_name(field_name: str) -> str:
    """Return the name of the message of a map's entries, as `protoc` derives it."""
    return "".join(part[:1].upper() + part[1:] for part in field_name.split("_")) + "Entry"


def _add_synthetic_oneofs(message: Any) -> None:
    """Put each `optional` field of proto3 into a oneof of its own, which is how descriptors mark its presence."""
    taken = {each.name for each in (*message.oneof_decl, *message.field)}
    for field in message.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)
