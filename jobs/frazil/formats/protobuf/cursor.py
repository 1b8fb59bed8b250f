"""Read names, numbers and the values of options from the tokens of a `.proto` text."""

from __future__ import annotations

from typing import Any

from frazil.formats.protobuf.tokens import ProtoTextError, Token, TokenKind, error_at, number_of, string_of, tokens

MOST_LEVELS = 100
"""The maximum nesting of messages, and of the values of options."""

Option = tuple[str, Any]
"""The name of an option and its value: a number or word as text, a text, or a list of options for `{…}`."""


class Cursor:
    """The place in a text up to which it was read. Raises ProtoTextError for what is not expected there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = next(self._tokens)
        self._levels = 0

    def _fail(self, problem: str, token: Token | None = None) -> ProtoTextError:
        return error_at(self._text, (token or self._next).at, problem)

    def _take(self) -> Token:
        token = self._next
        if token.kind == "end":
            raise self._fail("the text ends too early")
        self._next = next(self._tokens)
        return token

    def _is_at(self, kind: TokenKind) -> bool:
        return self._next.kind == kind

    def _at(self, text: str) -> bool:
        return self._next.text == text and self._next.kind != "string"

    def _accept(self, text: str) -> bool:
        if not self._at(text):
            return False
        self._take()
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._fail(f"expected {text!r}, found {self._next.text!r}")

    def _name(self) -> str:
        if self._next.kind != "name":
            raise self._fail(f"expected a name, found {self._next.text!r}")
        return self._take().text

    def _full_name(self) -> str:
        """Read a name with dots, and maybe one at its start."""
        name = "." if self._accept(".") else ""
        name += self._name()
        while self._accept("."):
            name += "." + self._name()
        return name

    def _integer(self) -> int:
        sign = -1 if self._accept("-") else 1
        token = self._take()
        try:
            return sign * number_of(token.text)
        except ValueError:
            raise self._fail(f"expected an integer, found {token.text!r}", token) from None

    def _string(self) -> str:
        """Read a string, which may be written in several parts."""
        if not self._is_at("string"):
            raise self._fail(f"expected a string, found {self._next.text!r}")
        parts = []
        while self._is_at("string"):
            parts.append(string_of(self._take().text))
        return "".join(parts)

    def _enter(self) -> None:
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise self._fail(f"nested deeper than {MOST_LEVELS} levels")

    def _leave(self) -> None:
        self._levels -= 1

    # --- options

    def _option_statement(self) -> Option:
        option = self._option()
        self._expect(";")
        return option

    def _options(self) -> list[Option]:
        """Read the options of a field in brackets, if there are any."""
        options: list[Option] = []
        if self._accept("["):
            options.append(self._option())
            while self._accept(","):
                options.append(self._option())
            self._expect("]")
        return options

    def _option(self) -> Option:
        name = self._option_name_part()
        while self._accept("."):
            name += "." + self._option_name_part()
        self._expect("=")
        return name, self._value()

    def _option_name_part(self) -> str:
        if not self._accept("("):
            return self._name()
        name = self._full_name()
        self._expect(")")
        return f"({name.removeprefix('.')})"

    def _value(self) -> Any:
        if self._next.kind == "string":
            return self._string()
        for opening, closing in (("{", "}"), ("<", ">")):
            if self._accept(opening):
                return self._aggregate(closing)
        if self._accept("["):
            return self._list()
        sign = "-" if self._accept("-") else ""
        if self._next.kind not in ("name", "number"):
            raise self._fail(f"expected a value, found {self._next.text!r}")
        return sign + (self._take().text if self._next.kind == "number" else self._full_name())

    def _list(self) -> list[Option]:
        """Read values in brackets, each as an option without a name."""
        self._enter()
        values: list[Option] = []
        while not self._accept("]"):
            values.append(("", self._value()))
            self._accept(",")
        self._leave()
        return values

    def _aggregate(self, closing: str) -> list[Option]:
        """Read the fields of a message in the text format."""
        self._enter()
        fields: list[Option] = []
        while not self._accept(closing):
            fields.append((self._aggregate_name(), self._aggregate_value()))
            if not self._accept(","):
                self._accept(";")
        self._leave()
        return fields

    def _aggregate_name(self) -> str:
        if not self._accept("["):
            return self._name()
        name = self._full_name()
        while self._accept("/"):
            name += "/" + self._full_name()
        self._expect("]")
        return f"[{name}]"

    def _aggregate_value(self) -> Any:
        if not self._accept(":") and not (self._at("{") or self._at("<")):
            raise self._fail(f"expected ':', found {self._next.text!r}")
        return self._value()
